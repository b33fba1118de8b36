import psycopg
import pytest

from support import rows, value
from support.log import tick


def test_nothing_until_a_tick(connection, consumer):
    connection.execute("select pgq.insert_event('changes', 't', 'd')")

    assert value(connection, "select pgq.next_batch('changes', 'lake')") is None


def test_batches_are_numbered_from_1_and_go_from_tick_to_tick(connection, consumer):
    tick(connection)
    tick(connection)

    assert (
        value(
            connection,
            "select pgq.next_batch(i_queue_name => 'changes', i_consumer_name => 'lake')",
        )
        == 1
    )
    assert rows(
        connection, "select last_tick, current_batch, next_tick from pgq.get_consumer_info()"
    ) == [(1, 1, 2)]


def test_an_open_batch_is_returned_again_whatever_happened_since(connection, consumer):
    tick(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    tick(connection)

    assert value(connection, "select pgq.next_batch('changes', 'lake')") == batch


def test_unregistered_consumer_is_refused(connection, consumer):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.next_batch('changes', 'stranger')")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ002",
        "Not subscriber to queue: changes/stranger",
    )


def test_two_sessions_of_one_consumer_get_one_batch(database, connection, consumer):
    tick(connection)
    with database.connect(autocommit=False) as first, database.connect() as second:
        batch = value(first, "select pgq.next_batch('changes', 'lake')")
        second.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            second.execute("select pgq.next_batch('changes', 'lake')")
        first.commit()
        assert value(second, "select pgq.next_batch('changes', 'lake')") == batch
