"""Where those who send get their connections from: they bring one, or share one of a few."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client._sync.runner import Runner
from pgsluice.connection import Target, connect, for_writing, resolve, tcp_options
from pgsluice.errors import ArgumentError
from pgsluice.settings import Settings, variable

# Those who send at once and bring no connection wait for one another beyond it.
_CONNECTIONS_MAX = 4
# What `worker run --dsn` says goes before what the app says, also in the processes that some handlers have.
WORKER_DSN = "PGSLUICE_WORKER_DSN"
# The process, and what it was told of the server.
_Place = tuple[int, str | None]
_SYNC = (Connection, ConnectionPool)
_ASYNC = (AsyncConnection, AsyncConnectionPool)


class SendingPools:
    """The connections of those who send without one of their own: none is opened before the first asks."""

    def __init__(self, dsn: Callable[[], str | None], application_name: str) -> None:
        """Prepare pools; nothing is connected yet.

        Args:
            dsn: Where to connect; asked each time, so that it may change.
            application_name: For the server's list of connections.
        """
        self._dsn = dsn
        self._application_name = application_name
        self._lock = threading.Lock()
        self._pool: tuple[_Place, ConnectionPool[Any]] | None = None
        self._async_pools: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[_Place, AsyncConnectionPool[Any]]
        ] = weakref.WeakKeyDictionary()

    def runner(self, connection: Connection[Any] | ConnectionPool[Any] | None) -> Runner:
        """What runs calls on a connection that somebody brought, or on the pool of this process.

        Raises:
            ArgumentError: It is no psycopg connection or pool, or an async one.
            SluiceError: There is no server to connect to.
        """
        if connection is None:
            return Runner(self._sync_pool())
        _require(connection, _SYNC, _ASYNC, "await send_async() or send_many_async() with it")
        return Runner(connection)

    async def async_runner(
        self, connection: AsyncConnection[Any] | AsyncConnectionPool[Any] | None
    ) -> AsyncRunner:
        """As `runner`, in an event loop."""
        if connection is None:
            return AsyncRunner(await self._async_pool())
        _require(connection, _ASYNC, _SYNC, "use send() or send_many() with it")
        return AsyncRunner(connection)

    def close(self) -> None:
        """Close the pool of this process; another is opened when somebody sends again."""
        with self._lock:
            self._close_pool()

    async def aclose(self) -> None:
        """Close the pool of this event loop, likewise."""
        held = self._async_pools.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held[1].close()

    def _sync_pool(self) -> ConnectionPool[Any]:
        place = self._place()
        with self._lock:
            if self._pool is None or self._pool[0] != place:
                self._close_pool()
                conninfo = self._reached().conninfo
                pool = ConnectionPool(
                    conninfo,
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
            if before is held:  # and nobody was faster
                pool = AsyncConnectionPool(
                    target.conninfo,
                    open=False,
                    check=AsyncConnectionPool.check_connection,
                    **self._options(target.conninfo),
                )
                self._async_pools[loop] = before = (place, pool)
                if held is not None:
                    await held[1].close()
            held = before
        if held is None:
            raise ArgumentError("the app was closed while it was about to send")
        await held[1].open()  # by whoever comes first
        return held[1]

    def _close_pool(self) -> None:
        held, self._pool = self._pool, None
        if held is not None and held[0][0] == os.getpid():
            held[1].close()

    def _place(self) -> _Place:
        # A process that was forked must not use the connections of the one it came from; and a test may be told of
        # another database than the one before.
        told = self._told()
        return (os.getpid(), os.environ.get("PGSLUICE_DSN") if told is None else told)

    def _told(self) -> str | None:
        told = variable(os.environ, WORKER_DSN)
        return self._dsn() if told is None else told

    def _reached(self) -> Target:
        # A pool that cannot connect says so after its timeout, and not why.
        target = for_writing(resolve(self._told()))
        connect(target).close()
        return target

    def _options(self, conninfo: str) -> dict[str, Any]:
        return {
            "min_size": 0,
            "max_size": _CONNECTIONS_MAX,
            "kwargs": tcp_options(conninfo)
            | {
                "autocommit": True,
                "application_name": self._application_name,
                "connect_timeout": Settings.load().connect_timeout_s,
                # They would be of no use to the next one behind a pooler of transactions.
                "prepare_threshold": None,
            },
        }


def _require(connection: Any, wanted: tuple[type, ...], others: tuple[type, ...], way: str) -> None:
    """Refuse a connection of the other colour, or of none.

    Raises:
        ArgumentError: It is no psycopg connection or pool of the wanted kind.
    """
    if not isinstance(connection, wanted):
        way_out = way if isinstance(connection, others) else "give the psycopg connection below it"
        raise ArgumentError(f"connection is a {type(connection).__name__}; {way_out}")
