import psycopg
import pytest

from support import rows, value
from support.notify import LAST_NOTIFIED, Listener

TRIGGER = """select pg_get_triggerdef(oid) from pg_trigger
    where tgrelid = 'pgmq.q_orders'::regclass and not tgisinternal"""
CHANNEL = "pgmq.q_orders.INSERT"


def test_enable_makes_a_trigger_for_each_statement_and_a_row(connection, queue):
    connection.execute("select pgmq.enable_notify_insert('orders')")

    assert rows(connection, TRIGGER) == [
        (
            "CREATE TRIGGER trigger_notify_queue_insert_listeners AFTER INSERT ON pgmq.q_orders "
            "FOR EACH STATEMENT EXECUTE FUNCTION "
            "pgmq.notify_queue_listeners('orders', 'pgmq.\"q_orders_NOTIFY\"')",
        )
    ]
    assert rows(
        connection, "select queue_name, throttle_interval_ms from pgmq.notify_insert_throttle"
    ) == [("orders", 250)]


def test_enabled_again_it_waits_for_no_sender_and_the_next_message_notifies(
    database, connection, queue
):
    connection.execute("select pgmq.enable_notify_insert('orders', 60000)")
    connection.execute("select pgmq.send('orders', '1'::jsonb)")
    with database.connect(autocommit=False) as sender, database.connect() as second:
        sender.execute("select pgmq.send('orders', '2'::jsonb)")
        second.execute("set lock_timeout = '2s'")
        listener = Listener(connection, CHANNEL)

        second.execute("select pgmq.enable_notify_insert('orders', 30000)")

        assert value(connection, LAST_NOTIFIED) == 0
        second.execute("select pgmq.send('orders', '3'::jsonb)")
        assert listener.heard() == [CHANNEL]
    assert (
        value(connection, "select throttle_interval_ms from pgmq.notify_insert_throttle") == 30000
    )


@pytest.mark.parametrize(
    "planted",
    [
        "alter table pgmq.q_orders disable trigger trigger_notify_queue_insert_listeners",
        'drop sequence pgmq."q_orders_NOTIFY"',
        "drop trigger trigger_notify_queue_insert_listeners on pgmq.q_orders",
        """drop trigger trigger_notify_queue_insert_listeners on pgmq.q_orders;
           create constraint trigger trigger_notify_queue_insert_listeners after insert on pgmq.q_orders
           deferrable for each row execute function pgmq.notify_queue_listeners()""",
    ],
    ids=["disabled", "no sequence", "no trigger", "the one that PGMQ makes"],
)
def test_enabled_again_it_repairs_what_is_not_as_it_should_be(connection, queue, planted):
    connection.execute("select pgmq.enable_notify_insert('orders', 60000)")
    made = rows(connection, TRIGGER)
    connection.execute(planted)

    connection.execute("select pgmq.enable_notify_insert('orders', 60000)")

    assert rows(connection, TRIGGER) == made
    listener = Listener(connection, CHANNEL)
    for _ in range(3):
        connection.execute("select pgmq.send('orders', '1'::jsonb)")
    assert listener.heard() == [CHANNEL]


def test_it_rolls_back_with_the_callers_transaction(connection, queue):
    with connection.transaction(force_rollback=True):
        connection.execute("select pgmq.enable_notify_insert('orders')")

    assert rows(connection, TRIGGER) == []
    assert value(connection, """select to_regclass('pgmq."q_orders_NOTIFY"')""") is None


def test_drop_queue_takes_trigger_row_and_sequence_with_it(connection, queue):
    connection.execute("select pgmq.enable_notify_insert('orders')")
    connection.execute("select pgmq.send('orders', '1'::jsonb)")

    assert value(connection, "select pgmq.drop_queue('orders')") is True

    assert rows(connection, "select relname from pg_class where relname ~* 'orders'") == []
    assert rows(connection, "select * from pgmq.notify_insert_throttle") == []


def test_another_spelling_is_refused_with_a_hint_and_nothing_is_changed(connection, queue):
    connection.execute("select pgmq.enable_notify_insert('orders', 7)")
    made = rows(connection, TRIGGER)

    with pytest.raises(psycopg.errors.ForeignKeyViolation) as caught:
        connection.execute("select pgmq.enable_notify_insert('Orders', 8)")

    assert "names are case-sensitive" in caught.value.diag.message_hint
    assert rows(connection, TRIGGER) == made


def test_a_queue_of_the_longest_name_that_pgmq_takes_notifies_where_its_listeners_are(connection):
    """PGMQ counts characters, so PostgreSQL truncates table and channel names to 63 bytes."""
    name = "ü" * 47
    connection.execute(
        "insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) values (%s, false, false)",
        [name],
    )
    connection.execute(f"create table pgmq.q_{name} (vt timestamptz)")
    connection.execute(f"alter table pgmq.q_{name} owner to sluice_owner")
    connection.execute("select pgmq.enable_notify_insert(%s, 0)", [name])
    listener = Listener(connection, f"pgmq.q_{name}.INSERT")

    connection.execute(f"insert into pgmq.q_{name} values (now())")

    assert set(listener.heard()) == {f"pgmq.q_{name}.INSERT".encode()[:63].decode(errors="ignore")}


def test_superuser_enables_it_for_a_queue_of_another_role(connection, queue, role):
    connection.execute(f"grant sluice_admin to {role}")
    with connection.transaction():
        connection.execute(f"set local role {role}")
        connection.execute("select pgmq.create('mine')")

    connection.execute("select pgmq.enable_notify_insert('mine')")

    with connection.transaction():
        connection.execute(f"set local role {role}")
        connection.execute("select pgmq.update_notify_insert('mine', 5)")
        connection.execute("select pgmq.drop_queue('mine')")
    assert rows(connection, "select relname from pg_class where relname ~* 'mine'") == []


def test_an_unlogged_queue_remembers_over_a_crash_when_it_last_notified(connection):
    connection.execute("select pgmq.create_unlogged('orders')")
    connection.execute("select pgmq.enable_notify_insert('orders', 60000)")
    listener = Listener(connection, CHANNEL)

    connection.execute("select pgmq.send('orders', '1'::jsonb)")
    connection.execute("select pgmq.send('orders', '2'::jsonb)")

    assert listener.heard() == [CHANNEL]
    persistence = "select relpersistence::text from pg_class where relname = 'q_orders_NOTIFY'"
    assert value(connection, persistence) == "p"
