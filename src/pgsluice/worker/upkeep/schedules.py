"""Schedules: what an app declares, and the loop that fires what is due."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg_pool import ConnectionPool

from pgsluice.backoff import DELAY_MAX_S, Backoff
from pgsluice.client import AsyncSchedules, FiredSlot, NewEvent, ScheduleOptions
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import schedules as calls
from pgsluice.client.schedule_records import CatchUp
from pgsluice.errors import ArgumentError

_log = logging.getLogger(__name__)
# After a look at which others held all that was due.
_BUSY_MIN_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """A schedule as it is declared in code. `App.schedule` makes them, and a worker writes them when it starts.

    Attributes:
        name: Unique in the database.
        queue_name: The work queue that it sends to; with `event` the event log that it appends to.
        message: What it sends, as JSON can hold it. Not with `event`.
        headers: The headers of the message, or None. Not with `event`.
        event: What it appends to an event log; None: it sends to a work queue.
        cron: When, as five fields or a word such as `@daily`; or else `every_s`.
        every_s: Seconds from one slot to the next, 0.1 or more.
        time_zone: The time zone of `cron`.
        catch_up: What becomes of slots that nobody was there to fire: `none`, `one` or `all`.
        catch_up_within_s: How old a missed slot may be with `all`, seconds.
        jitter_s: Each slot is late by less than so many seconds, 0 or more, always the same for one slot.
        starts_at: No slot is before this time; with `every_s` it is the first one. None: from now on.
        ends_at: No slot is at this time or after it; None: it goes on for ever.
    """

    name: str
    queue_name: str
    message: Any = None
    headers: dict[str, Any] | None = None
    event: NewEvent | None = None
    cron: str | None = None
    every_s: float | None = None
    time_zone: str = "UTC"
    catch_up: CatchUp = "one"
    catch_up_within_s: float = 604_800.0
    jitter_s: float = 0.0
    starts_at: datetime | None = None
    ends_at: datetime | None = None

    def options(self, app_name: str) -> ScheduleOptions:
        """When it fires, as the clients take it, and the app that declares it."""
        return ScheduleOptions(
            cron=self.cron,
            every_s=self.every_s,
            time_zone=self.time_zone,
            catch_up=self.catch_up,
            catch_up_within_s=self.catch_up_within_s,
            jitter_s=self.jitter_s,
            starts_at=self.starts_at,
            ends_at=self.ends_at,
            declared_by=app_name,
        )


async def declare_schedules(
    schedules: AsyncSchedules, app_name: str, specs: Iterable[ScheduleSpec]
) -> list[str]:
    """Write what an app declares; what is there just so is left alone.

    Nothing is dropped: an older process of the app may still declare it.

    Args:
        schedules: On a pool, or on a connection of a role that may schedule (`sluice_admin`).
        app_name: The app; written with each schedule.
        specs: All of its schedules.

    Returns:
        The names of those that this app declared before and does not declare now, in order; the log says so too.

    Raises:
        QueueNotFoundError: A work queue does not exist.
        LogNotFoundError: An event log does not exist.
        ArgumentError: A schedule cannot be so; it is named.
    """
    # In order, so that processes that start together never wait for each other in a circle.
    by_name = {spec.name: spec for spec in sorted(specs, key=lambda spec: spec.name)}
    for spec in by_name.values():
        await _write(schedules, app_name, spec)
    gone = [
        schedule.name
        for schedule in await schedules.list_schedules()
        if schedule.declared_by == app_name and schedule.name not in by_name
    ]
    for name in gone:
        _log.warning(
            "schedule %s is not declared by app %s any more; it goes on until `pgsluice schedule drop`",
            name,
            app_name,
        )
    return gone


async def _write(schedules: AsyncSchedules, app_name: str, spec: ScheduleSpec) -> None:
    options = spec.options(app_name)
    if spec.event is None:
        await schedules.schedule(
            spec.name, spec.queue_name, spec.message, headers=spec.headers, **options
        )
    else:
        await schedules.schedule_event(
            spec.name, spec.queue_name, **spec.event._asdict(), **options
        )


class Scheduler:
    """Fire schedules exactly when they are due. Any number of processes may run one: each slot is fired once.

    It sleeps until the next slot. One that somebody makes meanwhile, and that is due before, is seen at the next look.
    """

    def __init__(
        self,
        pool: ConnectionPool[Any],
        *,
        poll_interval_s: float = 1.0,
        report: Callable[[FiredSlot], None] | None = None,
    ) -> None:
        """Prepare it.

        Args:
            pool: Gives one connection at a time, of a role that may fire (`sluice_admin`).
            poll_interval_s: Seconds between two looks at most, more than 0. A look reads one small table.
            report: Called with each slot that was fired, or could not be.
        """
        if not poll_interval_s > 0:
            raise ArgumentError(f"poll_interval_s is {poll_interval_s}; use more than 0 seconds")
        self._runner = Runner(pool)
        self._poll_interval_s = poll_interval_s
        self._report = report or (lambda _fired: None)

    def run(self, stop: threading.Event) -> None:
        """Fire until `stop` is set. A lost connection is waited out, with growing delays.

        Raises:
            SluiceError: What waiting does not mend, such as a role that may not fire.
        """
        backoff = Backoff("scheduler", _log.log, delay_max_s=DELAY_MAX_S)
        busy_s = _BUSY_MIN_S
        while not stop.is_set():
            with backoff.attempt(stop):
                due_in_s = self._runner.run(calls.next_schedule_in_s())
                if due_in_s is None or due_in_s > 0:
                    wait_s, busy_s = due_in_s or self._poll_interval_s, _BUSY_MIN_S
                elif self._fire():
                    wait_s, busy_s = 0.0, _BUSY_MIN_S
                else:
                    wait_s, busy_s = busy_s, busy_s * 2
                stop.wait(min(wait_s, self._poll_interval_s))

    def run_once(self) -> list[FiredSlot]:
        """Fire all that is due now.

        Returns:
            The slots that were fired, and those that could not be, with the reason.

        Raises:
            SluiceError: The server failed.
        """
        done: list[FiredSlot] = []
        while fired := self._fire():
            done += fired
        return done

    def _fire(self) -> list[FiredSlot]:
        fired = self._runner.run(calls.fire_schedules())
        for slot in fired:
            if slot.error is not None:
                _log.warning(
                    "schedule %s: slot %s cannot be fired: %s", slot.name, slot.slot, slot.error
                )
            self._report(slot)
        return fired
