"""Share groups on a server whose clock steps back or forward by a day."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import psycopg
import pytest

from support import value
from support.clock import DAY_S, Clock
from support.log import tick
from support.servers import Database
from support.share_groups import (
    GROUP,
    LOG,
    acknowledge,
    claim,
    claimed,
    create_group,
    info,
    make_log,
    open_claims,
    renew,
    rotate,
    send,
    take_all,
)
from support.share_keys import blocked, make_keyed, send_keys

# Clock steps before the test continues.
STEPS = {
    "back": [-DAY_S],
    "forward": [DAY_S],
    "forward and back": [DAY_S, -DAY_S],
    "back and forward": [-DAY_S, DAY_S],
    "forward and back, twice": [DAY_S, -DAY_S, DAY_S, -DAY_S],
}
each_step = pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
each_kind = pytest.mark.parametrize("key", [None, "ev_extra1"], ids=["plain", "keyed"])


@pytest.fixture
def session(clock_database: Database) -> Iterator[psycopg.Connection]:
    with clock_database.connect() as session:
        yield session


def walk(session: psycopg.Connection, clock: Clock, steps: list[float]) -> None:
    """Step the clock; after each step claim, acknowledge, retry and let leases expire."""
    for step in steps:
        clock.shift(step)
        send(session, "a", "b")
        for event in claim(session, 10, "10 s")[:1]:
            acknowledge(session, event.claim_id, "retry", [event.ev_id], delay="1 s")
        clock.shift(20)
        take_all(session)
        clock.shift(20)
        take_all(session)


def now(session: psycopg.Connection) -> datetime:
    found = value(session, "select clock_timestamp()")
    assert isinstance(found, datetime)
    return found


@pytest.mark.slow
@each_kind
@each_step
def test_lease_taken_after_a_step_expires_on_time(
    session: psycopg.Connection, clock: Clock, steps: list[float], key: str | None
) -> None:
    make_log(session)
    create_group(session, key=key)
    walk(session, clock, steps)
    (event,) = send(session, "lost")
    (taken,) = claim(session, 10, "30 s")
    assert abs(taken.lease_until - now(session) - timedelta(seconds=30)) < timedelta(seconds=10)
    clock.shift(10)
    assert claimed(session, 10) == []
    clock.shift(40)
    assert claimed(session, 10) == [event]


@each_kind
@each_step
def test_lease_taken_before_a_step_expires_within_its_length(
    session: psycopg.Connection, clock: Clock, steps: list[float], key: str | None
) -> None:
    make_log(session)
    create_group(session, key=key)
    send(session, "lost")
    (before,) = claim(session, 10, "30 s")
    renew(session, before.claim_id, "30 s")
    found = []
    for step in steps:
        clock.shift(step)
        found += claimed(session, 10, lease="30 s")
    for _ in range(3):
        clock.shift(31)
        found += claimed(session, 10, lease="30 s")
    assert before.ev_id in found


@each_step
def test_renewal_after_a_step_lasts_as_long_as_it_says(
    session: psycopg.Connection, clock: Clock, steps: list[float]
) -> None:
    make_log(session)
    create_group(session, lease="1 hour")
    for step in steps:
        send(session, "held")
        (held,) = claim(session, 10, "1 hour")
        assert renew(session, held.claim_id) - now(session) < timedelta(minutes=61)
        clock.shift(step)
        until = renew(session, held.claim_id)
        assert timedelta(minutes=59) < until - now(session) < timedelta(minutes=61)
        assert claimed(session, 10) == []
        assert until - open_claims(session)[held.claim_id].lease_until < timedelta(minutes=1)
        clock.shift(59 * 60)
        assert claimed(session, 10) == []
        acknowledge(session, held.claim_id)


@pytest.mark.slow
@each_kind
@each_step
def test_retry_after_a_step_waits_for_its_delay(
    session: psycopg.Connection, clock: Clock, steps: list[float], key: str | None
) -> None:
    make_log(session)
    create_group(session, key=key)
    walk(session, clock, steps)
    (event,) = send(session, "later")
    (taken,) = claim(session, 10)
    acknowledge(session, taken.claim_id, "retry", delay="1 hour")
    assert claimed(session, 10) == []
    clock.shift(3500)
    assert claimed(session, 10) == []
    clock.shift(200)
    assert claimed(session, 10) == [event]


@each_kind
def test_retry_before_the_clock_is_set_back_waits_for_its_delay(
    session: psycopg.Connection, clock: Clock, key: str | None
) -> None:
    make_log(session)
    create_group(session, key=key)
    clock.shift(DAY_S)
    ids = send(session, "read before", "read after")
    first, second = claim(session)[0], claim(session)[0]
    acknowledge(session, first.claim_id, "retry", delay="1 hour")
    assert claimed(session) == []  # this claim reads the retry
    acknowledge(session, second.claim_id, "retry", delay="1 hour")
    clock.shift(-DAY_S)
    assert claimed(session, 10) == []
    due = value(session, "select sluice.next_group_due(%s, %s)", LOG, GROUP)
    assert isinstance(due, datetime)
    assert due - now(session) < timedelta(minutes=61)
    clock.shift(3700)
    assert sorted(claimed(session, 10)) == ids


def test_keys_that_wait_are_listed_by_the_present_clock(
    session: psycopg.Connection, clock: Clock
) -> None:
    make_keyed(session)
    clock.shift(DAY_S)
    send_keys(session, "ab")
    take_all(session)
    clock.shift(-DAY_S)
    (event,) = send_keys(session, "a")
    (taken,) = claim(session, 10)
    acknowledge(session, taken.claim_id, "retry", delay="1 hour")
    assert claimed(session, 10) == []
    until = blocked(session)["a"].due_at
    assert timedelta(minutes=59) < until - now(session) < timedelta(minutes=61)
    clock.shift(3700)
    assert claimed(session, 10) == [event]


@pytest.mark.slow
@each_kind
@each_step
def test_log_is_not_pinned_after_a_step(
    session: psycopg.Connection, clock: Clock, steps: list[float], key: str | None
) -> None:
    make_log(session)
    create_group(session, key=key)
    walk(session, clock, steps)
    for _ in range(3):
        send(session, "x", "y")
        tick(session)
        take_all(session)
        clock.shift(2)
        session.execute("select sluice.maintain_groups()").fetchall()
        rotate(session)
    assert info(session).lag_events == 0
    assert open_claims(session) == {}
    kept = value(session, "select count(*) from pgq.event_1")
    assert isinstance(kept, int)
    assert kept <= 4


@each_step
def test_group_without_claims_lets_leases_expire_by_maintenance(
    session: psycopg.Connection, clock: Clock, steps: list[float]
) -> None:
    make_log(session)
    create_group(session)
    walk(session, clock, steps)
    send(session, "lost")
    (taken,) = claim(session, 10, "30 s")
    clock.shift(-DAY_S)
    assert taken.claim_id in open_claims(session)
    for _ in range(2):
        session.execute("select sluice.maintain_groups()").fetchall()
        clock.shift(31)
    session.execute("select sluice.maintain_groups()").fetchall()
    assert taken.claim_id not in open_claims(session)


@each_kind
def test_group_time_advances_by_maintenance_when_idle_after_the_clock_is_set_back(
    session: psycopg.Connection, clock: Clock, key: str | None
) -> None:
    make_log(session)
    create_group(session, key=key)
    (event,) = send(session, "later")
    (taken,) = claim(session, 10)
    acknowledge(session, taken.claim_id, "retry", delay="1 hour")
    assert claimed(session, 10) == []  # this claim reads the retry
    session.execute("select sluice.maintain_groups()").fetchall()
    clock.shift(-DAY_S)
    session.execute("select sluice.maintain_groups()").fetchall()
    clock.shift(3700)
    assert claimed(session, 10) == [event]


def test_claim_numbers_rise_while_the_clock_goes_back(
    session: psycopg.Connection, clock: Clock
) -> None:
    make_log(session)
    create_group(session)
    numbers = []
    for step in (0, -DAY_S, 2 * DAY_S, -DAY_S, -0.5):
        clock.shift(step)
        send(session, "a")
        numbers.append(claim(session)[0].claim_id)
    assert numbers == sorted(set(numbers))


def test_waiting_worker_claims_when_the_clock_is_set_back(
    session: psycopg.Connection, clock: Clock
) -> None:
    make_log(session)
    create_group(session)
    send(session, "a")
    claim(session, 1, "30 s")
    clock.shift(-DAY_S)
    due = value(session, "select sluice.next_group_due(%s, %s)", LOG, GROUP)
    assert isinstance(due, datetime)
    assert due <= now(session)
    assert claimed(session) == []
    due = value(session, "select sluice.next_group_due(%s, %s)", LOG, GROUP)
    assert isinstance(due, datetime)
    assert due - now(session) < timedelta(seconds=31)
