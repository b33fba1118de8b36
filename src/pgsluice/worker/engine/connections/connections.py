"""Connection pools of a worker: a small one for the engine, others for consumers and handlers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Generator
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool

from pgsluice.connection import tcp_options
from pgsluice.errors import translate
from pgsluice.frameworks import AsyncScope, Scope
from pgsluice.sessions import Session, SessionUse
from pgsluice.worker.engine.connections._async.lent import AsyncLentConnection
from pgsluice.worker.engine.connections._async.pool import AsyncPool
from pgsluice.worker.engine.connections._async.scope import (
    AsyncConnectionScope,
    async_adapter_scope,
)
from pgsluice.worker.engine.connections._sync.lent import LentConnection
from pgsluice.worker.engine.connections._sync.pool import Pool
from pgsluice.worker.engine.connections._sync.scope import ConnectionScope, adapter_scope
from pgsluice.worker.engine.connections.sessions import (
    ANSWER_S,
    SIGN_S,
    EngineConnection,
    Lendable,
)
from pgsluice.worker.forks import close_in_forks
from pgsluice.worker.wakeups.listener_connection import ListenerConnection, is_lent

# The engine times out early and retries: the pool doubles the delay between its own attempts, so a server that is
# back would wait for the next one.
_ENGINE_WAIT_S = 2.0
_RECONNECT_S = 1.0
_CONNECT_S = 5
# Idle time after which a handler connection is closed.
_IDLE_S = 60.0


class Connections:
    """Separate pools, so that handlers that use all their connections never block heartbeats or acknowledgements.

    Attributes:
        engine: For claims, heartbeats and acknowledgements.
        consumers: For log consumers, including their handlers' writes.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        engine_size: int,
        handlers_size: int,
        threads_size: int | None = None,
        consumers_size: int = 1,
        handlers: AsyncConnectionPool[Any] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """Prepare the pools; `open` opens them, and they connect on demand.

        Args:
            conninfo: Connection string.
            engine_size: Maximum connections of the engine, 1 or more.
            handlers_size: Maximum connections of `async def` handlers, 1 or more.
            threads_size: Maximum connections of handlers in threads, 1 or more; None: `handlers_size`.
            consumers_size: Maximum connections of consumers, 1 or more; each needs one for its batch.
            handlers: A caller's pool for `async def` handlers instead. It is not closed.
            options: Options of every connection, as for `psycopg.connect`.
        """
        self._conninfo = conninfo
        options = dict(options or {})
        given = options.pop("options", None)
        options = {**tcp_options(conninfo), "connect_timeout": _CONNECT_S, **options}
        self._options = {**options, "session": Session.to(conninfo, SessionUse.APPLICATION, given)}
        own = Session.to(conninfo, SessionUse.OWN, given)
        # Few statements, each used for the whole life of a worker: prepared by their second call instead of the sixth.
        self._engine_options = {
            **options,
            "session": own,
            "autocommit": True,
            "prepare_threshold": 1,
        }
        self._threads_size = handlers_size if threads_size is None else threads_size
        self.engine = AsyncPool[EngineConnection](
            conninfo,
            connection_class=EngineConnection,
            configure=self._configure_engine,
            min_size=0,
            max_size=engine_size,
            kwargs=self._engine_options,
            timeout=_ENGINE_WAIT_S,
            reconnect_timeout=_RECONNECT_S,
            name="engine",
        )
        self.consumers = AsyncPool[AsyncLentConnection](
            conninfo,
            connection_class=AsyncLentConnection,
            configure=self._configure,
            check=AsyncLentConnection.check,
            min_size=0,
            max_size=consumers_size,
            kwargs={**self._options, "autocommit": True},
            timeout=_ENGINE_WAIT_S,
            reconnect_timeout=_RECONNECT_S,
            max_idle=_IDLE_S,
            reset=AsyncLentConnection.reset,
            name="consumers",
        )
        self._is_own = handlers is None
        self._handlers: AsyncConnectionPool[Any] = handlers or AsyncPool[AsyncLentConnection](
            conninfo,
            connection_class=AsyncLentConnection,
            configure=self._configure,
            check=AsyncLentConnection.check,
            min_size=0,
            max_size=handlers_size,
            kwargs=self._options,
            reconnect_timeout=_RECONNECT_S,
            max_idle=_IDLE_S,
            name="handlers",
        )
        self._sync: Pool[LentConnection] | None = None
        self._lock = threading.Lock()
        self._draining: asyncio.Task[None] | None = None
        self._is_pooled = self._is_lent = False

    async def detect_pooler(self) -> None:
        """Detect a connection pooler, and whether it reassigns sessions between transactions.

        Raises:
            SluiceError: The server is unreachable.
        """
        try:
            async with self.engine.connection() as connection:
                link = ListenerConnection(connection, ANSWER_S)
                if await link.is_direct():
                    return
                self._is_pooled = True
                self._configure_any(connection)
                async with await EngineConnection.connect(
                    self._conninfo, **self._engine_options
                ) as other:
                    self._configure_any(other)
                    self._is_lent = await is_lent(link, ListenerConnection(other, SIGN_S))
        except psycopg.Error as error:
            raise translate(error) from error

    def _configure_any(self, connection: AsyncConnection[Any] | Connection[Any]) -> None:
        if self._is_pooled:
            connection.prepare_threshold = None  # prepared statements belong to one session
        if isinstance(connection, Lendable):
            connection.has_session = not self._is_lent

    async def _configure(self, connection: AsyncLentConnection) -> None:
        self._configure_any(connection)

    async def _configure_engine(self, connection: EngineConnection) -> None:
        self._configure_any(connection)
        connection.on_silence = self._replace_all

    def _configure_thread(self, connection: LentConnection) -> None:
        self._configure_any(connection)
        if not self._is_pooled:  # the setting would leak into a session of the pooler
            connection.check_client()

    def _replace_all(self) -> None:
        """Replace all connections; each would otherwise time out in turn."""
        if self._draining is None or self._draining.done():
            self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        await self.engine.drain()
        await self.consumers.drain()
        await self._handlers.drain()
        if (sync := self._sync) is not None:
            await asyncio.to_thread(sync.drain)

    async def open(self) -> None:
        """Open the pools; they connect on demand."""
        await self.engine.open()
        await self.consumers.open()
        if self._is_own:
            await self._handlers.open()

    async def close(self) -> None:
        """Close our own pools; connections still lent are closed when they are returned."""
        await self.engine.close()
        await self.consumers.close()
        if self._is_own:
            await self._handlers.close()
        with self._lock:
            sync, self._sync = self._sync, None
        if sync is not None:
            await asyncio.to_thread(sync.close)  # a hanging thread keeps its connection

    @contextlib.asynccontextmanager
    async def lend(self, on: Any = None) -> AsyncGenerator[AsyncScope]:
        """Lend a connection to an `async def` handler.

        The session is reset afterwards. A caller's pool resets its own connections.

        Args:
            on: As for `Context.transaction`; None: a connection of the worker.
        """
        if on is not None:
            async with async_adapter_scope(on) as scope:
                close_in_forks(scope.connection)
                yield scope
            return
        async with self._handlers.connection() as connection:
            if not self._is_own:
                close_in_forks(connection)
            try:
                yield AsyncConnectionScope(connection)
            finally:
                if isinstance(connection, AsyncLentConnection):
                    await connection.reset()
                elif connection.broken:  # a caller's pool may lend the other lost ones unchecked
                    await self._handlers.drain()

    @contextlib.contextmanager
    def lend_sync(self, on: Any = None) -> Generator[Scope]:
        """Lend a connection to a handler in a thread, like `lend`."""
        if on is not None:
            with adapter_scope(on) as scope:
                close_in_forks(scope.connection)
                yield scope
            return
        with self._threads().connection() as connection:
            try:
                yield ConnectionScope(connection)
            finally:
                connection.reset()

    def _threads(self) -> Pool[LentConnection]:
        with self._lock:
            if self._sync is None:
                self._sync = Pool[LentConnection](
                    self._conninfo,
                    connection_class=LentConnection,
                    check=LentConnection.check,
                    configure=self._configure_thread,
                    min_size=0,
                    max_size=self._threads_size,
                    kwargs=self._options,
                    reconnect_timeout=_RECONNECT_S,
                    max_idle=_IDLE_S,
                    name="threads",
                )
                self._sync.open()
            return self._sync
