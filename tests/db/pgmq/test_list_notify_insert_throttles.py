import pytest

from support import rows, value
from support.notify import LAST_NOTIFIED

LIST = "select queue_name, throttle_interval_ms from pgmq.list_notify_insert_throttles()"


def test_queues_that_notify_come_by_name(connection):
    for name, interval in (("b", 0), ("a", 7), ("C", 250)):
        connection.execute("select pgmq.create(%s)", [name])
        connection.execute("select pgmq.enable_notify_insert(%s, %s)", (name, interval))
    connection.execute("select pgmq.create('silent')")

    listed = rows(connection, LIST)

    assert sorted(listed) == [("C", 250), ("a", 7), ("b", 0)]
    assert listed == rows(connection, f"{LIST} order by queue_name")


@pytest.mark.parametrize("interval", [0, 250])
def test_the_moment_of_the_last_notification_is_shown_to_the_millisecond(
    connection, queue, interval
):
    connection.execute("select pgmq.enable_notify_insert('orders', %s)", [interval])
    assert value(connection, LAST_NOTIFIED) == 0
    clock = "select extract(epoch from clock_timestamp())::float8"
    before = value(connection, clock)

    connection.execute("select pgmq.send('orders', '1'::jsonb)")

    assert before - 0.001 <= value(connection, LAST_NOTIFIED) <= value(connection, clock)


def test_without_its_sequence_a_queue_shows_what_pgmq_left_in_the_table(connection, queue):
    connection.execute("select pgmq.enable_notify_insert('orders')")
    connection.execute('drop sequence pgmq."q_orders_NOTIFY"')
    connection.execute("update pgmq.notify_insert_throttle set last_notified_at = to_timestamp(5)")

    assert value(connection, LAST_NOTIFIED) == 5


@pytest.mark.parametrize(
    "member_of", ["sluice_admin", "sluice_writer", "sluice_reader", "sluice_monitor"]
)
def test_every_role_sees_it(connection, queue, role, member_of):
    connection.execute("select pgmq.enable_notify_insert('orders')")
    connection.execute("select pgmq.send('orders', '1'::jsonb)")
    shown = value(connection, LAST_NOTIFIED)
    connection.execute(f"grant {member_of} to {role}")

    with connection.transaction():
        connection.execute(f"set local role {role}")
        assert value(connection, LAST_NOTIFIED) == shown > 0
