"""Maintenance of queues and logs: partitions, retention, rotation, share groups, redelivery of retried events."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from psycopg_pool import ConnectionPool

from pgsluice.backoff import DELAY_MAX_S, Backoff, Reminders
from pgsluice.client import MaintenanceStep, Operations
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls.logs import maintain_groups, rotate_page
from pgsluice.client.calls.pgq import maint_retry_events
from pgsluice.client.calls.upkeep import list_extra_maint, run_extra_maint
from pgsluice.client.sentences import counted
from pgsluice.errors import TRANSIENT, ArgumentError, ConnectionFailedError, SluiceError

Report = Callable[[MaintenanceStep], None]

_log = logging.getLogger(__name__)
# Maximum rounds of one step; the rest is left to the next period.
_ROUNDS_MAX = 1_000


class Maintenance:
    """Run the periodic maintenance of queues and logs. Any number of processes may run one.

    No step waits long for a lock: objects in use are left to a later round.
    """

    def __init__(
        self,
        pool: ConnectionPool[Any],
        *,
        period_s: float = 10.0,
        retry_period_s: float = 1.0,
        report: Report | None = None,
    ) -> None:
        """Prepare maintenance.

        Args:
            pool: Provides one connection at a time, of a role that may run maintenance (`sluice_admin`).
            period_s: Interval of partitions, retention, deduplication keys, rotation and the functions that logs name
                in `queue_extra_maint`, in seconds, more than 0.
            retry_period_s: Interval of redelivering due events and maintaining share groups, in seconds, more than 0.
            report: Called for each completed step.
        """
        if not (period_s > 0 and retry_period_s > 0):
            raise ArgumentError(
                f"period_s is {period_s} and retry_period_s {retry_period_s}; use more than 0 seconds"
            )
        self._operations = Operations(pool)
        self._runner = Runner(pool)
        self._period_s = period_s
        self._retry_period_s = retry_period_s
        self._report = report or (lambda _step: None)
        self._reminders = Reminders()

    def run(self, stop: threading.Event) -> None:
        """Run rounds until `stop` is set. A lost connection is retried with increasing back-off.

        A failed step is logged and does not stop the others; it is retried in the next round.

        Raises:
            SluiceError: Every step failed, such as by a missing privilege.
        """
        backoff = Backoff("maintenance", _log.log, delay_max_s=DELAY_MAX_S)
        round_at_s = 0.0
        while not stop.is_set():
            is_full = time.monotonic() >= round_at_s
            with backoff.attempt(stop):
                self._round(stop, is_full=is_full)
                if is_full:
                    round_at_s = time.monotonic() + self._period_s
                stop.wait(min(self._retry_period_s, max(0.0, round_at_s - time.monotonic())))

    def run_once(self) -> list[MaintenanceStep]:
        """Run all steps once.

        Returns:
            Steps that failed, and those skipped because the object is in use or not owned. Completed steps are
            reported.

        Raises:
            SluiceError: A database error, or every step failed.
        """
        return self._round(threading.Event(), is_full=True)

    def _round(self, stop: threading.Event, *, is_full: bool) -> list[MaintenanceStep]:
        """Run the due steps independently of each other; return those failed or skipped."""
        steps: dict[str, Callable[[], list[MaintenanceStep]]] = {
            "retry": lambda: self._retry(stop),
            "groups": self._maintain_groups,
        }
        if is_full:
            steps |= {
                "rotate": self._rotate,
                "extra": self._extra,
                "maintain": lambda: self._maintain(stop),
            }
        left: list[MaintenanceStep] = []
        errors: list[SluiceError] = []
        for task, step in steps.items():
            try:
                left += step()
            except ConnectionFailedError:
                raise
            except SluiceError as error:
                errors.append(error)
                left.append(self._failed(task, None, str(error)))
        if len(errors) == len(steps):
            raise errors[0]
        return left

    def _retry(self, stop: threading.Event) -> list[MaintenanceStep]:
        """Move due events back into their logs; return the logs that failed."""
        moved = 0
        for _ in range(_ROUNDS_MAX):
            step = self._runner.run(maint_retry_events())
            moved += step
            if step == 0 or stop.is_set():
                break
        if moved:
            self._report(
                MaintenanceStep("retry", None, True, f"{counted(moved, 'event')} redelivered")
            )
        return [
            self._failed("retry", failure.queue_name, failure.error)
            for failure in self._operations.list_failures()
            if failure.task == "retry"
        ]

    def _maintain_groups(self) -> list[MaintenanceStep]:
        """Maintain the share groups independently of each other; return those that failed."""
        failed = []
        for step in self._runner.run(maintain_groups()):
            what = "ledgers" if step.group_name is None else f"group {step.group_name}"
            if step.action == "failed":
                failed.append(self._failed("groups", step.log_name, f"{what}: {step.reason}"))
            elif step.action != "kept":
                self._report(
                    MaintenanceStep("groups", step.log_name, True, f"{what}: {step.action}")
                )
        return failed

    def _rotate(self) -> list[MaintenanceStep]:
        """Rotate all logs, page by page and independently of each other; return those that failed."""
        failed = []
        after, steps = self._runner.run(rotate_page(">"))
        while after != ">":
            after, more = self._runner.run(rotate_page(after))
            steps += more
        for step in steps:
            if step.action == "failed":
                failed.append(self._failed("rotate", step.log_name, step.reason or ""))
            elif step.action != "kept":
                detail = (
                    f"{step.action}: {step.reason}"
                    if step.segment is None
                    else f"segment {step.segment} {step.action}"
                )
                self._report(MaintenanceStep("rotate", step.log_name, True, detail))
        return failed

    def _extra(self) -> list[MaintenanceStep]:
        """Call the extra maintenance functions of logs, independently of each other; return those that failed."""
        failed = []
        for extra in self._runner.run(list_extra_maint()):
            log_name, function_name = extra
            try:
                if not self._runner.run(run_extra_maint(extra)):
                    continue
            except TRANSIENT:
                raise
            except SluiceError as error:
                failed.append(self._failed("extra", log_name, f"{function_name}: {error}"))
            else:
                self._report(MaintenanceStep("extra", log_name, True, function_name))
        return failed

    def _maintain(self, stop: threading.Event) -> list[MaintenanceStep]:
        left: list[MaintenanceStep] = []
        for _ in range(_ROUNDS_MAX):
            steps = self._operations.maintain()
            left = [step for step in steps if not step.done]
            for step in steps:
                if step.done:
                    self._report(step)
            if len(left) == len(steps) or stop.is_set():
                break
        if left:
            failures = {
                (failure.task, failure.queue_name) for failure in self._operations.list_failures()
            }
            for step in left:
                if (step.task, step.queue_name) in failures:
                    self._failed(step.task, step.queue_name, step.detail)
        return left

    def _failed(self, task: str, queue_name: str | None, detail: str) -> MaintenanceStep:
        """Log a failure at most once a minute; return it as a step."""
        step = MaintenanceStep(task, queue_name, False, detail)
        if self._reminders.is_due(step):
            _log.warning(
                "maintenance step failed task=%s queue=%s error=%r", task, queue_name or "-", detail
            )
        return step
