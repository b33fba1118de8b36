"""pgq.event_retry, with pgq._queue_retry, which all retry functions call."""

import psycopg
import pytest

from support import rows, value
from support.log import consume_all, finish, move_retries, open_batch, tick, waiting


def test_retried_event_is_redelivered_unchanged_at_its_time(connection, consumer):
    connection.execute("select pgq.insert_event('changes', 't', 'd', '1', '2', '3', '4')")
    batch = open_batch(connection, 1)
    before = rows(connection, "select * from pgq.get_batch_events(%s)", batch)[0]

    assert value(connection, "select pgq.event_retry(%s, 1, 0)", batch) == 1
    finish(connection, batch)
    assert move_retries(connection) == 1
    tick(connection)

    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    (redelivered,) = rows(connection, "select * from pgq.get_batch_events(%s)", batch)
    assert redelivered[:2] == before[:2]
    assert redelivered[2] > before[2], "the transaction that moved the event"
    assert redelivered[3] == 1, "the number of its retries"
    assert redelivered[4:] == before[4:]


def test_each_time_is_counted(connection, consumer):
    batch = open_batch(connection, 1)
    counts = []
    for _ in range(3):
        connection.execute("select pgq.event_retry(%s, 1, 0)", (batch,))
        finish(connection, batch)
        move_retries(connection)
        tick(connection)
        batch = value(connection, "select pgq.next_batch('changes', 'lake')")
        counts.append(value(connection, "select ev_retry from pgq.get_batch_events(%s)", batch))

    assert counts == [1, 2, 3]


def test_retried_event_is_redelivered_to_its_consumer_only(connection, consumer):
    connection.execute("select pgq.register_consumer('changes', 'other')")
    batch = open_batch(connection, 2)
    connection.execute("select pgq.event_retry(%s, 2, 0)", (batch,))
    finish(connection, batch)
    assert consume_all(connection, consumer="other") == [[1, 2]]
    move_retries(connection)
    tick(connection)

    assert consume_all(connection) == [[2]]
    assert consume_all(connection, consumer="other") == [[]]


def test_an_event_that_waits_already_is_0_whatever_the_time(connection, consumer):
    batch = open_batch(connection)

    assert value(connection, "select pgq.event_retry(%s, 3, 3600)", batch) == 1
    assert value(connection, "select pgq.event_retry(%s, 3, 0)", batch) == 0
    assert value(connection, "select pgq.event_retry(%s, 3, now())", batch) == 0

    assert waiting(connection) == [3]
    assert move_retries(connection) == 0


def test_event_is_redelivered_once_for_each_batch_it_was_in(connection, consumer):
    """A consumer that crashed after event_retry repeats it; the event may have been moved since."""
    batch = open_batch(connection)
    connection.execute("select pgq.event_retry(%s, 3, 0)", (batch,))
    move_retries(connection)

    assert value(connection, "select pgq.event_retry(%s, 3, 0)", batch) == 0

    finish(connection, batch)
    move_retries(connection)
    tick(connection)
    assert consume_all(connection) == [[3]]


def test_a_consumer_that_went_back_can_ask_for_the_same_event_again(connection, consumer):
    start = value(connection, "select max(tick_id) from pgq.tick")
    batch = open_batch(connection)
    connection.execute("select pgq.event_retry(%s, 3, 0)", (batch,))
    finish(connection, batch)
    move_retries(connection)
    connection.execute("select pgq.register_consumer_at('changes', 'lake', %s)", (start,))
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")

    assert value(connection, "select pgq.event_retry(%s, 3, 0)", batch) == 1

    finish(connection, batch)
    move_retries(connection)
    tick(connection)
    assert sorted(i for ids in consume_all(connection) for i in ids) == [3, 3]


def test_an_event_that_is_in_the_batch_twice_waits_once_and_the_later_one_counts(
    connection, consumer
):
    owner = value(connection, "select sub_id from pgq.subscription")
    connection.execute(
        "select pgq.insert_event_raw('changes', 1, null, %s, 4, 't', 'redelivered', null, null, null, null)",
        (owner,),
    )
    connection.execute("select setval('pgq.event_1_id_seq', 1, false)")
    batch = open_batch(connection, 1)
    events = rows(connection, "select ev_id, ev_retry from pgq.get_batch_events(%s)", batch)
    assert sorted(events, key=str) == [(1, 4), (1, None)]

    assert value(connection, "select pgq.event_retry(%s, 1, 0)", batch) == 1

    assert rows(connection, "select ev_retry, ev_data from pgq.retry_queue") == [(5, "redelivered")]


@pytest.mark.parametrize(
    ("call", "sqlstate", "message"),
    [
        ("pgq.event_retry(4711, 1, 0)", "PQ003", "batch not found"),
        ("pgq.event_retry(null, 1, 0)", "PQ003", "batch not found"),
        ("pgq.event_retry({batch}, 77, 0)", "22023", "event not found"),
        ("pgq.event_retry({batch}, null, 0)", "22023", "event not found"),
        ("pgq.event_retry({batch}, 1, null::timestamptz)", "22004", "retry time is null"),
        ("pgq.event_retry({batch}, 1, null::integer)", "22004", "retry time is null"),
    ],
)
def test_event_that_cannot_be_retried_is_an_error(connection, consumer, call, sqlstate, message):
    batch = open_batch(connection)

    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select " + call.format(batch=batch))

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (sqlstate, message)
    assert waiting(connection) == []


def test_event_retried_for_another_consumer_is_not_found(connection, consumer):
    connection.execute(
        "select pgq.insert_event_raw('changes', null, null, 4711, 1, 't', 'd', null, null, null, null)"
    )
    batch = open_batch(connection, 1)

    with pytest.raises(psycopg.Error, match="event not found"):
        connection.execute("select pgq.event_retry(%s, 1, 0)", (batch,))


def test_a_reader_may_ask_but_not_look(database, connection, consumer, role):
    connection.execute(f"grant pgq_reader to {role}")
    batch = open_batch(connection)
    with psycopg.connect(database.url, user=role, autocommit=True) as reader:
        assert value(reader, "select pgq.event_retry(%s, 1, 0)", batch) == 1
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("select * from pgq.retry_queue")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("select pgq.maint_retry_events()")
