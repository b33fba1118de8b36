import psycopg
import pytest

from support import value


@pytest.mark.parametrize(
    "pattern", ["a", "logs.*", "logs.#", "#", "*", "#.error", "a.*.#", "a*b", "a-b_c.9", "p" * 255]
)
def test_words_dots_and_wildcards_apart_are_valid(connection, pattern):
    assert value(connection, "select pgmq.validate_topic_pattern(%s)", pattern) is True


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (None, "pattern cannot be NULL or empty"),
        ("", "pattern cannot be NULL or empty"),
        ("!" * 256, "pattern length cannot exceed 255 characters, got 256 characters"),
        (
            ".a b",
            "pattern contains invalid characters. Only alphanumeric, dots, hyphens, underscores, *, and # are "
            "allowed. Got: .a b",
        ),
        (".a..**.", "pattern cannot start with a dot. Got: .a..**."),
        ("a..**.", "pattern cannot end with a dot. Got: a..**."),
        ("a..**", "pattern cannot contain consecutive dots. Got: a..**"),
        (
            "**.##.*#",
            "pattern cannot contain consecutive stars (**). Use # for multi-segment matching. Got: **.##.*#",
        ),
        (
            "##.*#",
            "pattern cannot contain consecutive hashes (##). A single # already matches zero or more segments. "
            "Got: ##.*#",
        ),
        (
            "a.*#",
            "pattern cannot contain adjacent wildcards (*# or #*). Separate wildcards with dots. Got: a.*#",
        ),
        (
            "a.#*",
            "pattern cannot contain adjacent wildcards (*# or #*). Separate wildcards with dots. Got: a.#*",
        ),
    ],
)
def test_first_problem_is_reported_with_a_hint(connection, pattern, message):
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        connection.execute("select pgmq.validate_topic_pattern(%s::text)", (pattern,))

    assert caught.value.diag.message_primary == message
    assert caught.value.diag.message_hint
