"""All that queues and logs need beside those who use them, in one place: ticks, maintenance, schedules, wake-ups."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from typing import Any

from psycopg_pool import ConnectionPool

from pgsluice.client import FiredSlot, MaintenanceStep
from pgsluice.connection import tcp_options
from pgsluice.errors import (
    ArgumentError,
    ConnectionFailedError,
    NotInstalledError,
    PrivilegeError,
    SluiceError,
)
from pgsluice.worker.forks import close_in_forks
from pgsluice.worker.loops import run_in_thread
from pgsluice.worker.upkeep.leader import Leader, Standing, Work
from pgsluice.worker.upkeep.maintenance import Maintenance, Report
from pgsluice.worker.upkeep.schedules import Scheduler
from pgsluice.worker.upkeep.ticker import Ticker
from pgsluice.worker.wakeups.notifier import Notifier

_log = logging.getLogger(__name__)
_AGAIN_S = 30.0
_END_S = 5.0
# How long a duty waits for one of the connections, which are one for each.
_POOL_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often things are done; seconds, more than 0.

    Attributes:
        tick_min_s: Between two looks for new events while they arrive.
        tick_max_s: Between two looks when none has arrived for long.
        period_s: Between two rounds of rotation, partitions, retention and what else is rarely due.
        poll_interval_s: Between two looks for new messages while none arrive; their listeners are woken.
        heartbeat_s: Between two signs of life to those listeners.
    """

    tick_min_s: float = 0.01
    tick_max_s: float = 1.0
    period_s: float = 10.0
    poll_interval_s: float = 0.02
    heartbeat_s: float = 5.0


class Maintainer:
    """Keep a database in order. Run it in several processes: one leads, another takes over within two seconds."""

    def __init__(
        self,
        conninfo: str,
        *,
        pace: Pace | None = None,
        report: Report | None = None,
        works_pooled: bool = False,
    ) -> None:
        """Prepare it.

        Args:
            conninfo: Where to connect, of a role that may maintain (`sluice_admin`). While it leads it has up to six
                connections, else one.
            pace: How often things are done.
            report: Called with each thing that was done, ticks left out.
            works_pooled: Work also behind a pooler, beside others of its like: that does no harm, and saves nothing.
        """
        self._conninfo = conninfo
        self._pace = pace or Pace()
        if not self._pace.tick_min_s <= self._pace.tick_max_s:
            raise ArgumentError(
                f"tick_min_s is {self._pace.tick_min_s}, above tick_max_s, {self._pace.tick_max_s}"
            )
        self._report = report
        self._leader = Leader(conninfo, works_pooled=works_pooled)

    @property
    def standing(self) -> Standing:
        """Whether it leads; may be asked from any thread."""
        return self._leader.standing

    def run(self, stop: threading.Event) -> None:
        """Lead or stand by until `stop` is set. A lost connection is waited out.

        Raises:
            SluiceError: What waiting does not mend, such as a role that may not maintain.
        """
        self._leader.run(stop, self._work)

    def run_beside(self, stop: threading.Event) -> None:
        """As `run`, beside other work of the process: what does not mend is logged, and tried again now and then."""
        while not stop.is_set():
            try:
                self.run(stop)
            except PrivilegeError as error:
                _log.info("maintenance: left to others, as this role may not: %s", error)
                break
            except SluiceError as error:
                _log.error("maintenance: %s; again in %.0f s", error, _AGAIN_S)
                stop.wait(_AGAIN_S)
            else:
                break

    def _work(self, stop: threading.Event) -> None:
        """Do everything side by side until `stop` is set or one of them fails."""
        pace = self._pace
        options: dict[str, Any] = tcp_options(self._conninfo)
        options |= {"fallback_application_name": "pgsluice maintenance"}
        if self.standing is Standing.POOLED:
            options |= {"prepare_threshold": None}  # a prepared statement is the session's
        with ConnectionPool(
            self._conninfo,
            min_size=1,
            max_size=5,
            open=True,
            timeout=_POOL_TIMEOUT_S,
            configure=close_in_forks,
            name="pgsluice maintenance",
            kwargs=options,
        ) as pool:
            duties: dict[str, Work] = {
                # It keeps its connection: nothing else may keep the ticks waiting.
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
    """Restart a duty that fails, so that the others go on; a role that may not maintain ends them all."""

    def run(stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                duty(stop)
            except (ConnectionFailedError, NotInstalledError, PrivilegeError):
                raise
            except SluiceError as error:
                _log.error("maintenance: %s failed error=%r; again in %.0f s", name, str(error), _AGAIN_S)  # fmt: skip
                stop.wait(_AGAIN_S)
            else:
                break

    return run


def run_side_by_side(works: dict[str, Work], stop: threading.Event) -> None:
    """Run each in a thread of its name until `stop` is set or one of them ends.

    Raises:
        BaseException: What the first one raised.
    """
    end = threading.Event()
    futures = [run_in_thread(f"pgsluice {name}", work, end) for name, work in works.items()]
    try:
        # In steps: a wait without an end is one that nothing else can end.
        while not stop.is_set() and not any(future.done() for future in futures):
            wait(futures, timeout=0.1, return_when=FIRST_COMPLETED)
    finally:
        end.set()
    for future in wait(futures, timeout=_END_S).done:
        future.result()
