"""Keeps queues and logs in order: partitions, retention, rotation, share groups, events that come again, and more."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from psycopg_pool import ConnectionPool

from pgsluice.client import EventLog, MaintenanceStep, WorkQueue
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls.logs import rotate_page
from pgsluice.errors import ArgumentError, ConnectionFailedError, RetryableError, SluiceError
from pgsluice.worker.pause import next_delay_s

Report = Callable[[MaintenanceStep], None]

_log = logging.getLogger(__name__)
# Of one duty in a row; what is left then comes with the next period.
_ROUNDS_MAX = 1_000


class Maintenance:
    """Do the work that queues and logs need now and then. Any number of processes may run one.

    Nothing here waits long for a lock: what is in use is left to a later round.
    """

    def __init__(
        self,
        pool: ConnectionPool[Any],
        *,
        period_s: float = 10.0,
        retry_period_s: float = 1.0,
        report: Report | None = None,
    ) -> None:
        """Prepare it.

        Args:
            pool: Gives one connection at a time, of a role that may maintain (`sluice_admin`).
            period_s: Seconds between two rounds of partitions, retention, deduplication keys, rotation and what logs
                name in `queue_extra_maint`, more than 0.
            retry_period_s: Seconds between two looks for events that are to come again now, and after share groups,
                more than 0.
            report: Called with each thing that was done.
        """
        if not (period_s > 0 and retry_period_s > 0):
            raise ArgumentError(
                f"period_s is {period_s} and retry_period_s {retry_period_s}; use more than 0 seconds"
            )
        self._queue = WorkQueue(pool)
        self._events = EventLog(pool)
        self._runner = Runner(pool)
        self._period_s = period_s
        self._retry_period_s = retry_period_s
        self._report = report or (lambda _step: None)

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set. A lost connection is waited out, with growing delays.

        Raises:
            SluiceError: What waiting does not mend, such as a role that may not maintain.
        """
        delay_s = 0.0
        round_at_s = 0.0
        while not stop.is_set():
            try:
                self._retry(stop)
                self._maintain_groups()
                if time.monotonic() >= round_at_s:
                    self._rotate()
                    self._extra()
                    self._maintain(stop)
                    round_at_s = time.monotonic() + self._period_s
                delay_s = 0.0
                stop.wait(min(self._retry_period_s, max(0.0, round_at_s - time.monotonic())))
            except (ConnectionFailedError, RetryableError) as error:
                delay_s = next_delay_s(delay_s)
                _log.warning("maintenance: %s; again in %.1f s", error, delay_s)
                stop.wait(delay_s)

    def run_once(self) -> list[MaintenanceStep]:
        """Do all there is to do now.

        Returns:
            What was given up for now, as it is in use or not ours. What was done is reported.

        Raises:
            SluiceError: The server failed.
        """
        stop = threading.Event()
        self._retry(stop)
        left = [*self._maintain_groups(), *self._rotate()]
        return [*left, *self._extra(), *self._maintain(stop)]

    def _retry(self, stop: threading.Event) -> None:
        """Move events that are due back into their logs."""
        moved = 0
        for _ in range(_ROUNDS_MAX):
            step = self._events.maint_retry_events()
            moved += step
            if step == 0 or stop.is_set():
                break
        if moved:
            self._report(MaintenanceStep("retry", None, True, f"{moved} events come again"))

    def _maintain_groups(self) -> list[MaintenanceStep]:
        """Maintain the share groups; return those that failed: they keep no other from being maintained."""
        failed = []
        for step in self._events.maintain_groups():
            what = "ledgers" if step.group_name is None else f"group {step.group_name}"
            if step.action == "failed":
                failed.append(_failed("groups", step.queue_name, f"{what}: {step.reason}"))
            elif step.action != "kept":
                self._report(
                    MaintenanceStep("groups", step.queue_name, True, f"{what}: {step.action}")
                )
        return failed

    def _rotate(self) -> list[MaintenanceStep]:
        """Rotate all logs, page by page; return those that failed: they keep no other from being rotated."""
        failed = []
        after, steps = self._runner.run(rotate_page(">"))
        while after != ">":
            after, more = self._runner.run(rotate_page(after))
            steps += more
        for step in steps:
            if step.action == "failed":
                failed.append(_failed("rotate", step.queue_name, step.reason or ""))
            elif step.action != "kept":
                detail = (
                    f"{step.action}: {step.reason}"
                    if step.segment is None
                    else f"segment {step.segment} {step.action}"
                )
                self._report(MaintenanceStep("rotate", step.queue_name, True, detail))
        return failed

    def _extra(self) -> list[MaintenanceStep]:
        """Call the functions that logs name; return those that failed: they keep nothing else from being done."""
        failed = []
        for queue_name, function_name in self._events.list_extra_maint():
            try:
                if not self._events.run_extra_maint(queue_name, function_name):
                    continue
            except (ConnectionFailedError, RetryableError):
                raise
            except SluiceError as error:
                _log.warning("maintenance: %s of log %s: %s", function_name, queue_name, error)
                detail = f"{function_name}: {error}"
                failed.append(MaintenanceStep("extra", queue_name, False, detail))
            else:
                self._report(MaintenanceStep("extra", queue_name, True, function_name))
        return failed

    def _maintain(self, stop: threading.Event) -> list[MaintenanceStep]:
        left: list[MaintenanceStep] = []
        for _ in range(_ROUNDS_MAX):
            steps = self._queue.maintain()
            left = [step for step in steps if not step.done]
            for step in steps:
                if step.done:
                    self._report(step)
            if len(left) == len(steps) or stop.is_set():
                break
        return left


def _failed(task: str, queue_name: str | None, detail: str) -> MaintenanceStep:
    _log.warning("maintenance: %s failed queue=%s error=%r", task, queue_name, detail)
    return MaintenanceStep(task, queue_name, False, detail)
