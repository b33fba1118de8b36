from support import rows, value
from support.notify import Listener


def test_disable_removes_everything_enable_created_and_stops_notifications(connection, queue):
    before = rows(connection, "select relname from pg_class where relname ~* 'orders' order by 1")
    connection.execute("select pgmq.enable_notify_insert('orders', 0)")
    listener = Listener(connection, "pgmq.q_orders.INSERT")

    connection.execute("select pgmq.disable_notify_insert('orders')")

    connection.execute("select pgmq.send('orders', '1'::jsonb)")
    assert listener.heard() == []
    assert (
        rows(connection, "select relname from pg_class where relname ~* 'orders' order by 1")
        == before
    )
    assert (
        value(connection, "select count(*) from pg_trigger where tgname ~ '^trigger_notify'") == 0
    )
    assert rows(connection, "select * from pgmq.list_notify_insert_throttles()") == []


def test_disabling_twice_is_a_notice(connection, queue):
    notices = []
    connection.add_notice_handler(lambda diagnostic: notices.append(diagnostic.message_primary))

    connection.execute("select pgmq.disable_notify_insert('orders')")

    assert len(notices) == 1
    assert "does not exist, skipping" in notices[0]
