import psycopg
import pytest

from support import replace_in, rows, value
from support.log import consume_all, finish, tick


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


def check_batches_over_a_rotation(connection):
    """The ticks of the batches are in segments that are no longer the current one, and in it."""
    connection.execute("update pgq.queue set queue_rotation_period = '0'")
    for number in range(6):
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        tick(connection)
        if number in {1, 3}:
            connection.execute("select sluice.rotate('changes')")

    assert consume_all(connection) == [[1], [2], [3], [4], [5], [6]]


def test_batches_go_over_rotations(connection, consumer):
    check_batches_over_a_rotation(connection)


def check_nothing_is_read_twice(connection):
    for number in (1, 2, 3):
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        tick(connection)
        batch = value(connection, "select pgq.next_batch('changes', 'lake')")
        found = rows(connection, "select ev_id from pgq.get_batch_events(%s)", batch)
        assert found == [(number,)]
        finish(connection, batch)
        assert value(connection, "select pgq.next_batch('changes', 'lake')") is None


def test_no_batch_is_read_twice(connection, consumer):
    check_nothing_is_read_twice(connection)


LAST_TICK = (
    "pg_sequence_last_value(format('pgq.event_%s_tick_seq', v_subscriber.sub_queue)::regclass)"
)


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        pytest.param(
            check_batches_over_a_rotation,
            "v_next := pgq._tick_after(v_subscriber.sub_queue, v_position.pos_last_tick);",
            "return;",
            id="ticks of earlier segments are not found",
        ),
        pytest.param(
            check_batches_over_a_rotation,
            f"{LAST_TICK} > v_position.pos_last_tick",
            f"{LAST_TICK} > v_position.pos_last_tick + 1",
            id="the last tick is not read",
        ),
        pytest.param(
            check_nothing_is_read_twice,
            "where p.pos_subscriber = v_subscriber.sub_key\n        order by p.pos_move desc\n"
            "        limit 1;\n    else",
            "where p.pos_subscriber = v_subscriber.sub_key\n        order by p.pos_move\n"
            "        limit 1;\n    else",
            id="an earlier position is read",
        ),
    ],
)
def test_a_planted_bug_is_found(connection, consumer, check, old, new):
    replace_in(connection, "pgq.next_batch_custom(text,text,interval,integer,interval)", old, new)

    with pytest.raises(AssertionError):
        check(connection)
