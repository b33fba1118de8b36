import psycopg
import pytest

from support import rows, value
from support.notify import LAST_NOTIFIED, Listener


def test_the_new_interval_counts_at_once_and_the_next_message_notifies(connection, queue):
    connection.execute("select pgmq.enable_notify_insert('orders', 60000)")
    connection.execute("select pgmq.send('orders', '1'::jsonb)")
    assert value(connection, LAST_NOTIFIED) > 0
    listener = Listener(connection, "pgmq.q_orders.INSERT")

    connection.execute("select pgmq.update_notify_insert('orders', 30000)")

    assert rows(connection, "select * from pgmq.notify_insert_throttle")[0][:2] == ("orders", 30000)
    assert value(connection, LAST_NOTIFIED) == 0
    connection.execute("select pgmq.send('orders', '2'::jsonb)")
    connection.execute("select pgmq.send('orders', '3'::jsonb)")
    assert listener.heard() == ["pgmq.q_orders.INSERT"]


def test_it_waits_for_no_sender_and_no_sender_waits_for_it(database, connection, queue):
    connection.execute("select pgmq.enable_notify_insert('orders', 0)")
    with (
        database.connect(autocommit=False) as sender,
        database.connect(autocommit=False) as admin,
        database.connect() as other,
    ):
        sender.execute("select pgmq.send('orders', '1'::jsonb)")
        for session in (admin, other):
            session.execute("set lock_timeout = '2s'")

        admin.execute("select pgmq.update_notify_insert('orders', 5)")

        other.execute("select pgmq.send('orders', '2'::jsonb)")


@pytest.mark.parametrize(
    ("name", "interval", "message", "hint"),
    [
        ("orders", -1, "throttle_interval_ms must be non-negative, got: -1", "use 0 to"),
        ("nope", 1, 'Queue "nope" does not exist. Create the queue first using pgmq.create()', "list_queues"),
        (
            "orders",
            1,
            'Queue "orders" does not have notify_insert enabled. Enable it first using pgmq.enable_notify_insert()',
            "call pgmq.enable_notify_insert('orders', 1)",
        ),
    ],
)  # fmt: skip
def test_error_has_a_hint(connection, queue, name, interval, message, hint):
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        connection.execute("select pgmq.update_notify_insert(%s, %s)", (name, interval))

    assert caught.value.diag.message_primary == message
    assert hint in caught.value.diag.message_hint
