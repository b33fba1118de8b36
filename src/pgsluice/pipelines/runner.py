"""Run pipelines side by side, or one after the other: started in turn, started again when they fail.

What comes to nothing by itself is tried again after a pause that grows: a server that restarts, a process
of Spark's that died. What nobody but its owner can mend ends that pipeline, and the others go on. An error
that is none of ours, such as a Java that is gone, ends them all: what started this process starts it again.
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
    ConfigurationError,
    ConnectionFailedError,
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
# Trying again does not help these: somebody has to create, grant or install something.
_FINAL = (
    ArgumentError,
    ConfigurationError,
    LogNotFoundError,
    MissingExtraError,
    MissingJavaError,
    NotInstalledError,
    PrivilegeError,
    QueueNameError,
    QueueNotFoundError,
)

Tell = Callable[[Progress], None]


class Stream(Protocol):
    """What the runner asks of a stream; a `RunningStream` answers."""

    def has_ended(self) -> bool: ...

    def progress(self) -> Progress: ...

    def stop(self) -> Progress: ...


@dataclass(frozen=True, slots=True)
class Task:
    """One pipeline as the runner sees it.

    Attributes:
        name: For log lines.
        start: Starts a stream and returns it, or does a job and returns how far it came; ends early once
            the event is set.
        starts_in_turn: Whether no other one may start meanwhile. Each start of a stream makes Spark start
            Python processes, which have ten seconds to report: several at once fail on a busy machine.
    """

    name: str
    start: Callable[[threading.Event, Tell], Stream | Progress]
    starts_in_turn: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long to wait for what, seconds.

    Attributes:
        first_delay_s: Before the first new start. Each further one waits twice as long, and all wait
            anything between half of that and all of it, so that they do not come back together.
        max_delay_s: The longest such pause. What ran for longer than this begins with the first one again.
        ready_s: How long one may keep the others from starting.
        poll_s: How often to look at a stream.
        progress_s: The least time between two lines of progress.
        stop_s: How long to wait for all of them to stop.
        attempts_once: How often to try in `run_once`, 1 or more.
    """

    first_delay_s: float = 1.0
    max_delay_s: float = 60.0
    ready_s: float = 120.0
    poll_s: float = 0.5
    progress_s: float = 10.0
    stop_s: float = 60.0
    attempts_once: int = 5

    def delay_s(self, failures: int) -> float:
        """Return the delay after a number of failures in a row, 1 or more."""
        return jittered(next_delay_s(failures, self.first_delay_s, self.max_delay_s))


class Runner:
    """Runs tasks until they are done, or told to stop."""

    def __init__(self, stop: threading.Event, *, pace: Pace | None = None) -> None:
        """Prepare it.

        Args:
            stop: Ends everything once it is set; set by the runner itself when it must end.
            pace: How long to wait for what.
        """
        self._stop = stop
        self._pace = pace or Pace()
        self._turn = threading.Lock()
        self._failed: dict[str, SluiceError] = {}
        self._broken: BaseException | None = None

    def run_once(self, tasks: Sequence[Task]) -> dict[str, Progress]:
        """Do them one after the other, each to its end.

        Returns:
            How far each came, by name; those that a stop left out are missing.

        Raises:
            SluiceError: One failed, for good or too often; those after it were not begun.
            ConnectionFailedError: One found no server at its first start.
        """
        done: dict[str, Progress] = {}
        for task in tasks:
            teller = _Teller(task.name, self._pace.progress_s)
            failures = 0
            while not self._stop.is_set():
                try:
                    done[task.name] = self._follow(task, teller)
                    break
                except SluiceError as error:
                    failures += 1
                    # A server that was never there is not one that restarts.
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
        """Run them all until told to stop, or until none is left.

        Returns:
            Why those that cannot go on ended, by name; empty when all did what they should.

        Raises:
            BaseException: What is no error of ours, from whichever it came; the others were stopped.
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
            thread.join(max(0.0, end_s - time.monotonic()))
        if late := [thread.name for thread in threads if thread.is_alive()]:
            _log.error("did not stop in time, and is left", extra={"pipeline": ", ".join(late)})
        if self._broken is not None:
            raise self._broken
        return dict(self._failed)

    def _keep(self, task: Task) -> None:
        teller = _Teller(task.name, self._pace.progress_s)
        failures = 0
        while not self._stop.is_set():
            began_s = time.monotonic()
            try:
                progress = self._follow(task, teller)
            except _FINAL as error:
                _log.error("cannot go on: %s", error, extra={"pipeline": task.name})
                self._failed[task.name] = error
                return
            except SluiceError as error:
                ran_s = time.monotonic() - began_s
                failures = 1 if ran_s > self._pace.max_delay_s else failures + 1
                self._rest(task, error, failures)
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for this one
                self._broken = error
                self._stop.set()
                return
            else:
                teller.end(progress)
                return

    def _follow(self, task: Task, tell: _Teller) -> Progress:
        """Start it, and watch over it until it ends or is to stop."""
        with self._turn if task.starts_in_turn else nullcontext():
            if self._stop.is_set():
                return Progress()
            _log.info("starting", extra={"pipeline": task.name})
            running = task.start(self._stop, tell)
            if isinstance(running, Progress):
                return running
            self._await_first_answer(running)
        while not running.has_ended():
            tell(running.progress())
            if self._stop.wait(self._pace.poll_s):
                return running.stop()
        return running.progress()

    def _await_first_answer(self, stream: Stream) -> None:
        """Wait until Spark has looked at the source, so that the next one may start."""
        end_s = time.monotonic() + self._pace.ready_s
        while not stream.has_ended() and stream.progress().offset is None:
            if time.monotonic() > end_s or self._stop.wait(self._pace.poll_s / 5):
                return

    def _rest(self, task: Task, error: SluiceError, failures: int) -> None:
        delay_s = self._pace.delay_s(failures)
        _log.warning(
            "failed: %s",
            error,
            extra={"pipeline": task.name, "failures": failures, "again_in_s": round(delay_s, 1)},
        )
        self._stop.wait(delay_s)


class _Teller:
    """Writes a line of progress when there is news, and not too often."""

    def __init__(self, name: str, every_s: float) -> None:
        self._name = name
        self._every_s = every_s
        self._told = Progress()
        self._told_s = time.monotonic()
        self.has_progress = False

    def __call__(self, progress: Progress) -> None:
        self.has_progress = self.has_progress or progress != Progress()
        if progress != self._told and time.monotonic() - self._told_s >= self._every_s:
            self._write("progress", progress)

    def end(self, progress: Progress) -> None:
        self._write("ended", progress)

    def _write(self, message: str, progress: Progress) -> None:
        self._told, self._told_s = progress, time.monotonic()
        _log.info(
            message,
            extra={
                "pipeline": self._name,
                "rows": progress.rows,
                "micro_batches": progress.micro_batches,
                "batch_duration_s": round(progress.batch_duration_s, 3),
                "offset": json.dumps(progress.offset),
            },
        )
