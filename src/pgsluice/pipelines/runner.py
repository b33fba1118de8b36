"""Supervise pipelines: start them in turn, run them concurrently or in sequence, and restart them after errors.

A transient error, such as a server restart or a dead process of Spark, is retried with back-off. A permanent error
ends its pipeline; the others continue. An error outside our classes, such as a dead Java process, ends them all, so
that the service manager restarts this process.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol

from pgsluice.backoff import jittered, next_delay_s
from pgsluice.errors import (
    ArgumentError,
    CaptureError,
    ChangeError,
    ConfigurationError,
    ConnectionFailedError,
    ConsumerInUseError,
    ExportError,
    LogNotFoundError,
    MissingExtraError,
    MissingJavaError,
    NotInstalledError,
    PrivilegeError,
    QueueNameError,
    QueueNotFoundError,
    SluiceError,
)
from pgsluice.spark.running import Progress

_log = logging.getLogger(__name__)
# Permanent errors: an operator has to create, grant or install something.
_FINAL = (
    ArgumentError,
    CaptureError,
    ChangeError,
    ConfigurationError,
    ConsumerInUseError,
    ExportError,
    LogNotFoundError,
    MissingExtraError,
    MissingJavaError,
    NotInstalledError,
    PrivilegeError,
    QueueNameError,
    QueueNotFoundError,
)

Tell = Callable[[Progress], None]


class RunnableStream(Protocol):
    """The interface of a stream for the runner; see `RunningStream`."""

    def has_ended(self) -> bool: ...

    def progress(self) -> Progress: ...

    def stop(self) -> Progress: ...


@dataclass(frozen=True, slots=True)
class Task:
    """A pipeline for the runner.

    Attributes:
        name: For log lines.
        start: Starts a stream and returns it, or runs a job and returns its progress; ends early when
            the event is set.
        starts_in_turn: True if no other task may start concurrently. Each start of a stream starts Python processes
            of Spark, which must report within ten seconds: several starts fail on a busy machine.
    """

    name: str
    start: Callable[[threading.Event, Tell], RunnableStream | Progress]
    starts_in_turn: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerTimes:
    """Delays and timeouts, seconds.

    Attributes:
        backoff_base_s: Delay before the first restart. It doubles with each failure, and is randomised to 50-100 %,
            so that pipelines do not retry in step.
        backoff_max_s: Longest delay. A run longer than this resets the back-off.
        ready_s: Maximum time for which one task may keep the others from starting.
        poll_s: Polling interval of a stream.
        progress_s: Minimum time between two progress lines.
        stop_s: Timeout for a graceful stop of all.
        attempts_once: Attempts in `run_once`, 1 or more.
    """

    backoff_base_s: float = 1.0
    backoff_max_s: float = 60.0
    ready_s: float = 120.0
    poll_s: float = 0.5
    progress_s: float = 10.0
    stop_s: float = 60.0
    attempts_once: int = 5

    def delay_s(self, failures: int) -> float:
        """Return the delay after N consecutive failures, 1 or more."""
        return jittered(next_delay_s(failures, self.backoff_base_s, self.backoff_max_s))


class PipelineRunner:
    """Runs tasks until they are done or stopped."""

    def __init__(
        self,
        stop: threading.Event,
        *,
        pace: RunnerTimes | None = None,
        on_stop: Callable[[], None] | None = None,
    ) -> None:
        """Store the arguments.

        Args:
            stop: Event that ends everything; also set by the runner on a fatal error.
            pace: Delays and timeouts.
            on_stop: Called by `run` after the stop, repeatedly while a task has not ended.
        """
        self._stop = stop
        self._on_stop = on_stop
        self._pace = pace or RunnerTimes()
        self._turn = threading.Lock()
        self._failed: dict[str, SluiceError] = {}
        self._broken: BaseException | None = None

    def run_once(self, tasks: Sequence[Task]) -> dict[str, Progress]:
        """Run tasks in sequence, each to its end.

        Returns:
            Progress by name; without the tasks skipped after a stop.

        Raises:
            SluiceError: A task failed permanently or used up its attempts; later tasks were not started.
            ConnectionFailedError: The server was unreachable at a task's first start.
        """
        done: dict[str, Progress] = {}
        for task in tasks:
            teller = _ProgressReporter(task.name, self._pace.progress_s)
            failures = 0
            while not self._stop.is_set():
                try:
                    done[task.name] = self._follow(task, teller)
                    break
                except SluiceError as error:
                    failures += 1
                    # Unreachable from the start: a configuration error rather than a restart of the server.
                    is_unreachable = isinstance(error, ConnectionFailedError) and failures == 1
                    if (
                        isinstance(error, _FINAL)
                        or (is_unreachable and not teller.has_progress)
                        or failures >= self._pace.attempts_once
                    ):
                        raise
                    self._rest(task, error, failures)
        return done

    def run(self, tasks: Sequence[Task]) -> dict[str, SluiceError]:
        """Run all tasks until stopped, or until none is left.

        Returns:
            Permanent errors by name; empty if all succeeded.

        Raises:
            BaseException: An error outside our classes from any task; the others were stopped.
        """
        threads = [
            threading.Thread(target=self._keep, args=(task,), name=task.name, daemon=True)
            for task in tasks
        ]
        for thread in threads:
            thread.start()
        while not self._stop.wait(self._pace.poll_s) and any(t.is_alive() for t in threads):
            pass
        self._stop.set()
        end_s = time.monotonic() + self._pace.stop_s
        for thread in threads:
            while thread.is_alive() and time.monotonic() < end_s:
                if self._on_stop is not None:
                    self._on_stop()
                thread.join(min(0.1, self._pace.stop_s))
        if late := [thread.name for thread in threads if thread.is_alive()]:
            _log.error("did not stop in time, abandoned", extra={"pipeline": ", ".join(late)})
        if self._broken is not None:
            raise self._broken
        return dict(self._failed)

    def _keep(self, task: Task) -> None:
        teller = _ProgressReporter(task.name, self._pace.progress_s)
        failures = 0
        while not self._stop.is_set():
            began_s = time.monotonic()
            try:
                progress = self._follow(task, teller)
            except _FINAL as error:
                _log.error("failed permanently: %s", error, extra={"pipeline": task.name})
                self._failed[task.name] = error
                return
            except SluiceError as error:
                if self._stop.is_set():
                    return
                ran_s = time.monotonic() - began_s
                failures = 1 if ran_s > self._pace.backoff_max_s else failures + 1
                self._rest(task, error, failures)
            except BaseException as error:  # noqa: BLE001 - raised by the thread that waits for this one
                self._broken = error
                self._stop.set()
                return
            else:
                teller.end(progress)
                return

    def _follow(self, task: Task, tell: _ProgressReporter) -> Progress:
        """Start a task, and watch it until it ends or the runner stops."""
        with self._turn if task.starts_in_turn else nullcontext():
            if self._stop.is_set():
                return Progress()
            _log.info("starting", extra={"pipeline": task.name})
            running = task.start(self._stop, tell)
            if isinstance(running, Progress):
                return running
            self._await_first_offset(running)
        while not running.has_ended():
            tell(running.progress())
            if self._stop.wait(self._pace.poll_s):
                return running.stop()
        return running.progress()

    def _await_first_offset(self, stream: RunnableStream) -> None:
        """Wait for the stream's first offset, after which the next task may start."""
        end_s = time.monotonic() + self._pace.ready_s
        while not stream.has_ended() and stream.progress().offset is None:
            if time.monotonic() > end_s or self._stop.wait(self._pace.poll_s / 5):
                return

    def _rest(self, task: Task, error: SluiceError, failures: int) -> None:
        delay_s = self._pace.delay_s(failures)
        _log.warning(
            "failed: %s",
            error,
            extra={"pipeline": task.name, "failures": failures, "retry_in_s": round(delay_s, 1)},
        )
        self._stop.wait(delay_s)


