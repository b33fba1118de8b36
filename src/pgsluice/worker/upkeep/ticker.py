"""Tick the event logs. Any number of processes may run a ticker: locks in the database serialize them per log."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

from pgsluice.backoff import DELAY_MAX_S, Backoff, Reminders
from pgsluice.client import LogTick
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls.listeners import ticker_heartbeat
from pgsluice.client.calls.logs import await_groups, tick_page
from pgsluice.errors import ArgumentError
from pgsluice.ranges import require_positive_s
from pgsluice.worker.engine.consume._sync.lease import leased

_log = logging.getLogger(__name__)
# Time after a tick for which the ticker keeps its shortest period, to bridge gaps between bursty arrivals.
_BUSY_S = 1.0
# Interval at which the server looks for events of waiting claims, while events arrive and when idle; a look costs a
# fiftieth of a tick. It holds a snapshot for the time of the call.
_WAKE_PERIOD_S = 0.001
_IDLE_WAKE_PERIOD_S = 0.025
_AWAIT_MAX_S = 0.1


class Ticker:
    """Tick every log with new events, often while events arrive and rarely while it is idle.

    Between two ticks it wakes claims waiting for events of a share group: within a millisecond or two while events
    arrive, and within 25 ms after a pause.

    It ignores the logs' own tick settings (`queue_ticker_max_lag` and the like), which are for tickers that run once a
    second. Paused and externally ticked logs are skipped.
    """

    def __init__(
        self,
        pool: ConnectionPool[Any],
        *,
        period_min_s: float = 0.01,
        period_max_s: float = 1.0,
        heartbeat_s: float = 5.0,
    ) -> None:
        """Prepare a ticker.

        Args:
            pool: Provides one connection, of a role that may tick (`sluice_admin`); `run` holds it.
            period_min_s: Tick interval in seconds while events arrive, more than 0: the maximum latency of an event's
                tick.
            period_max_s: Tick interval in seconds of idle logs: the maximum latency of the first event after a pause.
            heartbeat_s: Heartbeat interval in seconds, more than 0. Not more than the `heartbeat_s` of the listeners,
                which poll when no heartbeat arrives.
        """
        if not 0 < period_min_s <= period_max_s:
            raise ArgumentError(
                f"period_min_s is {period_min_s} and period_max_s {period_max_s}; use more than 0 seconds, and "
                "period_min_s not above period_max_s"
            )
        require_positive_s(heartbeat_s, "heartbeat_s")
        self._pool = pool
        self._heartbeat_s = heartbeat_s
        self._period_min_s = period_min_s
        self._period_max_s = period_max_s
        self._period_s = period_min_s
        self._busy_until_s = 0.0
        self._no_groups_until_s = 0.0
        self._ticked: set[str] = set()  # logs that the session has ticked, and so notifies of
        self._reminders = Reminders()

    @property
    def period_s(self) -> float:
        """Current tick interval in seconds."""
        return self._period_s

    def run(self, stop: threading.Event) -> None:
        """Tick until `stop` is set. A lost connection is retried with increasing back-off.

        Raises:
            SluiceError: A permanent error, such as a missing privilege.
        """
        backoff = Backoff("ticker", _log.log, delay_max_s=DELAY_MAX_S)
        while not stop.is_set():
            # One session: the server remembers per session which logs are fully ticked.
            with backoff.attempt(stop), leased(self._pool) as connection:
                runner = Runner(connection)
                connection.add_notice_handler(self._warn)
                sign_at_s = 0.0
                self._ticked.clear()
                while not stop.is_set():
                    self._adapt(_sweep(runner))
                    backoff.succeeded()
                    if time.monotonic() >= sign_at_s:
                        sign_at_s = time.monotonic() + self._heartbeat_s
                        runner.run(ticker_heartbeat())
                    self._wait(runner, stop)
                runner.run(ticker_heartbeat(is_gone=True))
                connection.remove_notice_handler(self._warn)

    def run_once(self) -> list[LogTick]:
        """Tick once; return the new ticks.

        Raises:
            SluiceError: A database error.
        """
        return _sweep(Runner(self._pool))

    def _warn(self, notice: psycopg.errors.Diagnostic) -> None:
        """Log a server warning about a log, at most once a minute each."""
        text = notice.message_primary or ""
        if notice.severity_nonlocalized == "WARNING" and self._reminders.is_due(text):
            _log.warning('ticker warning detail="%s"', text)

    def _wait(self, runner: Runner, stop: threading.Event) -> None:
        """Wait for the next tick; meanwhile wake waiting claims, which need no tick."""
        now_s = time.monotonic()
        end_s = now_s + self._period_s
        while self._no_groups_until_s <= now_s < end_s and not stop.is_set():
            is_busy = now_s < self._busy_until_s
            wait_s = min(end_s - now_s, _AWAIT_MAX_S)
            pause_s = _WAKE_PERIOD_S if is_busy else _IDLE_WAKE_PERIOD_S
            logs, woken = runner.run(await_groups(wait_s, pause_s))
            now_s = time.monotonic()
            if logs == 0:
                self._no_groups_until_s = now_s + _BUSY_S
            elif woken > 0 and not is_busy:
                return  # tick now, and often
        stop.wait(max(0.0, end_s - time.monotonic()))

    def _adapt(self, ticks: list[LogTick]) -> None:
        now_s = time.monotonic()
        if ticks:
            self._busy_until_s = now_s + _BUSY_S
            logs = {tick.log_name for tick in ticks}
            if not logs <= self._ticked:
                self._ticked |= logs
                self._no_groups_until_s = 0.0
        if now_s < self._busy_until_s:
            self._period_s = self._period_min_s
        else:
            self._period_s = min(self._period_max_s, self._period_s * 2)


def _sweep(runner: Runner) -> list[LogTick]:
    """Tick all logs, page by page, one transaction per page."""
    after, ticks = runner.run(tick_page(">"))
    while after != ">":
        after, more = runner.run(tick_page(after))
        ticks += more
    return ticks
