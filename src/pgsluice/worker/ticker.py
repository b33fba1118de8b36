"""Ticks the event logs. Any number of processes may run one: they keep out of each other's way in the database."""

from __future__ import annotations

import logging
import threading
from typing import Any

from psycopg_pool import ConnectionPool

from pgsluice.client import EventLog
from pgsluice.errors import ConnectionFailedError, RetryableError

_log = logging.getLogger(__name__)


class Ticker:
    """Call `pgq.ticker()` again and again; the logs' own settings decide whether it is time to tick."""

    def __init__(self, pool: ConnectionPool[Any], *, period_s: float = 0.1) -> None:
        """Prepare a ticker.

        Args:
            pool: Gives one connection at a time, of a role that may tick (`sluice_admin`).
            period_s: Seconds between two calls.
        """
        self._log = EventLog(pool)
        self._period_s = period_s

    def run(self, stop: threading.Event) -> None:
        """Tick until `stop` is set. A lost connection is waited out."""
        while not stop.wait(self._period_s):
            try:
                self._log.ticker_all()
            except (ConnectionFailedError, RetryableError) as error:
                _log.warning("ticker: %s; again in 1 s", error)
                stop.wait(1.0)
