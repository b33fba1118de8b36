"""Retried events with sessions in fixed orders: none is lost, none is delivered twice."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support import value, wait_for_lock
from support.log import (
    consume_all,
    delay_event,
    finish,
    move_retries,
    open_batch,
    tick,
    wait_until_due,
    waiting,
)

LATE = "((e.ev_retry_after, e.entry_id) <= (i_last.pass_time, i_last.pass_entry)) is true"


@pytest.fixture
def batch(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    connection.execute("select pgq.register_consumer('changes', 'lake')")
    connection.execute("select pgq.register_consumer('changes', 'other')")
    return open_batch(connection)


def move_by_time_only(connection):
    """The planted bug: move only events that became due since the last pass."""
    source = value(
        connection,
        "select pg_get_functiondef('pgq._due_retries(pgq.retry_pass, pgq.retry_pass)'::regprocedure)",
    )
    assert source.count(LATE) == 1
    connection.execute(source.replace(LATE, "false"))


def commit_late(database, connection, batch):
    """Retry event 2 now, and commit after a pass that moves another consumer's event 4."""
    other = value(connection, "select pgq.next_batch('changes', 'other')")
    with database.connect(autocommit=False) as late:
        late.execute("select pgq.event_retry(%s, 2, 0)", (batch,))
        connection.execute("select pgq.event_retry(%s, 4, 0)", (other,))
        assert move_retries(connection) == 1
        late.commit()
    finish(connection, other)


def test_an_entry_that_is_committed_behind_the_pass_is_moved_by_the_next(
    database, connection, batch
):
    commit_late(database, connection, batch)

    assert waiting(connection) == [2]
    assert move_retries(connection) == 1

    finish(connection, batch)
    tick(connection)
    assert consume_all(connection) == [[2]]
    assert consume_all(connection, consumer="other") == [[4]]


def test_a_mover_that_goes_by_time_loses_it(database, connection, batch):
    move_by_time_only(connection)
    commit_late(database, connection, batch)

    assert move_retries(connection) == 0
    finish(connection, batch)
    tick(connection)

    assert consume_all(connection) == [[]], "the planted bug must lose the event"


def test_one_whose_transaction_began_after_the_pass_but_whose_time_is_older_is_moved(
    database, connection, batch
):
    """Its id is not among the pass's running transactions, but above the end of the list."""
    with database.connect(autocommit=False) as late:
        late.execute("select now()")
        other = value(connection, "select pgq.next_batch('changes', 'other')")
        connection.execute("select pgq.event_retry(%s, 4, 0)", (other,))
        assert move_retries(connection) == 1
        late.execute("select pgq.event_retry(%s, 2, 0)", (batch,))
        late.commit()

    assert move_retries(connection) == 1


def test_a_second_mover_leaves_it_to_the_first(database, connection, batch):
    connection.execute("select pgq.batch_retry(%s, 0)", (batch,))
    with database.connect(autocommit=False) as first:
        assert value(first, "select pgq.maint_retry_events()") == 5
        connection.execute("set lock_timeout = '10s'")

        assert value(connection, "select pgq.maint_retry_events()") == 0
        first.commit()

    assert move_retries(connection) == 0
    finish(connection, batch)
    tick(connection)
    assert consume_all(connection) == [[1, 2, 3, 4, 5]]


def test_without_the_lock_two_movers_at_once_fail_at_the_ledger(database, connection, batch):
    source = value(
        connection, "select pg_get_functiondef('pgq._move_retries(integer)'::regprocedure)"
    )
    lock = (
        "if not pgq._lock_tables('{pgq.retry_pass}'::regclass[], 'share update exclusive', 0) then"
    )
    assert source.count(lock) == 1
    connection.execute(source.replace(lock, "if false then"))
    connection.execute("select pgq.batch_retry(%s, 0)", (batch,))

    with (
        ThreadPoolExecutor(1) as threads,
        database.connect(autocommit=False) as first,
        database.connect() as second,
    ):
        first.execute("select pgq.maint_retry_events()")
        move = threads.submit(second.execute, "select pgq.maint_retry_events()")
        wait_for_lock(connection, second)
        first.commit()
        error = move.exception(30)

    assert isinstance(error, psycopg.errors.UniqueViolation), (
        "a pass has one number: the key protects it without the lock"
    )


