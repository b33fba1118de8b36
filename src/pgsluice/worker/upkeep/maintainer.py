"""All background duties of queues and logs: ticks, maintenance, schedules, wake-ups."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from typing import Any

from psycopg_pool import ConnectionPool

from pgsluice.client import FiredSlot, MaintenanceStep
from pgsluice.connection import session_options
from pgsluice.errors import (
    ArgumentError,
    ConnectionFailedError,
    NotInstalledError,
    PrivilegeError,
    SluiceError,
)
from pgsluice.sessions import SluiceConnection
from pgsluice.worker.engine.connections.pooler import require_transactions_of
from pgsluice.worker.forks import close_in_forks
from pgsluice.worker.loops import run_in_thread
from pgsluice.worker.upkeep.leader import Leader, Standing, Work
from pgsluice.worker.upkeep.maintenance import Maintenance, Report
from pgsluice.worker.upkeep.schedules import Scheduler
from pgsluice.worker.upkeep.ticker import Ticker
from pgsluice.worker.wakeups.notifier import Notifier

_log = logging.getLogger(__name__)
_AGAIN_S = 30.0
_JOIN_S = 1.0
_END_S = 5.0
# Pool timeout of a duty; each has a connection of its own.
_POOL_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Intervals of the duties in seconds, each more than 0.

    Attributes:
        tick_min_s: Tick interval while events arrive.
        tick_max_s: Tick interval of idle logs.
        period_s: Interval of rotation, partitions, retention and other infrequent steps.
        poll_interval_s: Interval at which idle queues are polled for new messages, whose listeners are then notified.
        heartbeat_s: Heartbeat interval for those listeners.
    """

    tick_min_s: float = 0.01
    tick_max_s: float = 1.0
    period_s: float = 10.0
    poll_interval_s: float = 0.005
    heartbeat_s: float = 5.0


class Maintainer:
    """Run the background duties. Run several processes for failover: a standby takes over within two seconds."""

    def __init__(
        self,
        conninfo: str,
        *,
        pace: Pace | None = None,
        report: Report | None = None,
    ) -> None:
        """Prepare a maintainer.

        Args:
            conninfo: Connection string, of a role that may run maintenance (`sluice_admin`). The leader uses up to six
                connections, a standby one.
            pace: Intervals of the duties.
            report: Called for each completed step, except ticks.
        """
        self._conninfo = conninfo
        self._pace = pace or Pace()
        if not self._pace.tick_min_s <= self._pace.tick_max_s:
            raise ArgumentError(
                f"tick_min_s {self._pace.tick_min_s} exceeds tick_max_s {self._pace.tick_max_s}"
            )
        self._report = report
        self._leader = Leader(conninfo)

    @property
    def standing(self) -> Standing:
        """The role of this process in the leader election. Thread-safe."""
        return self._leader.standing

    def run(self, stop: threading.Event) -> None:
        """Lead or stand by until `stop` is set. Reconnects after a lost connection.

        Raises:
            SluiceError: A permanent error, such as a missing privilege.
        """
        self._leader.run(stop, self._work)

    @contextlib.contextmanager
    def in_background(self) -> Iterator[None]:
        """Run in a thread for the duration of the block; afterwards wait up to a second for its end."""
        end = threading.Event()
        thread = threading.Thread(
            target=self._run_persistently, args=[end], name="pgsluice maintainer", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join(_JOIN_S)

    def _run_persistently(self, stop: threading.Event) -> None:
        """Like `run`, for a process with other work: log permanent errors and retry every 30 seconds."""
        while not stop.is_set():
            try:
                self.run(stop)
            except PrivilegeError as error:
                _log.info('maintenance disabled reason="missing privilege" error="%s"', error)
                break
            except SluiceError as error:
                _log.error('maintenance failed error="%s" retry_in_s=%.0f', error, _AGAIN_S)
                stop.wait(_AGAIN_S)
            else:
                break

    def _work(self, stop: threading.Event) -> None:
        """Run all duties concurrently until `stop` is set or one fails."""
        pace = self._pace
        options = session_options(self._conninfo)
        # Without prepared statements in case of a pooler.
        options |= {
            "fallback_application_name": "pgsluice maintenance",
            "prepare_threshold": None,
        }
        with ConnectionPool[Any](
            self._conninfo,
            connection_class=SluiceConnection,
            min_size=1,
            max_size=5,
            open=True,
            timeout=_POOL_TIMEOUT_S,
            configure=close_in_forks,
            name="pgsluice maintenance",
            kwargs=options,
        ) as pool:
            require_transactions_of(pool)
            duties: dict[str, Work] = {
                # Keeps its connection, so that other duties never delay ticks.
                "ticker": Ticker(
                    pool, period_min_s=pace.tick_min_s, period_max_s=pace.tick_max_s
                ).run,
                "maintenance": Maintenance(pool, period_s=pace.period_s, report=self._report).run,
                "notifier": Notifier(
                    pool, poll_interval_s=pace.poll_interval_s, heartbeat_s=pace.heartbeat_s
                ).run,
                "scheduler": Scheduler(pool, report=self._fired).run,
            }
            run_side_by_side({name: _isolated(name, duty) for name, duty in duties.items()}, stop)

    def _fired(self, fired: FiredSlot) -> None:
        if self._report is not None:
            detail = f"slot {fired.slot.isoformat()}" if fired.error is None else fired.error
            self._report(MaintenanceStep("schedule", fired.name, fired.error is None, detail))


def _isolated(name: str, duty: Work) -> Work:
    """Restart a failed duty so that the others continue; a missing privilege stops all."""

    def run(stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                duty(stop)
            except (ConnectionFailedError, NotInstalledError, PrivilegeError):
                raise
            except SluiceError as error:
                _log.error("duty failed duty=%s error=%r retry_in_s=%.0f", name, str(error), _AGAIN_S)  # fmt: skip
                stop.wait(_AGAIN_S)
            else:
                break

    return run


def run_side_by_side(works: dict[str, Work], stop: threading.Event) -> None:
    """Run each work in a named thread until `stop` is set or one ends.

    Raises:
        BaseException: The exception of the first that failed.
    """
    end = threading.Event()
    futures = [run_in_thread(f"pgsluice {name}", work, end) for name, work in works.items()]
    try:
        # With a timeout, so that signals can interrupt the wait.
        while not stop.is_set() and not any(future.done() for future in futures):
            wait(futures, timeout=0.1, return_when=FIRST_COMPLETED)
    finally:
        end.set()
    for future in wait(futures, timeout=_END_S).done:
        future.result()
