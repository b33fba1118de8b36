"""Declared schedules of an app, and the loop that fires due slots."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from psycopg_pool import ConnectionPool

from pgsluice.backoff import DELAY_MAX_S, Backoff
from pgsluice.client import AsyncSchedules, FiredSlot, NewEvent, ScheduleOptions
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import schedules as calls
from pgsluice.ranges import require_positive_s

_log = logging.getLogger(__name__)
# Name of an app that is given none.
DEFAULT_NAME = "app"
# First delay when other processes hold all due schedules.
_BUSY_MIN_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """A schedule declared in code. Made by `App.schedule`, and stored when a worker starts.

    Attributes:
        name: Unique in the database.
        queue_name: The work queue to send to; with `event` the event log to append to.
        message: The message, JSON-serializable. Not with `event`.
        headers: The headers of the message, or None. Not with `event`.
        event: The event to append to an event log; None: send to a work queue.
        timing: When to send.
    """

    name: str
    queue_name: str
    timing: ScheduleOptions
    message: Any = None
    headers: dict[str, Any] | None = None
    event: NewEvent | None = None


async def declare_schedules(
    schedules: AsyncSchedules, app_name: str, specs: Iterable[ScheduleSpec]
) -> list[str]:
    """Store the schedules that an app declares, unchanged ones without a write, and pause those it declared before.

    An app owns what it declares under its name, and the version that starts last decides. Schedules of other apps and
    those made by hand are left alone. None is dropped: an earlier version resumes its own when it starts again. An app
    with the default name pauses none, as other programs may have that name too.

    Args:
        schedules: On a pool, or on a connection of a role that may schedule (`sluice_admin`).
        app_name: The app; stored with each schedule.
        specs: All of its schedules.

    Returns:
        Names of the schedules that this app declared before and does not declare now, in order, which are paused now or
        active because the app has no name of its own; they are also logged.

    Raises:
        QueueNotFoundError: A work queue does not exist.
        LogNotFoundError: An event log does not exist.
        ArgumentError: A schedule is invalid; the message names it.
    """
    # Sorted, so that processes that start concurrently cannot deadlock.
    by_name = {spec.name: spec for spec in sorted(specs, key=lambda spec: spec.name)}
    for spec in by_name.values():
        await _write(schedules, app_name, spec)
    if app_name != DEFAULT_NAME:
        gone = await schedules.retire_schedules(app_name, list(by_name))
        for name in gone:
            _log.warning(
                'schedule paused schedule=%s app=%s reason="no longer declared" hint="to remove it, run: pgsluice '
                'schedule drop; to keep it, run: pgsluice schedule set NAME paused=false"',
                *(name, app_name),
            )
        return gone
    gone = [
        schedule.name
        for schedule in await schedules.list_schedules()
        if schedule.declared_by == app_name
        and schedule.name not in by_name
        and schedule.paused_at is None
    ]
    for name in gone:
        _log.warning(
            'schedule no longer declared schedule=%s app=%s hint="still active, as the app has no name of its own; '
            'pass name= to App, or remove it: pgsluice schedule drop"',
            *(name, app_name),
        )
    return gone


async def _write(schedules: AsyncSchedules, app_name: str, spec: ScheduleSpec) -> None:
    options: ScheduleOptions = {**spec.timing, "declared_by": app_name}
    if spec.event is None:
        await schedules.schedule(
            spec.name, spec.queue_name, spec.message, headers=spec.headers, **options
        )
    else:
        await schedules.schedule_event(
            spec.name, spec.queue_name, **spec.event._asdict(), **options
        )


class Scheduler:
    """Fire due schedules. Any number of processes may run one: each slot is fired once.

    It sleeps until the next slot; a schedule created meanwhile with an earlier slot is found at the next poll.
    """

    def __init__(
        self,
        pool: ConnectionPool[Any],
        *,
        poll_interval_s: float = 1.0,
        report: Callable[[FiredSlot], None] | None = None,
    ) -> None:
        """Prepare a scheduler.

        Args:
            pool: Provides one connection at a time, of a role that may fire schedules (`sluice_admin`).
            poll_interval_s: Maximum poll interval in seconds, more than 0. A poll reads one small table.
            report: Called for each slot that was fired or failed.
        """
        require_positive_s(poll_interval_s, "poll_interval_s")
        self._runner = Runner(pool)
        self._poll_interval_s = poll_interval_s
        self._report = report or (lambda _fired: None)

    def run(self, stop: threading.Event) -> None:
        """Fire schedules until `stop` is set. A lost connection is retried with increasing back-off.

        Raises:
            SluiceError: A permanent error, such as a missing privilege.
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
        """Fire all slots due now.

        Returns:
            The slots fired, and those that failed, with the error.

        Raises:
            SluiceError: A database error.
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
                    'schedule slot failed schedule=%s slot="%s" error=%r',
                    slot.name,
                    slot.slot,
                    slot.error,
                )
            self._report(slot)
        return fired
