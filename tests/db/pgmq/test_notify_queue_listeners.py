import psycopg
import pytest

from support import value
from support.notify import LAST_NOTIFIED, Listener

CHANNEL = "pgmq.q_orders.INSERT"
SEND = "select pgmq.send('orders', '{}'::jsonb)"


@pytest.fixture
def listener(database, queue):
    with database.connect() as session:
        yield Listener(session, CHANNEL)


def enable(connection, interval_ms):
    connection.execute("select pgmq.enable_notify_insert('orders', %s)", [interval_ms])


def test_every_statement_that_sends_notifies_once_at_throttle_0(connection, listener):
    enable(connection, 0)

    connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[10000]))")
    connection.execute(SEND)

    assert listener.heard() == [CHANNEL, CHANNEL]


def test_within_the_interval_only_the_first_notifies(connection, listener):
    enable(connection, 60000)

    for _ in range(5):
        connection.execute(SEND)

    assert listener.heard() == [CHANNEL]


def test_after_the_interval_the_next_notifies(connection, listener):
    enable(connection, 50)
    connection.execute(SEND)
    first = value(connection, LAST_NOTIFIED)

    connection.execute("select pg_sleep(0.06)")
    connection.execute(SEND)

    assert listener.heard() == [CHANNEL, CHANNEL]
    assert value(connection, LAST_NOTIFIED) - first >= 0.05


def test_several_sends_of_one_transaction_are_one_notification_at_its_commit(connection, listener):
    enable(connection, 0)

    with connection.transaction():
        connection.execute(SEND)
        connection.execute(SEND)
        assert listener.heard() == []

    assert listener.heard() == [CHANNEL]


def test_a_name_in_mixed_case_is_notified_in_both_spellings(connection):
    connection.execute("select pgmq.create('Mixed')")
    connection.execute("select pgmq.enable_notify_insert('Mixed', 0)")
    listener = Listener(connection, "pgmq.q_Mixed.INSERT", "pgmq.q_mixed.INSERT")

    connection.execute("select pgmq.send('mixed', '1'::jsonb)")

    assert sorted(listener.heard()) == ["pgmq.q_Mixed.INSERT", "pgmq.q_mixed.INSERT"]


def test_a_sender_that_rolls_back_uses_up_no_window(connection, listener):
    enable(connection, 60000)
    with connection.transaction(force_rollback=True):
        connection.execute(SEND)

    connection.execute(SEND)
    connection.execute(SEND)

    assert listener.heard() == [CHANNEL]


def test_a_savepoint_that_rolls_back_does_not_silence_its_transaction(connection, listener):
    enable(connection, 60000)
    with connection.transaction():
        with connection.transaction(force_rollback=True):
            connection.execute(SEND)
        connection.execute(SEND)

    assert listener.heard() == [CHANNEL]


def test_the_limit_a_savepoint_that_rolls_back_uses_up_the_window_when_its_transaction_commits(
    connection, listener
):
    """The throttle records the transaction id, as SQL functions cannot identify savepoints."""
    enable(connection, 60000)
    with connection.transaction():
        connection.execute("create table business ()")
        with connection.transaction(force_rollback=True):
            connection.execute(SEND)

    connection.execute(SEND)

    assert listener.heard() == []


def test_delete_archive_read_and_purge_send_no_notification(connection, listener):
    connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[4]))")
    enable(connection, 0)

    connection.execute("select * from pgmq.read('orders', 0, 4)")
    connection.execute("select pgmq.delete('orders', 1), pgmq.archive('orders', 2)")
    connection.execute("select pgmq.set_vt('orders', 3, 0)")
    connection.execute("select pgmq.purge_queue('orders')")

    assert listener.heard() == []


def test_insert_privilege_on_the_queue_suffices_for_the_throttle(connection, listener, role):
    enable(connection, 60000)
    connection.execute(f"grant usage on schema pgmq to {role}")
    connection.execute(f"grant insert on pgmq.q_orders to {role}")

    with connection.transaction():
        connection.execute(f"set local role {role}")
        connection.execute("insert into pgmq.q_orders (vt) values (now())")
    connection.execute(f"drop owned by {role}")

    assert listener.heard() == [CHANNEL]


@pytest.mark.parametrize(
    "planted",
    [
        # After a failover to a server whose clock is behind.
        """setval('pgmq."q_orders_NOTIFY"', ((extract(epoch from now()) + 3600) * 1000)::bigint << 20)""",
        # After a restore into a server that has not reached that transaction; and invalid values.
        """setval('pgmq."q_orders_NOTIFY"', ((extract(epoch from now()) * 1000)::bigint << 20) | 1048575)""",
        """setval('pgmq."q_orders_NOTIFY"', 9223372036854775807)""",
        """setval('pgmq."q_orders_NOTIFY"', 1)""",
    ],
    ids=["the future", "an unknown transaction", "the largest", "the smallest"],
)
def test_impossible_throttle_time_suppresses_no_notification(connection, listener, planted):
    enable(connection, 60000)
    connection.execute(f"select {planted}")

    connection.execute(SEND)
    connection.execute(SEND)

    assert listener.heard() == [CHANNEL]


@pytest.mark.parametrize(
    "planted",
    ['drop sequence pgmq."q_orders_NOTIFY"', "delete from pgmq.notify_insert_throttle"],
    ids=["no sequence", "no row"],
)
def test_unknown_last_notification_does_not_throttle(connection, listener, planted):
    enable(connection, 60000)
    connection.execute(planted)

    connection.execute(SEND)
    connection.execute(SEND)

    assert listener.heard() == [CHANNEL, CHANNEL]


def test_the_trigger_that_pgmq_makes_works_too(connection, listener):
    enable(connection, 0)
    connection.execute("drop trigger trigger_notify_queue_insert_listeners on pgmq.q_orders")
    connection.execute(
        """create constraint trigger trigger_notify_queue_insert_listeners after insert on pgmq.q_orders
           deferrable for each row execute function pgmq.notify_queue_listeners()"""
    )

    connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[100]))")

    assert listener.heard() == [CHANNEL]


def test_it_is_a_trigger_and_nothing_else(connection, queue):
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        connection.execute("select pgmq.notify_queue_listeners()")


def test_a_trigger_sets_no_sequence_that_its_argument_names(connection):
    """The function is SECURITY DEFINER: a foreign trigger could otherwise set our sequences."""
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("create table public.bait (n integer); create table pgmq.bait (n integer)")
    for table in ("public.bait", "pgmq.bait"):
        connection.execute(
            f"""create trigger planted after insert on {table} for each statement
            execute function pgmq.notify_queue_listeners('orders', 'pgq.event_1_id_seq')"""
        )
        connection.execute(f"insert into {table} values (1)")

    assert value(connection, "select pgq.insert_event('changes', 't', 'd')") == 1
