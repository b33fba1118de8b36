"""pgq.maint_retry_events, with pgq._move_retries and _due_retries.

concurrency/test_retries.py covers late commits.
"""

import psycopg
import pytest

from support import rows, value
from support.log import consume_all, finish, move_retries, open_batch, tick, waiting


def queue_retries(connection, events, seconds=0):
    batch = open_batch(connection, events)
    assert value(connection, "select pgq.batch_retry(%s, %s)", batch, seconds) == events
    finish(connection, batch)


def test_retry_that_is_not_due_stays(connection, consumer):
    queue_retries(connection, 3, seconds=3600)

    assert move_retries(connection) == 0
    assert waiting(connection) == [1, 2, 3]


def test_nothing_is_moved_twice(connection, consumer):
    queue_retries(connection, 3)
    assert move_retries(connection) == 3
    tick(connection)
    assert consume_all(connection) == [[1, 2, 3]]
    queue_retries(connection, 2)

    assert move_retries(connection) == 2
    assert move_retries(connection) == 0

    tick(connection)
    assert consume_all(connection) == [[7, 8]], "moved events have the ids 4 to 6"
    assert waiting(connection) == []


@pytest.mark.slow
def test_a_call_moves_some_thousands_also_of_those_of_one_time(connection, consumer):
    batch = open_batch(connection, 12_000)
    connection.execute(
        "select sluice.retry(%(batch)s, array(select generate_series(1, 3000)), interval '-3 hours'),"
        " sluice.retry(%(batch)s, array(select generate_series(3001, 8000)), interval '-2 hours'),"
        " sluice.retry(%(batch)s, array(select generate_series(8001, 12000)), interval '-1 hour')",
        {"batch": batch},
    )

    calls = [value(connection, "select pgq.maint_retry_events()") for _ in range(4)]

    assert calls == [5000, 5000, 2000, 0]
    tick(connection)
    finish(connection, batch)
    assert [sorted(ids) for ids in consume_all(connection)] == [list(range(1, 12_001))]


def test_retry_due_in_the_past_is_moved_by_the_next_call(connection, consumer):
    queue_retries(connection, 1)
    move_retries(connection)
    tick(connection)
    consume_all(connection)
    queue_retries(connection, 2, seconds=-3600)

    assert move_retries(connection) == 2


def test_each_event_goes_back_to_its_own_log(connection, consumer):
    connection.execute("select pgq.create_queue('orders')")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    connection.execute("select pgq.register_consumer('orders', 'lake')")
    queue_retries(connection, 3)
    batch = open_batch(connection, 2, log="orders")
    connection.execute("select pgq.event_retry(%s, 2, 0)", (batch,))
    finish(connection, batch)

    assert move_retries(connection) == 4

    tick(connection)
    tick(connection, "orders")
    assert consume_all(connection) == [[1, 2, 3]]
    assert consume_all(connection, log="orders") == [[2]]


def test_the_ticker_sees_that_there_are_events_and_how_many(connection, consumer):
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '1 day', queue_ticker_idle_period = '1 day', queue_ticker_max_count = 3"
    )
    connection.execute("select pgq.insert_event('changes', 't', 'd') from generate_series(1, 3)")
    tick(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    connection.execute("select pgq.batch_retry(%s, 0)", (batch,))
    finish(connection, batch)
    assert value(connection, "select pgq.ticker('changes')") is None

    move_retries(connection)

    assert isinstance(value(connection, "select pgq.ticker('changes')"), int)


def test_a_log_that_is_closed_for_new_events_gets_its_own_ones_again(connection, consumer):
    queue_retries(connection, 2)
    connection.execute("update pgq.queue set queue_disable_insert = true")

    assert move_retries(connection) == 2


def test_an_event_queued_in_the_movers_own_transaction_is_not_lost(database, connection, consumer):
    """A transaction's own id counts as ended in its snapshot once a later transaction has ended."""
    batch = open_batch(connection, 3)
    with database.connect(autocommit=False) as session:
        session.execute("select pgq.event_retry(%s, 1, 0)", (batch,))
        connection.execute("select pg_current_xact_id()")
        first = value(session, "select pgq.maint_retry_events()")
        session.execute("select pgq.event_retry(%s, 2, -3600)", (batch,))
        connection.execute("select pg_current_xact_id()")
        second = value(session, "select pgq.maint_retry_events()")
        session.commit()

    assert (first, second) == (0, 0)
    assert waiting(connection) == [1, 2]
    assert move_retries(connection) == 2


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_transaction_with_one_snapshot_is_refused(connection, consumer, level):
    queue_retries(connection, 1)

    connection.execute(f"set default_transaction_isolation = '{level}'")

    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.maint_retry_events()")

    assert caught.value.sqlstate == "PQ004"
    assert waiting(connection) == [1]


def test_an_idle_call_writes_nothing(connection, consumer):
    queue_retries(connection, 2)
    queue_retries(connection, 2, seconds=3600)
    move_retries(connection)
    value(connection, "select pgq.maint_retry_events()")
    before = rows(connection, "select pass_id from pgq.retry_pass")

    with connection.transaction():
        value(connection, "select pgq.maint_retry_events()")
        assert value(connection, "select pg_current_xact_id_if_assigned()") is None

    assert rows(connection, "select pass_id from pgq.retry_pass") == before


def test_dropping_the_log_or_the_consumer_drops_what_waits(connection, consumer):
    connection.execute("select pgq.register_consumer('changes', 'other')")
    queue_retries(connection, 2, seconds=3600)
    batch = value(connection, "select pgq.next_batch('changes', 'other')")
    connection.execute("select pgq.batch_retry(%s, 0)", (batch,))

    connection.execute("select pgq.unregister_consumer('changes', 'lake')")
    assert waiting(connection) == [1, 2]
    assert move_retries(connection) == 2
    connection.execute("select pgq.batch_retry(%s, 0)", (batch,))

    connection.execute("select pgq.drop_queue('changes', true)")
    assert value(connection, "select count(*) from pgq.retry_entry") == 0
    assert move_retries(connection) == 0


def test_the_columns_of_the_queue_are_those_of_pgq(connection):
    cursor = connection.execute("select * from pgq.retry_queue")

    assert [(c.name, c.type_display) for c in cursor.description] == [
        ("ev_retry_after", "timestamptz"), ("ev_queue", "int4"), ("ev_id", "int8"), ("ev_time", "timestamptz"),
        ("ev_txid", "int8"), ("ev_owner", "int4"), ("ev_retry", "int4"), ("ev_type", "text"), ("ev_data", "text"),
        ("ev_extra1", "text"), ("ev_extra2", "text"), ("ev_extra3", "text"), ("ev_extra4", "text"),
    ]  # fmt: skip
