"""The findings of `pgsluice doctor`, read in the background: they take seconds on a large database."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from pgsluice.connection import Target, connect
from pgsluice.errors import SluiceError
from pgsluice.ops.doctor import Finding, diagnose, problem_of
from pgsluice.worker.wakeups.listener_connection import shut_down

_log = logging.getLogger(__name__)
# Each check ends within its budget. A server that is silent for longer may never respond, and no further run begins.
_RUN_MAX_S = 120.0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Findings of one run.

    Attributes:
        found_at: Its end.
        findings: One of each check; empty if the server was not reachable.
        problem: Why the findings are no diagnosis, or None.
    """

    found_at: datetime
    findings: Sequence[Finding]
    problem: str | None = None

    @property
    def troubles(self) -> list[Finding]:
        """The findings that warn or fail."""
        return [each for each in self.findings if each.status in ("warn", "fail")]


class Diagnoses:
    """Runs the checks in a thread when a page asks for them, at most once per `every_s`. Thread-safe.

    Findings of an earlier visit are not returned: they would be taken for those of now.
    """

    def __init__(self, target: Target, every_s: float = 60.0) -> None:
        """Prepare; nothing is run.

        Args:
            target: The database.
            every_s: Minimum time between two runs, in seconds.
        """
        self._target = target
        self._every_s = every_s
        self._lock = threading.Lock()
        self._latest: Diagnosis | None = None
        self._began_at_s: float | None = None
        self._ended_at_s = 0.0
        self._acts = 0
        self._thread: threading.Thread | None = None

    def latest(self) -> Diagnosis | None:
        """Return the newest diagnosis, and start the next one if it is due; None: the checks are running.

        A diagnosis is at most three times `every_s` old, and from after the last `forget`.
        """
        with self._lock:
            is_running = self._thread is not None and self._thread.is_alive()
            now_s = time.monotonic()
            is_due = self._began_at_s is None or now_s - self._began_at_s >= self._every_s
            if is_due and not is_running:
                self._began_at_s = now_s
                self._thread = threading.Thread(
                    target=self._run, args=[self._acts], name="doctor", daemon=True
                )
                self._thread.start()
            if now_s - self._ended_at_s > 3 * self._every_s:
                return None
            return self._latest

    def forget(self) -> None:
        """Check again at the next visit, as an act has changed what was found."""
        with self._lock:
            self._acts += 1
            self._began_at_s = self._latest = None

    def _run(self, acts: int) -> None:
        open_one = partial(
            connect, self._target, autocommit=True, application_name="pgsluice dashboard"
        )
        try:
            with open_one() as connection:
                watch = threading.Timer(_RUN_MAX_S, shut_down, [connection])
                watch.daemon = True
                watch.start()
                try:
                    found = tuple(diagnose(connection, reconnect=open_one))
                finally:
                    watch.cancel()
            diagnosis = Diagnosis(datetime.now(UTC), found, problem_of(found))
        except SluiceError as error:
            _log.warning('checks not run error="%s"', error)
            diagnosis = Diagnosis(datetime.now(UTC), (), str(error))
        with self._lock:
            if acts == self._acts:
                self._latest, self._ended_at_s = diagnosis, time.monotonic()
