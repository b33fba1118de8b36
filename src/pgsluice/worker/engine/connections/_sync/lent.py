# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""Connection that handlers use one after another."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import upkeep
from pgsluice.errors import SluiceError
from pgsluice.tracing.switch import quiet
from pgsluice.worker.engine.connections._sync.pool import PoolConnection
from pgsluice.worker.engine.connections.lost import OUT_OF_TIME
from pgsluice.worker.engine.connections.pools import end_at
from pgsluice.worker.engine.connections.sessions import (
    CLIENT_CHECK_MS,
    RESET,
    RESET_WATCHED,
    Lendable,
    restore,
)


class LentConnection(Lendable, PoolConnection):
    """A connection lent to one handler after another."""

    def wait(self, gen: PQGen[Any], *args: Any, **kwargs: Any) -> Any:
        """Wait, and record a transaction timeout and idle states; within `_hurried` for 5 seconds at most."""
        if self._until_s is not None:
            gen = end_at(gen, self._until_s)
        try:
            return super().wait(gen, *args, **kwargs)
        except OUT_OF_TIME:
            self.is_out_of_time = True
            raise
        finally:
            if self.pgconn.transaction_status == TransactionStatus.IDLE:
                self.has_been_idle = True

    def check(self) -> None:
        """Check the connection unless it was used within the last second; times out after 5 seconds."""
        if self._settings is None:
            self._remember()
        if not self.is_fresh:
            with self._hurried():
                ConnectionPool.check_connection(self)
        self.good_s = time.monotonic()

    def reset(self) -> None:
        """Reset the session and this object after a handler, or close the connection."""
        if self.closed or self._settings is None:
            return
        restore(self, self._settings)
        if not self.has_session:
            return
        autocommit = self.autocommit
        try:
            with self._hurried():
                self.set_autocommit(True)
                self.execute(RESET_WATCHED if self.is_watched else RESET, prepare=False)
                if lost := self._lost_settings():
                    again = upkeep.set_settings(lost)
                    # Not by a runner, which refuses the session as it is now.
                    self.execute(again.sql, again.parameters)
                self.set_autocommit(autocommit)
        except (psycopg.Error, SluiceError):
            self.close()

    def check_client(self) -> None:
        """Let the server cancel statements whose client is gone, where supported; elsewhere the client cancels them."""
        with contextlib.suppress(SluiceError), quiet():
            self._watch_client()

    def _watch_client(self) -> None:
        with self.transaction():
            watched = Runner(self).run(upkeep.check_client(CLIENT_CHECK_MS))
            self.is_watched = bool(watched)
