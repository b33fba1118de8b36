"""sluice._deduplication: the window of a queue, and valid keys."""

import psycopg
import pytest

from support import value

CALL = "select is_unlogged from sluice._deduplication('orders', %s::jsonb[], %s::text[])"


@pytest.fixture(autouse=True)
def window(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute(
        "select sluice.set_queue_options('orders', '{\"deduplication_window\": \"5 minutes\"}')"
    )


@pytest.mark.parametrize(
    ("messages", "keys"),
    [
        (["1"], ["k"]),
        (["1", "2"], [None, "k"]),
        (["1", "2"], ["k", "k"]),
        (["1"], ["k" * 1024]),
        ([None], [" "]),
    ],
)
def test_a_key_or_null_for_each_message_is_accepted(connection, messages, keys):
    assert value(connection, CALL, messages, keys) is False


@pytest.mark.parametrize(
    ("messages", "keys", "words", "hint"),
    [
        (["1"], ["a", "b"], r"length \(2\) must match msgs array length \(1\)", "null for none"),
        (["1"], [], r"length \(0\) must match msgs array length \(1\)", "null for none"),
        (["1", "2"], ["a", ""], "deduplication key has 0 bytes", "send a hash"),
        (["1"], ["k" * 1025], "deduplication key has 1025 bytes", "1 to 1024 bytes"),
    ],
)
def test_invalid_deduplication_key_is_refused_with_a_hint(connection, messages, keys, words, hint):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=words) as caught:
        connection.execute(CALL, [messages, keys])

    assert hint in caught.value.diag.message_hint
