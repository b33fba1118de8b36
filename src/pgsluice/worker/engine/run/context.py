"""Handler contexts: message metadata, transactions and heartbeats."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager
from typing import Any

from psycopg import Connection

from pgsluice.frameworks import AsyncScope, Scope
from pgsluice.worker.engine.claim.source import Source
from pgsluice.worker.engine.connections.connections import Connections
from pgsluice.worker.engine.connections.sessions import cut_off
from pgsluice.worker.engine.delivery import Delivery
from pgsluice.worker.engine.run._async.transaction_context import AsyncTransactionContext
from pgsluice.worker.engine.run._sync.transaction_context import TransactionContext
from pgsluice.worker.handlers.handler import HandlerSpec
from pgsluice.worker.wakeups.listener_connection import shut_down

_HEARTBEAT_S = 30.0
# Delay so that the call that renews the lease precedes the end of the transaction that it waits for.
_CUT_OFF_S = 0.05


class Context(AsyncTransactionContext):
    """Context of an `async def` handler."""

    async def heartbeat(self) -> None:
        """Renew the lease now. The worker renews it anyway; this also verifies that it has not expired.

        Raises:
            LeaseLostError: The lease has expired.
        """
        self._require_own_process()
        if self._source is not None and not self.is_acknowledging:
            with self._reaching():
                lost = await self._source.extend([self._delivery], self._spec.lease_s)
            if lost:
                self.lost.set()
        self._check()

    def _lend(self, connections: Connections, on: Any) -> AbstractAsyncContextManager[AsyncScope]:
        return connections.lend(on)


class SyncContext(TransactionContext):
    """Context of a `def` handler, used in its thread."""

    # The connection of its open transaction.
    _lent: Connection[Any] | None = None

    def __init__(
        self,
        spec: HandlerSpec,
        delivery: Delivery,
        source: Source | None,
        connections: Connections | None,
    ) -> None:
        super().__init__(spec, delivery, source, connections)
        self._loop = None if source is None else asyncio.get_running_loop()

    def heartbeat(self) -> None:
        """Renew the lease now. The worker renews it anyway; this also verifies that it has not expired.

        Raises:
            LeaseLostError: The lease has expired.
        """
        self._require_own_process()
        if self._source is not None and self._loop is not None and not self.is_acknowledging:
            extension = self._source.extend([self._delivery], self._spec.lease_s)
            beat = asyncio.run_coroutine_threadsafe(_of(extension), self._loop)
            with self._reaching():
                lost = beat.result(_HEARTBEAT_S)
            if lost:
                self.lost.set()
        self._check()

    @contextlib.contextmanager
    def _lend(self, connections: Connections, on: Any) -> Generator[Scope]:
        with connections.lend_sync(on) as scope:
            self._lent = scope.connection
            try:
                yield scope
            finally:
                self._lent = None

    def abandon(self, overrun: asyncio.Future[Any]) -> None:
        """Fence off a thread that cannot be stopped: the server rolls back its transaction.

        The running statement is cancelled first, as a busy backend does not notice a closed connection. The
        connection belongs to the thread, so closing it from another is unsafe; shutting down its socket is safe.

        Args:
            overrun: Done when the thread returns.
        """
        self.overrun = overrun
        self.lost.set()
        connection = self._lent
        if connection is None:
            return
        if self.is_acknowledging and self._source is not None:
            # The lease may have expired while the transaction held the row lock. This call waits for the row lock, and
            # so renews the lease when the transaction ends.
            self._extension = asyncio.ensure_future(self._extend(self._source))
        # In a thread: cancelling opens another connection and may take long.
        timer = threading.Timer(_CUT_OFF_S, self._cut_off, args=[connection])
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:  # no thread can be started
            shut_down(connection)

    def _cut_off(self, connection: Connection[Any]) -> None:
        if connection is self._lent:  # else it may be another handler's by now
            cut_off(connection)

    async def _extend(self, source: Source) -> None:
        with contextlib.suppress(Exception):  # the next heartbeat reports it
            async with source.lock_waits.turn(_HEARTBEAT_S) as wait_s:
                await source.extend([self._delivery], self._spec.lease_s, wait_s=wait_s)


async def _of(awaitable: Any) -> Any:
    return await awaitable
