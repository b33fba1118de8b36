import psycopg
import pytest

from support import rows, value
from support.log import consume_all, move_retries, tick, waiting

RAW = (
    "select pgq.event_retry_raw('changes', 'lake', now(), %s, %s, 7, 't', 'd', '1', '2', '3', '4')"
)


def test_every_field_is_the_callers(connection, consumer):
    assert value(connection, RAW, 666, "2020-01-01 00:00+00") == 666
    assert move_retries(connection) == 1
    tick(connection)

    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    assert rows(
        connection,
        "select ev_id, ev_time = '2020-01-01 00:00+00', ev_retry, ev_type, ev_data, ev_extra1, ev_extra4"
        " from pgq.get_batch_events(%s)",
        batch,
    ) == [(666, True, 7, "t", "d", "1", "4")]


def test_without_an_id_and_a_time_it_gets_the_next_id_and_now(connection, consumer):
    connection.execute("select pgq.insert_event('changes', 't', 'd')")

    assert value(connection, RAW, None, None) == 2
    assert rows(connection, "select ev_id, ev_time <= now() from pgq.retry_queue") == [(2, True)]


def test_an_id_that_waits_already_is_an_error_and_one_that_was_moved_is_not(connection, consumer):
    connection.execute(RAW, (666, None))

    with pytest.raises(psycopg.errors.UniqueViolation, match="event 666 is queued"):
        connection.execute(RAW, (666, None))
    move_retries(connection)
    connection.execute(RAW, (666, None))
    move_retries(connection)

    tick(connection)
    assert consume_all(connection) == [[666, 666]]


@pytest.mark.parametrize(
    ("log_name", "consumer_name"), [("changes", "nobody"), ("missing", "lake")]
)
def test_a_consumer_that_is_not_registered_is_an_error(
    connection, consumer, log_name, consumer_name
):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(
            "select pgq.event_retry_raw(%s, %s, now(), 1, now(), 0, 't', 'd', null, null, null, null)",
            (log_name, consumer_name),
        )

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ002",
        "consumer not registered",
    )


def test_a_null_time_is_an_error(connection, consumer):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(
            "select pgq.event_retry_raw('changes', 'lake', null, 1, now(), 0, 't', 'd', null, null, null, null)"
        )

    assert caught.value.sqlstate == "22004"
    assert waiting(connection) == []
