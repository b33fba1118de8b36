"""Concurrent sessions of a consumer or a cooperative group: each event once, no deadlocks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest

from support import replace_in, rows, value, wait_for_lock, wait_until
from support.log import coop_next, error_of, fall_silent, ids, tick

BATCH_COUNT = 60


@pytest.fixture
def log(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    connection.execute("select pgq.register_consumer('changes', 'lake')")


@pytest.fixture
def batches(connection, log):
    for _ in range(BATCH_COUNT):
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        tick(connection)


def together(database, *works: Callable[[psycopg.Connection], None]) -> list[Exception]:
    """Run each function in a thread with its own session; return the errors."""
    errors: list[Exception] = []

    def run(work):
        try:
            with database.connect() as session:
                work(session)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return errors


def test_batch_of_two_sessions_is_finished_once(database, connection, batches):
    with database.connect(autocommit=False) as first, database.connect() as second:
        batch = value(connection, "select pgq.next_batch('changes', 'lake')")
        assert value(second, "select pgq.next_batch('changes', 'lake')") == batch
        assert value(first, "select pgq.finish_batch(%s)", batch) == 1
        finished = []
        waiting = threading.Thread(
            target=lambda: finished.append(value(second, "select pgq.finish_batch(%s)", batch))
        )
        waiting.start()
        wait_for_lock(connection, second)
        first.commit()
        waiting.join(30)

    assert finished == [0]


def test_without_lock_and_key_two_sessions_have_two_batches_of_the_same_events(
    database, connection, batches
):
    replace_in(
        connection,
        "pgq.next_batch_custom(text,text,interval,integer,interval)",
        "for no key update of s;",
        ";",
    )
    connection.execute("alter table pgq.position_0 drop constraint position_0_pkey")
    connection.execute("create index on pgq.position_0 (pos_subscriber, pos_move)")
    query = "select pgq.next_batch('changes', 'lake')"
    with database.connect(autocommit=False) as first, database.connect(autocommit=False) as second:
        one, two = value(first, query), value(second, query)

        assert one != two
        assert ids(first, one) == ids(second, two) == [1], "the planted bug must double the event"


def process(done: list[int], *, isolation: str = "read committed"):
    """Consume with effect and position in one transaction; append the committed ids to `done`."""

    def work(session: psycopg.Connection) -> None:
        session.execute(f"set default_transaction_isolation = '{isolation}'")
        while True:
            try:
                with session.transaction():
                    batch = value(session, "select pgq.next_batch('changes', 'lake')")
                    if batch is None:
                        return
                    session.execute("select sluice.hold_batch(%s)", (batch,))
                    events = ids(session, batch)
                    assert value(session, "select pgq.finish_batch(%s)", batch) == 1
            except psycopg.errors.SerializationFailure:
                continue
            except psycopg.Error as error:
                if error.sqlstate not in ("PQ003", "PQ004"):
                    raise
                continue
            done.extend(events)

    return work


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_workers_of_one_consumer_do_each_event_once_while_ledgers_are_emptied(
    database, connection, batches, isolation
):
    done: list[int] = []
    emptied = []

    def maintain(session: psycopg.Connection) -> None:
        while value(session, "select sub_last_tick from pgq.subscription") <= BATCH_COUNT:
            session.execute("select pgq._maintain_positions(1)")
            emptied.append(1)

    errors = together(database, *(process(done, isolation=isolation) for _ in range(3)), maintain)

    assert errors == []
    assert len(emptied) > 1
    assert sorted(done) == list(range(1, BATCH_COUNT + 1))


def test_a_move_during_the_change_of_ledgers_waits_and_goes_to_the_new_one(
    database, connection, batches
):
    with database.connect(autocommit=False) as keeper, database.connect() as worker:
        keeper.execute("select pgq._maintain_positions(1)")
        batch = []
        waiting = threading.Thread(
            target=lambda: batch.append(value(worker, "select pgq.next_batch('changes', 'lake')"))
        )
        waiting.start()
        wait_for_lock(connection, worker)
        keeper.commit()
        waiting.join(30)

    assert batch == [1]
    connection.execute("select pgq._maintain_positions(1)")
    assert rows(connection, "select pos_batch from pgq.position_0") == []
    assert value(connection, "select max(pos_batch) from pgq.position_1") == 1


def test_a_change_of_ledgers_that_does_not_lock_loses_a_move(database, connection, batches):
    """The planted bug: without the lock, a worker moves its position after it was copied."""
    source = value(
        connection, "select pg_get_functiondef('pgq._maintain_positions(bigint)'::regprocedure)"
    )
    assert source.count("for no key update skip locked") == 1
    source = source.replace("for no key update skip locked", "")
    connection.execute(source)
    # A plain update would wait for the worker's lock; the bug is to read before it.
    with database.connect(autocommit=False) as worker, database.connect() as keeper:
        batch = value(worker, "select pgq.next_batch('changes', 'lake')")
        assert value(worker, "select pgq.finish_batch(%s)", batch) == 1
        waiting = threading.Thread(
            target=lambda: keeper.execute("select pgq._maintain_positions(1)")
        )
        waiting.start()
        wait_for_lock(connection, keeper)
        worker.commit()
        waiting.join(30)

    assert value(connection, "select sub_last_tick from pgq.subscription") == 1


def test_two_members_that_find_the_same_dead_one_do_not_both_get_its_batch(
    database, connection, batches
):
    dead = coop_next(connection, "dead")
    fall_silent(connection, "dead")
    with database.connect(autocommit=False) as first, database.connect() as second:
        taken = coop_next(first, "one", "30 minutes")
        got = []
        waiting = threading.Thread(
            target=lambda: got.append(coop_next(second, "two", "30 minutes"))
        )
        waiting.start()
        wait_for_lock(connection, second)
        first.commit()
        waiting.join(30)

    assert dead != taken
    assert ids(connection, taken) == [1]
    assert ids(connection, got[0]) == [2]


def test_a_member_that_is_finishing_is_not_dead(database, connection, batches):
    batch = coop_next(connection, "slow")
    fall_silent(connection, "slow")
    with database.connect(autocommit=False) as slow:
        assert value(slow, "select pgq_coop.finish_batch(%s)", batch) == 1
        connection.execute("set lock_timeout = '1 s'")

        assert ids(connection, coop_next(connection, "one", "30 minutes")) == [2]


def test_a_finish_that_comes_during_the_takeover_waits_and_is_0(database, connection, batches):
    batch = coop_next(connection, "slow")
    fall_silent(connection, "slow")
    with database.connect(autocommit=False) as taker, database.connect() as slow:
        taken = coop_next(taker, "one", "30 minutes")
        finished = []
        waiting = threading.Thread(
            target=lambda: finished.append(value(slow, "select pgq_coop.finish_batch(%s)", batch))
        )
        waiting.start()
        wait_for_lock(connection, slow)
        taker.commit()
        waiting.join(30)

    assert finished == [0]
    assert ids(connection, taken) == [1]


def test_one_name_in_two_sessions_is_distinguished_and_the_group_continues(
    database, connection, batches
):
    batch = coop_next(connection, "one")
    with database.connect(autocommit=False) as first:
        first.execute("select sluice.hold_batch(%s)", (batch,))
        connection.execute("set lock_timeout = '1 s'")

        query = "select pgq_coop.next_batch('changes', 'lake', 'one')"
        assert error_of(connection, query) == (
            "PQ004",
            "subconsumer lake.one on queue changes is busy",
        )
        assert ids(connection, coop_next(connection, "two")) == [2]


@pytest.mark.slow
def test_eight_members_that_take_over_all_the_time_do_each_event_and_never_deadlock(
    database, connection, batches
):
    committed: list[int] = []

    def member(number: int):
        def work(session: psycopg.Connection) -> None:
            name = f"m{number}"
            # Members count as dead at once: a member outside a transaction loses its batch.
            while (batch := coop_next(session, name, "0 s")) is not None:
                with session.transaction():
                    try:
                        with session.transaction():
                            session.execute("select sluice.hold_batch(%s)", (batch,))
                    except psycopg.Error as error:
                        if error.sqlstate not in ("PQ003", "PQ004"):
                            raise
                        continue
                    events = ids(session, batch)
                    assert value(session, "select pgq_coop.finish_batch(%s)", batch) == 1
                committed.extend(events)

        return work

    errors = together(database, *(member(number) for number in range(8)))

    assert errors == []
    wait_until(
        lambda: (
            value(connection, "select max(sub_last_tick) from pgq.subscription") == BATCH_COUNT + 1
        ),
        "the group to reach the last tick",
    )
    left = rows(connection, "select sub_batch from pgq.subscription where sub_batch is not null")
    assert left == []
    assert Counter(committed) == Counter(range(1, BATCH_COUNT + 1))
