import pytest

from support import rows, value


@pytest.fixture
def forty_ticks(connection, log):
    """Ticks 1 to 40, ten seconds and ten events apart; tick 1 covers no events."""
    connection.execute("delete from pgq.tick")
    connection.execute(
        """insert into pgq.tick_1_0 (tick_queue, tick_id, tick_time, tick_event_seq)
        select 1, n, timestamptz '2026-01-01' + n * interval '10 s', (n - 1) * 10
        from generate_series(1, 40) as n"""
    )


@pytest.mark.parametrize(
    ("min_count", "min_interval", "tick_id"),
    [
        (5, None, 2),
        (100, None, 11),
        (194, None, 21),
        (195, None, 40),
        (390, None, 40),
        (391, None, None),
        (0, None, 2),
        (-5, None, 2),
        (None, "25 s", 4),
        (None, "194 s", 21),
        (None, "195 s", 40),
        (None, "391 s", None),
        (None, "0 s", 2),
        (100, "25 s", 4),
        (200, "5 s", 2),
        (200, "250 s", 40),
        (500, "250 s", 40),
        (500, "100 s", 11),
        (500, "500 s", None),
        (None, None, None),
    ],
)
def test_the_last_tick_if_it_is_enough_and_not_twice_too_much_else_the_first_that_is_enough(
    connection, forty_ticks, min_count, min_interval, tick_id
):
    found = value(
        connection,
        """select next_tick_id from pgq.find_tick_helper(
            i_queue_id => 1, i_prev_tick_id => 1, i_prev_tick_time => '2026-01-01 00:00:10',
            i_prev_tick_seq => 0, i_min_count => %s::bigint, i_min_interval => %s::interval)""",
        min_count,
        min_interval,
    )

    assert found == tick_id


def test_a_tick_comes_with_its_time_and_number(connection, forty_ticks):
    query = "select (next_tick_time - '2026-01-01')::text, next_tick_seq from pgq.find_tick_helper"
    args = "(1, 30, '2026-01-01 00:05:00', 290, 45, null)"

    assert rows(connection, query + args) == [("00:05:50", 340)]


@pytest.mark.parametrize("queue_id", [None, 77])
def test_an_unknown_log_has_none(connection, forty_ticks, queue_id):
    query = "select * from pgq.find_tick_helper(%s::integer, 1, '2026-01-01', 0, 5, null)"
    assert rows(connection, query, queue_id) == [(None, None, None)]
