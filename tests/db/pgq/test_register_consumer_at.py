"""pgq.register_consumer_at, with pgq._find_tick, _at_tick and _consumer_id."""

import pytest

from support import rows, value
from support.log import consume_all, error_of, give_up, tick

POSITION = "select last_tick, current_batch, next_tick from pgq.get_consumer_info()"


@pytest.fixture
def three_ticks(connection, log):
    """Tick 1, event 1, tick 2, event 2, tick 3."""
    for _ in range(2):
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        tick(connection)


def test_a_new_consumer_starts_behind_the_tick(connection, three_ticks):
    query = (
        "select pgq.register_consumer_at("
        "x_queue_name => 'changes', x_consumer_name => 'lake', x_tick_pos => 2)"
    )

    assert value(connection, query) == 1
    assert consume_all(connection) == [[2]]


def test_a_consumer_goes_back_and_forward_and_its_open_batch_is_dropped(connection, three_ticks):
    connection.execute("select pgq.register_consumer_at('changes', 'lake', 1)")
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")

    assert value(connection, "select pgq.register_consumer_at('changes', 'lake', 3)") == 0
    assert rows(connection, POSITION) == [(3, None, None)]
    assert value(connection, "select pgq.finish_batch(%s)", batch) == 0
    assert value(connection, "select pgq.register_consumer_at('changes', 'lake', 1)") == 0
    assert consume_all(connection) == [[1], [2]]


def test_no_tick_means_the_latest_for_a_new_consumer_and_nothing_for_another(
    connection, three_ticks
):
    assert value(connection, "select pgq.register_consumer_at('changes', 'lake', null)") == 1
    assert rows(connection, POSITION) == [(3, None, None)]
    connection.execute("select pgq.register_consumer_at('changes', 'lake', 1)")
    assert value(connection, "select pgq.register_consumer_at('changes', 'lake', null)") == 0
    assert rows(connection, POSITION) == [(1, None, None)]


@pytest.mark.parametrize(
    ("call", "sqlstate", "message"),
    [
        ("'changes', 'lake', 7", "PQ004", "cannot reposition, tick not found: 7"),
        ("'missing', 'lake', 1", "PQ001", "Event queue not created yet"),
        ("'changes', null, 1", "22004", "consumer name is null"),
    ],
)
def test_invalid_position_is_an_error_and_registers_no_name(
    connection, log, call, sqlstate, message
):
    assert error_of(connection, f"select pgq.register_consumer_at({call})") == (sqlstate, message)
    assert rows(connection, "select * from pgq.consumer") == []


def test_a_position_that_was_given_up_begins_anew(connection, three_ticks):
    connection.execute("select pgq.register_consumer_at('changes', 'lake', 1)")
    give_up(connection, "too late")

    assert value(connection, "select pgq.register_consumer_at('changes', 'lake', 2)") == 0
    assert consume_all(connection) == [[2]]


def test_a_subconsumer_has_no_position_to_set(connection, three_ticks):
    connection.execute("select pgq_coop.register_subconsumer('changes', 'lake', 'one')")

    assert error_of(connection, "select pgq.register_consumer_at('changes', 'lake.one', 1)") == (
        "PQ004",
        "consumer lake.one on queue changes is a subconsumer",
    )


def test_it_waits_for_a_rotation_that_has_read_the_positions(database, connection, three_ticks):
    """The rotation locks the log's row, as a consumer that moves back now would lose events."""
    with database.connect(autocommit=False) as rotation:
        rotation.execute("select from pgq.queue where queue_name = 'changes' for update")
        connection.execute("set lock_timeout = '100 ms'")

        assert error_of(connection, "select pgq.register_consumer_at('changes', 'lake', 1)") == (
            "55P03",
            "canceling statement due to lock timeout",
        )