class _ProgressReporter:
    """Logs progress if it changed, at a limited rate."""

    def __init__(self, name: str, every_s: float) -> None:
        self._name = name
        self._every_s = every_s
        self._reported = Progress()
        self._reported_s = self._began_s = time.monotonic()
        self.has_progress = False

    def __call__(self, progress: Progress) -> None:
        if not progress.rows:
            self._began_s = time.monotonic()
        self.has_progress = self.has_progress or progress != Progress()
        if progress != self._reported and time.monotonic() - self._reported_s >= self._every_s:
            self._write("progress", progress)

    def end(self, progress: Progress) -> None:
        self._write("ended", progress)

    def _write(self, message: str, progress: Progress) -> None:
        self._reported, self._reported_s = progress, time.monotonic()
        _log.info(
            message,
            extra={
                "pipeline": self._name,
                "rows": progress.rows,
                "micro_batches": progress.micro_batches,
                "batch_duration_s": round(progress.batch_duration_s, 3),
                "offset": json.dumps(progress.offset),
                **self._backlog(progress),
                **({"parked": ", ".join(progress.parked)} if progress.parked else {}),
            },
        )

    def _backlog(self, progress: Progress) -> dict[str, float]:
        """Return the part of the backlog that is done, and the time left at the average rate so far."""
        if not progress.rows or progress.rows_left is None:
            return {}
        ran_s = time.monotonic() - self._began_s
        return {
            "percent": round(100 * progress.rows / (progress.rows + progress.rows_left), 1),
            "left_s": round(ran_s * progress.rows_left / progress.rows),
        }
