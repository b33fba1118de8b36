"""Small pools of connections by the name of a database, opened on first use and shared by all senders of a program."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from abc import ABC, abstractmethod
from typing import Any, Self

from psycopg_pool import AsyncConnectionPool, ConnectionPool

from pgsluice.connection import Target, connect, for_writing, resolve, session_options
from pgsluice.errors import ArgumentError
from pgsluice.sessions import AsyncSluiceConnection, SluiceConnection
from pgsluice.settings import Settings

# Further concurrent calls wait for a connection.
_CONNECTIONS_MAX = 4
# Process id and DSN.
Place = tuple[int, str | None]
_ByName = dict[str, tuple[Place, AsyncConnectionPool[Any]]]


class Pools(ABC):
    """A pool for each database, and for each event loop that uses it. Thread-safe."""

    def __init__(self, application_name: str) -> None:
        """Prepare pools without connecting.

        Args:
            application_name: `application_name` of the connections.
        """
        self._application_name = application_name
        # Of each database: a connection attempt to one that is down delays no other.
        self._locks: dict[str, threading.Lock] = {}
        self._sync_pools: dict[str, tuple[Place, ConnectionPool[Any]]] = {}
        self._async_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _ByName] = (
            weakref.WeakKeyDictionary()
        )

    @abstractmethod
    def dsn(self, name: str) -> str | None:
        """Return the DSN of a database, which may change; None: as for all commands."""

    def pool(self, name: str = "") -> ConnectionPool[Any]:
        """Return the pool of this process.

        Raises:
            SluiceError: The server is unreachable.
        """
        place = self._place(name)
        with self._locked(name):
            held = self._sync_pools.get(name)
            if held is None or held[0] != place:
                self._close_pool(name)
                conninfo = self._reached(name).conninfo
                pool = ConnectionPool[Any](
                    conninfo,
                    connection_class=SluiceConnection,
                    open=True,
                    check=ConnectionPool.check_connection,
                    **self._options(conninfo),
                )
                self._sync_pools[name] = held = (place, pool)
            return held[1]

    async def async_pool(self, name: str = "") -> AsyncConnectionPool[Any]:
        """Return the pool of this event loop.

        Raises:
            SluiceError: The server is unreachable.
        """
        place = self._place(name)
        pools = self._async_pools.setdefault(asyncio.get_running_loop(), {})
        held = pools.get(name)
        if held is None or held[0] != place:
            target = await asyncio.to_thread(self._reached, name)
            before = pools.get(name)
            if before is held:  # no other task replaced it meanwhile
                pool = AsyncConnectionPool[Any](
                    target.conninfo,
                    connection_class=AsyncSluiceConnection,
                    open=False,
                    check=AsyncConnectionPool.check_connection,
                    **self._options(target.conninfo),
                )
                pools[name] = before = (place, pool)
                if held is not None:
                    await held[1].close()
            held = before
        if held is None:
            raise ArgumentError("the pool was closed while it was opened")
        await held[1].open()  # idempotent
        return held[1]

    def close(self) -> None:
        """Close the pools of this process; the next use opens others."""
        for name in list(self._sync_pools):
            with self._locked(name):
                self._close_pool(name)

    async def aclose(self) -> None:
        """Close the pools of this event loop; the next use opens others."""
        held = self._async_pools.pop(asyncio.get_running_loop(), {})
        for _, pool in held.values():
            await pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.aclose()

    def _locked(self, name: str) -> threading.Lock:
        return self._locks.setdefault(name, threading.Lock())

    def _close_pool(self, name: str) -> None:
        held = self._sync_pools.pop(name, None)
        if held is not None and held[0][0] == os.getpid():
            held[1].close()

    def _place(self, name: str = "") -> Place:
        # A forked process must not use its parent's connections; and tests may switch databases.
        dsn = self.dsn(name)
        return (os.getpid(), os.environ.get("PGSLUICE_DSN") if dsn is None else dsn)

    def _reached(self, name: str = "") -> Target:
        # Connect once, as a pool that cannot connect raises a timeout without the reason.
        target = for_writing(resolve(self.dsn(name)))
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