def test_a_mover_that_dies_has_moved_nothing(database, connection, batch):
    connection.execute("select pgq.batch_retry(%s, 0)", (batch,))
    mover = database.connect(autocommit=False)
    assert value(mover, "select pgq.maint_retry_events()") == 5
    connection.execute("select pg_terminate_backend(%s, 30000)", (mover.info.backend_pid,))
    mover.close()

    assert waiting(connection) == [1, 2, 3, 4, 5]
    assert move_retries(connection) == 5
    finish(connection, batch)
    tick(connection)
    assert consume_all(connection) == [[1, 2, 3, 4, 5]]


def test_two_sessions_that_ask_for_one_event_queue_it_once(database, connection, batch):
    results = []
    with database.connect(autocommit=False) as first, database.connect() as second:
        assert value(first, "select pgq.event_retry(%s, 3, 0)", batch) == 1
        thread = threading.Thread(
            target=lambda: results.append(value(second, "select pgq.event_retry(%s, 3, 0)", batch))
        )
        thread.start()
        wait_for_lock(connection, second)
        first.commit()
        thread.join(30)

    assert results == [0]
    assert waiting(connection) == [3]


def test_a_session_with_an_older_snapshot_fails_rather_than_queue_it_twice(
    database, connection, batch
):
    with database.connect(autocommit=False) as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1")
        connection.execute("select pgq.event_retry(%s, 3, 0)", (batch,))

        with pytest.raises(psycopg.errors.SerializationFailure):
            old.execute("select pgq.event_retry(%s, 3, 0)", (batch,))

    assert waiting(connection) == [3]


def test_without_the_key_an_older_snapshot_queues_it_twice(database, connection, batch):
    connection.execute("drop index pgq.retry_entry_0_event_idx")
    with database.connect(autocommit=False) as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1")
        connection.execute("select pgq.event_retry(%s, 3, 0)", (batch,))
        old.execute("select pgq.event_retry(%s, 3, 0)", (batch,))
        old.commit()

    assert waiting(connection) == [3, 3], "the planted bug must double the event"


def test_an_entry_written_while_the_tables_are_emptied_is_kept(database, connection, batch):
    """The writer waits for the truncation, and then writes to the table that it chose before."""
    with database.connect(autocommit=False) as emptier, database.connect() as writer:
        assert value(emptier, "select pgq._maintain_retry(0)") is True
        thread = threading.Thread(
            target=lambda: writer.execute("select pgq.event_retry(%s, 3, 0)", (batch,))
        )
        thread.start()
        wait_for_lock(connection, writer)
        emptier.commit()
        thread.join(30)

    assert waiting(connection) == [3]
    assert move_retries(connection) == 1


def copy_and_move(connection):
    """Return how many events are delivered if two of four are copied to the other table."""
    for _ in range(4):
        delay_event(connection)
    assert value(connection, "select pgq._maintain_retry(0, 2)") is True
    wait_until_due(connection)
    return move_retries(connection)


def test_entries_that_have_been_copied_come_once(connection, batch):
    assert copy_and_move(connection) == 4


def test_a_mover_that_reads_both_tables_moves_them_twice(connection, batch):
    """The planted bug: copied rows are also read from their old table."""
    source = value(
        connection,
        "select pg_get_functiondef('pgq._due_retries(pgq.retry_pass, pgq.retry_pass)'::regprocedure)",
    )
    assert source.count("e.tableoid <> v_other or") == 2
    connection.execute(source.replace("e.tableoid <> v_other or", "true or"))

    assert copy_and_move(connection) == 6
