"""pgq.next_batch_custom: batches of a minimum size or age, with pgq._choose_tick."""

import pytest

from support import rows, value
from support.log import error_of, tick

NOTHING = [(None,) * 7]


def custom(connection, min_lag=None, min_count=None, min_interval=None):
    return rows(
        connection,
        "select * from pgq.next_batch_custom(i_queue_name => 'changes', i_consumer_name => 'lake',"
        " i_min_lag => %s::interval, i_min_count => %s::integer, i_min_interval => %s::interval)",
        min_lag,
        min_count,
        min_interval,
    )


@pytest.fixture
def five_ticks(connection, consumer):
    """Five ticks after the consumer's, each with ten events."""
    for _ in range(5):
        connection.execute(
            "select pgq.insert_event('changes', 't', 'd') from generate_series(1, 10)"
        )
        tick(connection)


def test_without_limits_it_equals_next_batch(connection, five_ticks):
    assert custom(connection)[0][:3] == (1, 2, 1)
    assert value(connection, "select pgq.next_batch('changes', 'lake')") == 1


@pytest.mark.parametrize(
    ("min_count", "cur_tick_id"),
    [
        pytest.param(5, 2, id="the first tick with enough events"),
        pytest.param(11, 3, id="whole ticks only"),
        pytest.param(25, 6, id="all events if fewer than twice as many"),
        pytest.param(50, 6, id="all events"),
    ],
)
def test_batch_has_at_least_min_count_events(connection, five_ticks, min_count, cur_tick_id):
    assert custom(connection, min_count=min_count)[0][:3] == (1, cur_tick_id, 1)


def test_fewer_events_than_asked_for_are_no_batch_yet(connection, five_ticks):
    assert custom(connection, min_count=51) == NOTHING
    assert custom(connection, min_interval="1 hour") == NOTHING
    assert value(connection, "select current_batch from pgq.get_consumer_info()") is None


def test_a_tick_that_is_not_old_enough_is_no_batch_yet(connection, five_ticks):
    assert custom(connection, min_lag="1 hour") == NOTHING
    assert custom(connection, min_lag="1 hour", min_count=1) == NOTHING
    assert custom(connection, min_lag="0")[0][:3] == (1, 2, 1)


def test_an_open_batch_is_returned_whatever_the_limits(connection, five_ticks):
    first = custom(connection)

    assert custom(connection, min_lag="1 hour", min_count=1000, min_interval="1 day") == first


@pytest.mark.parametrize(
    ("queue_name", "consumer_name", "shown"),
    [("changes", "x", "changes/x"), (None, "x", "NULL/x"), ("changes", None, "changes/NULL")],
)
def test_unregistered_consumer_is_refused(connection, consumer, queue_name, consumer_name, shown):
    query = "select pgq.next_batch_custom(%s, %s, null, null, null)"
    assert error_of(connection, query, queue_name, consumer_name) == (
        "PQ002",
        f"Not subscriber to queue: {shown}",
    )


def test_a_subconsumer_is_sent_to_its_own_function(connection, log):
    connection.execute("select pgq_coop.register_subconsumer('changes', 'lake', 'one')")
    tick(connection)

    assert error_of(connection, "select pgq.next_batch('changes', 'lake.one')") == (
        "PQ004",
        "consumer lake.one on queue changes is a subconsumer",
    )
