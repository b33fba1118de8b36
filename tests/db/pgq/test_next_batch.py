from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support import replace_in, rows, value, wait_for_lock
from support.log import consume_all, error_of, finish, give_up, tick

NEXT = "select pgq.next_batch('changes', 'lake')"
FUNCTION = "pgq.next_batch_custom(text,text,interval,integer,interval)"


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


def check_few_subscriptions_are_read(connection):
    connection.execute(
        "select pgq.register_consumer('changes', 'c' || n) from generate_series(1, 100) as n"
    )
    connection.execute("select pgq.register_consumer('changes', 'lake')")
    connection.execute("set plan_cache_mode = force_generic_plan")
    read = """select sum(pg_stat_get_xact_tuples_returned(i.indexrelid))
        from pg_index as i where i.indrelid = 'pgq.subscriber'::regclass"""

    with connection.transaction():
        before = value(connection, read)
        connection.execute(NEXT)
        after = value(connection, read)

    assert after - before < 10


def test_other_consumers_of_the_log_are_not_read(connection, log):
    check_few_subscriptions_are_read(connection)


def test_a_lookup_that_reads_all_consumers_of_the_log_is_found(connection, log):
    by_name = "(select c.co_id from pgq.consumer as c where c.co_name = i_consumer_name)"
    replace_in(
        connection,
        FUNCTION,
        f"s.sub_consumer = {by_name}",
        f"s.sub_consumer + 0 = {by_name}",
    )

    with pytest.raises(AssertionError):
        check_few_subscriptions_are_read(connection)


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


def check_second_ledger(connection):
    """The same batches as from the first ledger, which statements of their own write."""
    found = []
    info = "select * from pgq.next_batch_info('changes', 'lake')"
    for _ in range(3):
        tick(connection)
        opened = rows(connection, info)
        assert rows(connection, info) == opened
        ((batch, *ticks),) = opened
        assert rows(
            connection,
            """select tick_id, prev_tick_id, batch_end, batch_start, seq_end, seq_start
            from pgq.get_batch_info(%s)""",
            batch,
        ) == [tuple(ticks)]
        found.append(ticks[:2])
        finish(connection, batch)
        assert value(connection, "select pgq._maintain_positions(1)") is not None

    assert found == [[2, 1], [3, 2], [4, 3]]


def test_batches_are_opened_in_both_ledgers(connection, consumer):
    check_second_ledger(connection)


def check_nothing_is_read_twice(connection):
    for number in (1, 2, 3):
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        tick(connection)
        batch = value(connection, NEXT)
        found = rows(connection, "select ev_id from pgq.get_batch_events(%s)", batch)
        assert found == [(number,)]
        finish(connection, batch)
        assert value(connection, NEXT) is None


def test_no_batch_is_read_twice(connection, consumer):
    check_nothing_is_read_twice(connection)


def check_lost_position(connection):
    tick(connection)
    give_up(connection, "too far behind")

    assert error_of(connection, NEXT)[0] == "PQ006"


def check_restored_log(connection):
    """A row of pgq.origin that is written anew is what a restored dump has."""
    tick(connection)
    connection.execute("update pgq.origin set part = part where part = 0")

    assert "restored" in error_of(connection, NEXT)[1]


def check_restored_log_with_an_open_batch(connection):
    tick(connection)
    connection.execute(NEXT)
    connection.execute("update pgq.origin set part = part where part = 0")

    assert "restored" in error_of(connection, NEXT)[1]


def check_group(connection):
    connection.execute("select sluice.create_group('changes', 'workers')")
    tick(connection)

    assert error_of(connection, NEXT.replace("lake", "workers")) == (
        "PQ004",
        "consumer workers on queue changes is a share group",
    )


@pytest.mark.parametrize(
    "check",
    [check_lost_position, check_restored_log, check_restored_log_with_an_open_batch, check_group],
)
def test_a_position_that_must_not_be_read_is_refused(connection, consumer, check):
    check(connection)


def check_waiting_session(database, connection):
    """A session that waited for another one returns the batch that this has opened."""
    tick(connection)
    with (
        ThreadPoolExecutor(1) as threads,
        database.connect(autocommit=False) as first,
        database.connect() as second,
    ):
        batch = value(first, NEXT)
        waiting = threads.submit(value, second, NEXT)
        wait_for_lock(connection, second)
        first.commit()

        assert waiting.result(30) == batch


def test_a_session_that_waits_for_another_gets_its_batch(database, connection, consumer):
    check_waiting_session(database, connection)


def test_a_session_without_the_lock_is_found(database, connection, consumer):
    """It gets the number of a batch that it could not store."""
    replace_in(connection, FUNCTION, "for no key update of s;", ";")

    with pytest.raises(AssertionError):
        check_waiting_session(database, connection)


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
        pytest.param(
            check_lost_position,
            "if v_position.pos_lost is not null then",
            "if false then",
            id="a lost position is read",
        ),
        pytest.param(
            check_restored_log,
            "and o.made_by = o.xmin) <> 2 then",
            "and o.made_by = o.xmin) < 0 then",
            id="a restored log is read",
        ),
        pytest.param(
            check_restored_log_with_an_open_batch,
            "and o.made_by = o.xmin) <> 2 then",
            "and o.made_by = o.xmin) < 0 then",
            id="an open batch of a restored log is read",
        ),
        pytest.param(
            check_second_ledger,
            "insert into pgq.position_1",
            "insert into pgq.position_0",
            id="a move is written to the ledger that is not read",
        ),
        pytest.param(
            check_group, "if v_subscriber.sub_is_group then", "if false then", id="a group is read"
        ),
    ],
)
def test_a_planted_bug_is_found(connection, consumer, check, old, new):
    replace_in(connection, FUNCTION, old, new)

    with pytest.raises(AssertionError):
        check(connection)
