"""Acts that forms have begun: their results; and of bulk acts, which run in threads, progress and cancel."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pgsluice.dashboard.acts.act import Link, Step
from pgsluice.errors import ConnectionFailedError, RetryableError, SluiceError

_log = logging.getLogger(__name__)

_KEPT_S = 3600.0
_KEPT_MAX = 1000
_RUNNING_MAX = 2  # each uses a connection of the pages
_WAITING_MAX = 20
_RETRY_AFTER_S = (0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass
class ActJob:
    """An act that a form began.

    Attributes:
        id: The token of its form.
        title: Title of the act.
        sentence: What it does, or has done.
        back: The page to return to.
        viewer: Name of the viewer that began it; empty without authentication.
        number: How much it will affect, as far as it is known.
        done: The word for what its steps have done; empty for an act in one transaction.
        state: `waiting`, `running`, `done`, `canceled` or `failed`.
        count: How much was done.
        problem: Why it failed, or is being retried; None: neither.
        started_at: Time of the form.
        ended_at: Time of its end, or None.
    """

    id: str
    title: str
    sentence: str
    back: Link
    viewer: str
    number: int | None = None
    done: str = ""
    state: str = "waiting"
    count: int = 0
    problem: str | None = None
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended_at: datetime | None = None
    ended_at_s: float | None = None
    _cancel: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def is_open(self) -> bool:
        """True until it has ended."""
        return self.ended_at is None

    @property
    def is_canceling(self) -> bool:
        """True if it is to end after the step that runs."""
        return self.is_open and self._cancel.is_set()

    @property
    def shown_state(self) -> str:
        """Its state for a person."""
        return "canceling" if self.is_canceling else self.state

    def cancel(self) -> None:
        """Let it end after the step that runs."""
        self._cancel.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for this time; return True at once if it is to end."""
        return self._cancel.wait(timeout_s)

    def join(self, timeout_s: float) -> None:
        """Wait for its end, at most for this time."""
        self._ended.wait(timeout_s)

    def end(self, state: str, problem: str | None = None) -> None:
        """End it."""
        self.state = state
        self.problem = problem
        self.ended_at_s = time.monotonic()
        self.ended_at = datetime.now(UTC)
        self._ended.set()


class Jobs:
    """The jobs of a dashboard, each kept for an hour after its end. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, ActJob] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._slots = threading.BoundedSemaphore(_RUNNING_MAX)
        self._is_stopped = False

    def find(self, job_id: str) -> ActJob | None:
        """Return a job; None: it is not known, or no longer."""
        with self._lock:
            self._remove_old()
            return self._jobs.get(job_id)

    def newest(self) -> list[ActJob]:
        """Return the jobs, newest first."""
        with self._lock:
            self._remove_old()
            return list(self._jobs.values())[::-1]

    def keep(self, job: ActJob) -> None:
        """Keep a job that is done."""
        job.end("done")
        with self._lock:
            self._remove_old()
            self._jobs[job.id] = job

    def start(
        self, job: ActJob, step: Callable[[int | None], Step], ended: Callable[[], None]
    ) -> None:
        """Run a job in a thread, step by step.

        Args:
            job: The job.
            step: Runs a step after an id, in a transaction of its own. It is repeated after transient errors.
            ended: Called after the last step, before the job is shown as ended.

        Raises:
            RetryableError: Too many jobs wait, or the dashboard stops.
        """
        thread = threading.Thread(
            target=self._run, args=(job, step, ended), name=f"job {job.title}", daemon=True
        )
        with self._lock:
            self._remove_old()
            waiting = sum(each.is_open for each in self._jobs.values())
            if self._is_stopped or waiting >= _RUNNING_MAX + _WAITING_MAX:
                raise RetryableError(
                    f"{waiting} jobs are running or waiting; send the form again when some have ended"
                )
            self._jobs[job.id] = job
            self._threads[job.id] = thread
        thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Cancel all jobs, and wait for the steps that run."""
        with self._lock:
            self._is_stopped = True
            threads = list(self._threads.values())
            for job in self._jobs.values():
                job.cancel()
        deadline_s = time.monotonic() + timeout_s
        for thread in threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))

    def _run(
        self, job: ActJob, step: Callable[[int | None], Step], ended: Callable[[], None]
    ) -> None:
        state, problem = "failed", None
        try:
            with self._slots:
                state = self._run_steps(job, step)
        except SluiceError as error:
            _log.warning('job failed title="%s" count=%s error="%s"', job.title, job.count, error)
            problem = str(error)
        except Exception:  # noqa: BLE001  # the job would seem to run for ever
            _log.exception('job failed title="%s" count=%s', job.title, job.count)
            problem = "an error that is in the log of the dashboard"
        ended()  # first: who sees that it is done must not see figures from before
        job.end(state, problem)
        with self._lock:
            self._threads.pop(job.id, None)

    def _run_steps(self, job: ActJob, step: Callable[[int | None], Step]) -> str:
        """Run the steps; return the state in which the job has ended."""
        after_id: int | None = None
        while not job.wait(0):
            job.state = "running"
            done = _step_with_retries(job, step, after_id)
            if done is None:
                break
            job.count += done.count
            after_id = done.after_id
            if after_id is None:
                return "done"
        return "canceled"

    def _remove_old(self) -> None:
        now_s = time.monotonic()
        ended = [each for each in self._jobs.values() if each.ended_at_s is not None]
        excess = len(self._jobs) - _KEPT_MAX
        for number, job in enumerate(ended):
            if number < excess or now_s - (job.ended_at_s or 0) > _KEPT_S:
                del self._jobs[job.id]


def _step_with_retries(
    job: ActJob, step: Callable[[int | None], Step], after_id: int | None
) -> Step | None:
    """Run a step, again after transient errors; None: it was canceled meanwhile.

    A step whose commit is unknown does what is left of it: it is not done twice.
    """
    for retry_after_s in _RETRY_AFTER_S:
        try:
            done = step(after_id)
        except (RetryableError, ConnectionFailedError) as error:
            job.problem = str(error)
            if job.wait(retry_after_s):
                return None
        else:
            job.problem = None
            return done
    return step(after_id)
