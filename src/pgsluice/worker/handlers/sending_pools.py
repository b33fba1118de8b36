"""Connections for sending: the caller's, or a small shared pool; and the listener for results."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client._sync.runner import Runner
from pgsluice.client.sources import AsyncConnectable, Connectable
from pgsluice.connection import Target, connect, for_writing, resolve, session_options
from pgsluice.errors import ArgumentError
from pgsluice.sessions import AsyncSluiceConnection, SluiceConnection
from pgsluice.settings import Settings, variable

if TYPE_CHECKING:
    from pgsluice.worker.wakeups.listener import Listener

# Further concurrent sends without a connection of their own wait for one.
_CONNECTIONS_MAX = 4
# The DSN of `worker run --dsn` overrides the app's, also in handler processes.
WORKER_DSN = "PGSLUICE_WORKER_DSN"
# Process id and DSN.
_Place = tuple[int, str | None]
_SYNC = (Connection, ConnectionPool)
_ASYNC = (AsyncConnection, AsyncConnectionPool)


class SendingPools:
    """Pools for senders without a connection, opened on first use."""

    def __init__(
        self,
        dsn: Callable[[], str | None],
        application_name: str,
        *,
        is_traced: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepare pools without connecting.

        Args:
            dsn: Returns the DSN; called each time, as it may change.
            application_name: `application_name` of the connections.
            is_traced: Returns False if sends are never traced; called each time.
        """
        self._dsn = dsn
        self._application_name = application_name
        self._is_traced = is_traced
        self._lock = threading.Lock()
        self._pool: tuple[_Place, ConnectionPool[Any]] | None = None
        self._listener: tuple[_Place, Listener] | None = None
        self._async_pools: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[_Place, AsyncConnectionPool[Any]]
        ] = weakref.WeakKeyDictionary()

    def runner(self, connection: Connectable | None) -> Runner:
        """Return a runner on the caller's connection, or on the pool of this process.

        Raises:
            ArgumentError: It is not a connection, pool or session, or an async one.
            SluiceError: The server is unreachable.
        """
        if connection is None:
            return Runner(self._sync_pool(), is_traced=self._is_traced())
        try:
            return Runner(connection, is_traced=self._is_traced())
        except TypeError:
            way = "await send_async() or send_many_async() with it"
            raise _refused(connection, _ASYNC, way) from None

    async def async_runner(self, connection: AsyncConnectable | None) -> AsyncRunner:
        """Like `runner`, in an event loop."""
        if connection is None:
            return AsyncRunner(await self._async_pool(), is_traced=self._is_traced())
        try:
            return AsyncRunner(connection, is_traced=self._is_traced())
        except TypeError:
            raise _refused(connection, _SYNC, "use send() or send_many() with it") from None

    def listener(self) -> Listener:
        """Return the listener of this process, which all waits for results share; it is started on first use."""
        # Programs that only send do not import it.
        from pgsluice.worker.wakeups.listener import Listener

        place = self._place()
        with self._lock:
            if self._listener is None or self._listener[0] != place:
                self._close_listener()
                connect_timeout_s = Settings.load().connect_timeout_s
                listener = Listener(self._reached().conninfo, connect_timeout_s=connect_timeout_s)
                self._listener = (place, listener.__enter__())
            return self._listener[1]

    def close(self) -> None:
        """Close the pool and the listener of this process; the next use opens others."""
        with self._lock:
            self._close_pool()
            self._close_listener()

    async def aclose(self) -> None:
        """Close the pool of this event loop; the next send opens another."""
        held = self._async_pools.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held[1].close()

    def _sync_pool(self) -> ConnectionPool[Any]:
        place = self._place()
        with self._lock:
            if self._pool is None or self._pool[0] != place:
                self._close_pool()
                conninfo = self._reached().conninfo
                pool = ConnectionPool[Any](
                    conninfo,
                    connection_class=SluiceConnection,
                    open=True,
                    check=ConnectionPool.check_connection,
                    **self._options(conninfo),
                )
                self._pool = (place, pool)
            return self._pool[1]

    async def _async_pool(self) -> AsyncConnectionPool[Any]:
        loop, place = asyncio.get_running_loop(), self._place()
        held = self._async_pools.get(loop)
        if held is None or held[0] != place:
            target = await asyncio.to_thread(self._reached)
            before = self._async_pools.get(loop)
            if before is held:  # no other task replaced it meanwhile
                pool = AsyncConnectionPool[Any](
                    target.conninfo,
                    connection_class=AsyncSluiceConnection,
                    open=False,
                    check=AsyncConnectionPool.check_connection,
                    **self._options(target.conninfo),
                )
                self._async_pools[loop] = before = (place, pool)
                if held is not None:
                    await held[1].close()
            held = before
        if held is None:
            raise ArgumentError("the app was closed while sending")
        await held[1].open()  # idempotent
        return held[1]

    def _close_pool(self) -> None:
        held, self._pool = self._pool, None
        if held is not None and held[0][0] == os.getpid():
            held[1].close()

    def _close_listener(self) -> None:
        held, self._listener = self._listener, None
        if held is not None and held[0][0] == os.getpid():
            held[1].__exit__()

    def _place(self) -> _Place:
        # A forked process must not use its parent's connections; and tests may switch databases.
        dsn = self._configured_dsn()
        return (os.getpid(), os.environ.get("PGSLUICE_DSN") if dsn is None else dsn)

    def _configured_dsn(self) -> str | None:
        dsn = variable(os.environ, WORKER_DSN)
        return self._dsn() if dsn is None else dsn

    def _reached(self) -> Target:
        # Connect once, as a pool that cannot connect raises a timeout without the reason.
        target = for_writing(resolve(self._configured_dsn()))
        connect(target).close()
        return target

    def _options(self, conninfo: str) -> dict[str, Any]:
        return {
            "min_size": 0,
            "max_size": _CONNECTIONS_MAX,
            "kwargs": session_options(conninfo)
            | {
                "autocommit": True,
                "application_name": self._application_name,
                "connect_timeout": Settings.load().connect_timeout_s,
                # Prepared statements are useless behind a pooler in transaction mode.
                "prepare_threshold": None,
            },
        }


def _refused(connection: Any, others: tuple[type, ...], way: str) -> ArgumentError:
    """Return the error of a connection of the wrong kind."""
    hint = way if isinstance(connection, others) else "pass a connection or pool of psycopg"
    return ArgumentError(f"connection is a {type(connection).__name__}; {hint}")
