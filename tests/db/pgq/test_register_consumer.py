import psycopg
import pytest

from support import rows, value
from support.log import consume_all, tick


def test_a_new_consumer_starts_at_the_latest_tick(connection, log):
    connection.execute("select pgq.insert_event('changes', 't', 'before')")
    tick(connection)

    assert (
        value(
            connection,
            "select pgq.register_consumer(x_queue_name => 'changes', x_consumer_id => 'lake')",
        )
        == 1
    )
    connection.execute("select pgq.insert_event('changes', 't', 'after')")
    tick(connection)

    assert consume_all(connection) == [[2]]


def test_registering_again_returns_0_and_keeps_the_position(connection, consumer):
    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    tick(connection)

    assert value(connection, "select pgq.register_consumer('changes', 'lake')") == 0
    assert consume_all(connection) == [[1]]


@pytest.mark.parametrize(
    ("call", "sqlstate", "message"),
    [
        ("pgq.register_consumer('missing', 'lake')", "PQ001", "Event queue not created yet"),
        ("pgq.register_consumer('changes', null)", "22004", "consumer name is null"),
    ],
)
def test_invalid_registration_is_an_error(connection, log, call, sqlstate, message):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select {call}")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (sqlstate, message)


def test_registering_on_a_log_without_ticks_is_an_error(connection, log):
    connection.execute("delete from pgq.tick")

    with pytest.raises(
        psycopg.Error, match="No ticks for this queue.  Please run ticker on database."
    ):
        connection.execute("select pgq.register_consumer('changes', 'lake')")
    assert rows(connection, "select * from pgq.consumer") == []


def test_one_name_on_two_logs_is_one_consumer(connection, log):
    connection.execute("select pgq.create_queue('other')")
    for name in ("changes", "other"):
        connection.execute("select pgq.register_consumer(%s, 'lake')", (name,))

    assert rows(connection, "select co_name from pgq.consumer") == [("lake",)]
    assert rows(connection, "select queue_name, consumer_name from pgq.get_consumer_info()") == [
        ("changes", "lake"),
        ("other", "lake"),
    ]


def test_ids_have_no_gaps_where_a_name_was_there_already(connection, consumer):
    for _ in range(3):
        connection.execute("select pgq.register_consumer('changes', 'lake')")
    connection.execute("select pgq.register_consumer('changes', 'next')")

    query = "select sub_id, co_id, co_name from pgq.subscription join pgq.consumer on co_id = sub_consumer"
    assert rows(connection, f"{query} order by 1") == [(1, 1, "lake"), (2, 2, "next")]


def test_it_does_not_wait_for_a_session_that_works_on_a_batch(database, connection, consumer):
    tick(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    with database.connect(autocommit=False) as worker:
        worker.execute("select sluice.hold_batch(%s)", (batch,))
        connection.execute("set lock_timeout = '1 s'")

        assert value(connection, "select pgq.register_consumer('changes', 'lake')") == 0


def test_any_reader_may_register(database, connection, log, role):
    connection.execute(f"grant pgq_reader to {role}")
    with database.connect(user=role) as reader:
        assert value(reader, "select pgq.register_consumer('changes', 'lake')") == 1
        assert value(reader, "select pgq.unregister_consumer('changes', 'lake')") == 1
