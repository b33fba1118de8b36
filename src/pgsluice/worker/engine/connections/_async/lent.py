"""Connection that handlers use one after another."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import upkeep
from pgsluice.errors import SluiceError
from pgsluice.tracing.switch import quiet
from pgsluice.worker.engine.connections._async.pool import AsyncPoolConnection
from pgsluice.worker.engine.connections.lost import OUT_OF_TIME
from pgsluice.worker.engine.connections.pools import end_at
from pgsluice.worker.engine.connections.sessions import (
    CLIENT_CHECK_MS,
    RESET,
    RESET_WATCHED,
    Lendable,
    restore,
)


class AsyncLentConnection(Lendable, AsyncPoolConnection):
    """A connection lent to one handler after another."""

    async def wait(self, gen: PQGen[Any], *args: Any, **kwargs: Any) -> Any:
        """Wait, and record a transaction timeout and idle states; within `_hurried` for 5 seconds at most."""
        if self._until_s is not None:
            gen = end_at(gen, self._until_s)
        try:
            return await super().wait(gen, *args, **kwargs)
        except OUT_OF_TIME:
            self.is_out_of_time = True
            raise
        finally:
            if self.pgconn.transaction_status == TransactionStatus.IDLE:
                self.has_been_idle = True

    async def check(self) -> None:
        """Check the connection unless it was used within the last second; times out after 5 seconds."""
        if self._settings is None:
            self._remember()
        if not self.is_fresh:
            with self._hurried():
                await AsyncConnectionPool.check_connection(self)
        self.good_s = time.monotonic()

    async def reset(self) -> None:
        """Reset the session and this object after a handler, or close the connection."""
        if self.closed or self._settings is None:
            return
        restore(self, self._settings)
        if not self.has_session:
            return
        autocommit = self.autocommit
        try:
            with self._hurried():
                await self.set_autocommit(True)
                await self.execute(RESET_WATCHED if self.is_watched else RESET, prepare=False)
                if lost := self._lost_settings():
                    again = upkeep.set_settings(lost)
                    # Not by a runner, which refuses the session as it is now.
                    await self.execute(again.sql, again.parameters)
                await self.set_autocommit(autocommit)
        except (psycopg.Error, SluiceError):
            await self.close()

    async def check_client(self) -> None:
        """Let the server cancel statements whose client is gone, where supported; elsewhere the client cancels them."""
        with contextlib.suppress(SluiceError), quiet():
            await self._watch_client()

    async def _watch_client(self) -> None:
        async with self.transaction():
            watched = await AsyncRunner(self).run(upkeep.check_client(CLIENT_CHECK_MS))
            self.is_watched = bool(watched)
