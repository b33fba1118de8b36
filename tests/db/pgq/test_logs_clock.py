"""Event logs on a server whose clock steps by a day: ticks, delays, retries, rotation.

Covers pgq._rewind_retries.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from support import rows, value
from support.clock import DAY_S, Clock
from support.log import consume_all, move_retries, open_batch, tick
from support.servers import Database

LOG = "changes"
STEPS = {
    "back": [-DAY_S],
    "forward": [DAY_S],
    "forward and back": [DAY_S, -DAY_S],
    "back and forward": [-DAY_S, DAY_S],
}
each_step = pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)


@pytest.fixture
def session(clock_database: Database) -> Iterator[psycopg.Connection]:
    with clock_database.connect() as session:
        session.execute("select pgq.create_queue(%s)", (LOG,))
        session.execute("select pgq.register_consumer(%s, 'lake')", (LOG,))
        yield session


def insert(session: psycopg.Connection, data: str = "d") -> int:
    ev_id = value(session, "select pgq.insert_event(%s, 't', %s)", LOG, data)
    assert isinstance(ev_id, int)
    return ev_id


def consumed(session: psycopg.Connection) -> list[int]:
    return [ev_id for batch in consume_all(session) for ev_id in batch]


def any_time(session: psycopg.Connection) -> None:
    """Let the log tick at each call."""
    session.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )


@each_step
def test_ticker_ticks_on_time_after_a_step(
    session: psycopg.Connection, clock: Clock, steps: list[float]
) -> None:
    clock.shift(60)
    session.execute("select pgq.ticker()")
    for step in steps:
        clock.shift(step)
        ev_id = insert(session)
        for _ in range(3):
            clock.shift(4)  # ticker_max_lag defaults to 3 s
            session.execute("select pgq.ticker()")
        assert ev_id in consumed(session)


@each_step
@pytest.mark.parametrize(
    "argument", ["i_min_lag => '1 minute'", "i_min_count => null, i_min_interval => '1 minute'"]
)
def test_batch_of_a_least_age_or_length_comes_on_time_after_a_step(
    session: psycopg.Connection, clock: Clock, steps: list[float], argument: str
) -> None:
    any_time(session)
    arguments = {"i_min_lag": "null", "i_min_count": "null", "i_min_interval": "null"}
    arguments |= dict(part.split(" => ") for part in argument.split(", "))
    named = ", ".join(f"{name} => {given}" for name, given in arguments.items())
    found: list[int] = []
    wanted = []
    for step in [0.0, *steps]:
        clock.shift(step)
        wanted.append(insert(session))
        for _ in range(4):
            tick(session)
            clock.shift(61)
            batch = value(
                session, f"select batch_id from pgq.next_batch_custom('{LOG}', 'lake', {named})"
            )
            if batch is not None:
                found += [
                    ev_id
                    for (ev_id,) in rows(
                        session, "select ev_id from pgq.get_batch_events(%s)", batch
                    )
                ]
                session.execute("select pgq.finish_batch(%s)", (batch,))
        assert found == wanted


@each_step
def test_delayed_event_waits_for_its_time_after_a_step(
    session: psycopg.Connection, clock: Clock, steps: list[float]
) -> None:
    any_time(session)
    for step in steps:
        clock.shift(step)
        session.execute(
            "select sluice.insert_event(%s, 't', 'd', delay => interval '2 seconds')", (LOG,)
        )
        clock.shift(3)
        move_retries(session)
    tick(session)
    arrived = consumed(session)
    session.execute("select sluice.insert_event(%s, 't', 'd', delay => interval '1 hour')", (LOG,))
    clock.shift(3500)
    move_retries(session)
    tick(session)
    assert consumed(session) == []
    clock.shift(200)
    move_retries(session)
    tick(session)
    assert len(consumed(session)) == 1
    assert len(arrived) == len(steps)
    assert value(session, "select sluice.count_delayed(%s)", LOG) == 0


@each_step
def test_retry_waits_for_its_time_after_a_step_and_comes_once(
    session: psycopg.Connection, clock: Clock, steps: list[float]
) -> None:
    any_time(session)
    for step in steps:
        clock.shift(step)
        batch = open_batch(session, 1)
        session.execute(
            "select pgq.event_retry(%s, ev_id, 2) from pgq.get_batch_events(%s)", (batch, batch)
        )
        session.execute("select pgq.finish_batch(%s)", (batch,))
        clock.shift(3)
        assert move_retries(session) == 1
        tick(session)
        consume_all(session)
    batch = open_batch(session, 2)
    session.execute(
        "select pgq.event_retry(%s, ev_id, 3600) from pgq.get_batch_events(%s)", (batch, batch)
    )
    # While the batch is open, repeating the retry has no effect.
    clock.shift(-1)
    assert move_retries(session) == 0
    assert value(session, "select pgq.batch_retry(%s, 3600)", batch) == 0
    session.execute("select pgq.finish_batch(%s)", (batch,))
    clock.shift(3500)
    assert move_retries(session) == 0
    clock.shift(200)
    assert move_retries(session) == 2
    clock.shift(-DAY_S)
    assert move_retries(session) == 0
    clock.shift(2 * DAY_S)
    assert move_retries(session) == 0


def test_delayed_event_that_commits_after_the_clock_was_set_back_is_not_lost(
    session: psycopg.Connection, clock: Clock, clock_database: Database
) -> None:
    any_time(session)
    clock.shift(DAY_S)
    with clock_database.connect(autocommit=False) as late:
        late.execute(
            "select sluice.insert_event(%s, 't', 'late', delay => interval '2 seconds')", (LOG,)
        )
        session.execute(
            "select sluice.insert_event(%s, 't', 'd', delay => interval '2 seconds')", (LOG,)
        )
        clock.shift(3)
        assert move_retries(session) == 1
        clock.shift(-DAY_S)
        assert move_retries(session) == 0
        late.commit()
    clock.shift(DAY_S)
    assert move_retries(session) == 1
    assert move_retries(session) == 0


def test_event_moved_before_the_clock_was_set_back_is_not_repeated_in_its_open_batch(
    session: psycopg.Connection, clock: Clock
) -> None:
    any_time(session)
    clock.shift(DAY_S)
    batch = open_batch(session, 1)
    assert value(session, "select pgq.batch_retry(%s, 1)", batch) == 1
    clock.shift(2)
    assert move_retries(session) == 1
    clock.shift(-DAY_S)
    assert move_retries(session) == 0
    assert value(session, "select pgq.batch_retry(%s, 1)", batch) == 0
    clock.shift(2 * DAY_S)
    assert move_retries(session) == 0


@each_step
def test_rotation_goes_on_after_a_step(
    session: psycopg.Connection, clock: Clock, steps: list[float]
) -> None:
    any_time(session)
    session.execute("update pgq.queue set queue_rotation_period = '1 hour'")
    for step in steps:
        clock.shift(step)
        actions = set()
        for _ in range(2):
            insert(session)
            tick(session)
            consume_all(session)
            clock.shift(3700)
            operations = rows(session, "select func_name from pgq.maint_operations()")
            assert ("pgq.maint_rotate_tables_step1",) in operations
            actions |= {row[2] for row in rows(session, "select * from sluice.rotate()")}
        assert "switched" in actions


@pytest.mark.parametrize("rested", [False, True], ids=["jump", "jump in a row of ticks"])
def test_consumer_is_not_given_up_for_a_clock_that_jumps(
    session: psycopg.Connection, clock: Clock, rested: bool
) -> None:
    any_time(session)
    session.execute("update pgq.queue set queue_rotation_period = '0'")
    session.execute('select sluice.set_log_options(%s, \'{"max_lag_time": "1 hour"}\')', (LOG,))
    wanted = [insert(session)]
    tick(session)
    clock.shift(DAY_S)
    for _ in range(3):
        wanted.append(insert(session))
        tick(session)
        clock.shift(10)
    rows(session, "select * from sluice.rotate()")
    rows(session, "select * from sluice.rotate()")
    assert consumed(session) == wanted
    # A consumer that lags while the log ticks is abandoned as before.
    for _ in range(5):
        insert(session)
        tick(session)
        clock.shift(1200)
    if rested:
        clock.shift(-DAY_S)
        insert(session)
        tick(session)
        clock.shift(DAY_S)
        insert(session)
        tick(session)
    rows(session, "select * from sluice.rotate()")
    lost = value(session, "select pos_lost from pgq.standing where pos_lost is not null")
    assert "exceeds the limit of 01:00:00" in str(lost)
