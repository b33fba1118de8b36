import psycopg
import pytest

from support import value


@pytest.mark.parametrize("key", ["a", "logs.error", "app.user-service.v1_2", "A.9", "-", "k" * 255])
def test_a_key_of_words_and_dots_is_valid(connection, key):
    assert value(connection, "select pgmq.validate_routing_key(%s)", key) is True


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (None, "routing_key cannot be NULL or empty"),
        ("", "routing_key cannot be NULL or empty"),
        ("!" * 256, "routing_key length cannot exceed 255 characters, got 256 characters"),
        (
            ".a b",
            "routing_key contains invalid characters. Only alphanumeric, dots, hyphens, and underscores are "
            "allowed. Got: .a b",
        ),
        (
            "a.*",
            "routing_key contains invalid characters. Only alphanumeric, dots, hyphens, and underscores are "
            "allowed. Got: a.*",
        ),
        (
            "a\n",
            "routing_key contains invalid characters. Only alphanumeric, dots, hyphens, and underscores are "
            "allowed. Got: a\n",
        ),
        (".a..b.", "routing_key cannot start with a dot. Got: .a..b."),
        ("a..b.", "routing_key cannot end with a dot. Got: a..b."),
        ("a..b", "routing_key cannot contain consecutive dots. Got: a..b"),
    ],
)
def test_first_problem_is_reported_with_a_hint(connection, key, message):
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        connection.execute("select pgmq.validate_routing_key(%s::text)", (key,))

    assert caught.value.diag.message_primary == message
    assert caught.value.diag.message_hint
