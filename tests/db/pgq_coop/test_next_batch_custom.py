import pytest

from support import value
from support.log import coop_next, fall_silent, ids

SIX = "select pgq_coop.next_batch_custom('changes', 'lake', 'one', %s::interval, %s::integer, %s::interval)"


@pytest.mark.parametrize(
    ("min_lag", "min_count", "min_interval", "events"),
    [
        (None, None, None, [1]),
        (None, 2, None, [1, 2, 3]),
        (None, 1, None, [1]),
        (None, 4, None, None),
        ("1 hour", None, None, None),
        (None, None, "1 hour", None),
    ],
)
def test_batch_has_the_minimum_age_count_or_interval(
    connection, consumer, min_lag, min_count, min_interval, events
):
    batch = value(connection, SIX, min_lag, min_count, min_interval)

    assert (ids(connection, batch) if batch else None) == events


def test_with_a_dead_interval_it_takes_over(connection, consumer):
    coop_next(connection, "two")
    fall_silent(connection, "two")

    batch = value(
        connection,
        """select pgq_coop.next_batch_custom(
            i_queue_name => 'changes', i_consumer_name => 'lake', i_subconsumer_name => 'one',
            i_min_lag => '1 hour', i_min_count => null, i_min_interval => null,
            i_dead_interval => '30 minutes')""",
    )

    assert ids(connection, batch) == [1]
