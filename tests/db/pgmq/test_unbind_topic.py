import psycopg
import pytest

from support import rows, value


def test_one_binding_goes_and_the_messages_it_brought_stay(connection, queue):
    for pattern in ("a", "a.#"):
        connection.execute("select pgmq.bind_topic(%s, 'orders')", (pattern,))
    connection.execute("select pgmq.send_topic('a', '1'::jsonb)")

    assert value(connection, "select pgmq.unbind_topic('a', 'orders')") is True
    assert value(connection, "select pgmq.unbind_topic('a', 'orders')") is False
    assert value(connection, "select pgmq.unbind_topic('a.#', 'ORDERS')") is False

    assert rows(connection, "select pattern from pgmq.topic_bindings") == [("a.#",)]
    assert value(connection, "select count(*) from pgmq.q_orders") == 1


@pytest.mark.parametrize(
    ("pattern", "name", "message"),
    [
        ("", "", "pattern cannot be NULL or empty"),
        (None, "orders", "pattern cannot be NULL or empty"),
        ("a", "", "queue_name cannot be NULL or empty"),
        ("a", None, "queue_name cannot be NULL or empty"),
    ],
)
def test_an_empty_name_is_refused_with_a_hint(connection, pattern, name, message):
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        connection.execute("select pgmq.unbind_topic(%s::text, %s::text)", (pattern, name))

    assert caught.value.diag.message_primary == message
    assert caught.value.diag.message_hint
