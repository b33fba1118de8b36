import psycopg
import pytest

from support import value
from support.log import consume_all, finish, move_retries, open_batch, tick, waiting


def test_all_events_of_the_batch_are_redelivered(connection, consumer):
    batch = open_batch(connection)

    assert value(connection, "select pgq.batch_retry(%s, 0)", batch) == 5
    finish(connection, batch)
    assert move_retries(connection) == 5
    tick(connection)

    assert consume_all(connection) == [[1, 2, 3, 4, 5]]


def test_events_already_in_the_retry_queue_are_unchanged(connection, consumer):
    batch = open_batch(connection)
    connection.execute("select pgq.event_retry(%s, 2, 3600)", (batch,))

    assert value(connection, "select pgq.batch_retry(%s, 0)", batch) == 4
    assert value(connection, "select pgq.batch_retry(%s, 0)", batch) == 0

    assert move_retries(connection) == 4
    assert waiting(connection) == [2]


def test_a_batch_without_events_is_0(connection, consumer):
    batch = open_batch(connection, 0)

    assert value(connection, "select pgq.batch_retry(%s, 0)", batch) == 0


def test_a_batch_that_is_not_open_is_an_error(connection, consumer):
    batch = open_batch(connection)
    finish(connection, batch)

    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.batch_retry(%s, 0)", (batch,))

    assert caught.value.sqlstate == "PQ003"
    assert caught.value.diag.message_primary == f"batch_retry: batch {batch} not found"
