"""Schedules on a server whose clock steps back or forward by a day."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from support import rows, value
from support.clock import DAY_S, Clock
from support.schedules import schedule
from support.servers import Database

STEPS = {
    "back": [-DAY_S],
    "forward": [DAY_S],
    "forward and back": [DAY_S, -DAY_S],
    "back and forward": [-DAY_S, DAY_S],
    "forward and back, twice": [DAY_S, -DAY_S, DAY_S, -DAY_S],
}
each_step = pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)


@pytest.fixture
def session(clock_database: Database) -> Iterator[psycopg.Connection]:
    with clock_database.connect() as session:
        session.execute("select pgmq.create('orders')")
        yield session


def fired(session: psycopg.Connection) -> list[object]:
    """Fire due schedules and run their maintenance; return the fired slots."""
    found = [slot for _, slot, _, _ in rows(session, "select * from sluice.fire_schedules()")]
    rows(session, "select * from sluice._maintain_schedules()")
    return found


def sent(session: psycopg.Connection) -> list[object]:
    """Return the slots of the sent messages."""
    return rows(session, "select headers -> 'x-pgmq-schedule' ->> 'slot' from pgmq.q_orders")


@pytest.mark.slow
@each_step
@pytest.mark.parametrize("catch_up", ["none", "one", "all"])
def test_schedule_fires_on_time_after_a_step_and_each_slot_once(
    session: psycopg.Connection, clock: Clock, steps: list[float], catch_up: str
) -> None:
    schedule(session, every="10 minutes", catch_up=catch_up, starts_at="2020-01-01T00:00:00Z")
    for step in [0.0, *steps]:
        clock.shift(step)
        for _ in range(20):
            fired(session)
        before = len(sent(session))
        for _ in range(10):
            clock.shift(200)
            fired(session)
        # Slots that fired before the clock went back do not fire again.
        assert len(sent(session)) >= before + 3 or step == -DAY_S
    slots = sent(session)
    assert len(slots) == len(set(slots))
    # The next slot is due by the present clock.
    late = value(
        session, "select next_slot - clock_timestamp() < '10 minutes' from sluice.schedule"
    )
    assert late is True


def test_slot_that_a_jump_left_out_fires_when_the_clock_is_right_again(
    session: psycopg.Connection, clock: Clock
) -> None:
    schedule(session, every="6 hours", catch_up="none")
    clock.shift(DAY_S - 3600)
    assert fired(session) == []
    clock.shift(-DAY_S + 3600)
    assert fired(session) == []
    clock.shift(6 * 3600 + 1)
    assert len(fired(session)) == 1


def test_failed_slot_is_tried_again_after_the_clock_was_set_back(
    session: psycopg.Connection, clock: Clock
) -> None:
    schedule(session, every="10 minutes")
    clock.shift(DAY_S)
    session.execute("select pgmq.drop_queue('orders')")
    ((_, failed, _, error),) = rows(session, "select * from sluice.fire_schedules()")
    assert error is not None
    clock.shift(-DAY_S)
    session.execute("select pgmq.create('orders')")
    found = []
    for _ in range(3):
        found += fired(session)
        clock.shift(600)
    assert len(found) == 2
    assert failed not in found


def test_clock_set_back_by_more_than_a_day_fires_no_slot_twice(
    session: psycopg.Connection, clock: Clock
) -> None:
    schedule(session, every="6 hours")
    slots = []
    for _ in range(16):
        clock.shift(6 * 3600)
        slots += fired(session)
    clock.shift(-3 * DAY_S)
    for _ in range(16):
        slots += fired(session)
        clock.shift(6 * 3600)
    assert len(slots) == len(set(slots))


@pytest.mark.parametrize(
    "steps",
    [
        [DAY_S, -DAY_S, -7200],
        [DAY_S, -7200, -DAY_S],
        [DAY_S + 7200, -DAY_S - 7200, -DAY_S],
        [-15 * 3600, -15 * 3600],
    ],
    ids=["a day ahead, then two hours back", "two hours and a day back", "further", "by parts"],
)
def test_slots_that_maintenance_has_removed_are_not_fired_again(
    session: psycopg.Connection, clock: Clock, steps: list[float]
) -> None:
    schedule(session, every="10 minutes", starts_at="2020-01-01T00:00:00Z")
    slots = []
    # At first more than a day, so that maintenance removes slots; at last until the clock is ahead again.
    for step, fires in zip([0.0, *steps], [160, *[3] * (len(steps) - 1), 350], strict=True):
        clock.shift(step)
        for _ in range(fires):
            slots += fired(session)
            clock.shift(600)
    assert len(slots) == len(set(slots)) > 160
    assert slots[-1] == max(slots)


def test_schedule_goes_on_after_an_hour_with_a_clock_a_year_ahead(
    session: psycopg.Connection, clock: Clock
) -> None:
    schedule(session, every="10 minutes", starts_at="2020-01-01T00:00:00Z")
    hours = []
    for step in (0, 365 * DAY_S, -365 * DAY_S):
        clock.shift(step)
        slots = []
        for _ in range(7):
            slots += fired(session)
            clock.shift(600)
        hours.append(slots)
    before, ahead, after = hours
    assert len({*before, *ahead, *after}) == len(before + ahead + after)
    assert len(after) >= 6
    assert max(before) < min(after) <= max(after) < min(ahead)
