"""Connections for sending: the caller's, or small shared pools; and the listeners for results."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client._async.shard_runner import AsyncShardRunner
from pgsluice.client._sync.runner import Runner
from pgsluice.client._sync.shard_runner import ShardRunner
from pgsluice.client.sources import AsyncConnectable, Connectable
from pgsluice.errors import ArgumentError
from pgsluice.pools import Place, Pools
from pgsluice.settings import Settings, variable
from pgsluice.shards import Shards
from pgsluice.shards.router import Router

if TYPE_CHECKING:
    from pgsluice.worker.wakeups.listener import Listener

# The DSN and the file of `worker run --dsn` and `--shards` override the app's, also in handler processes.
WORKER_DSN = "PGSLUICE_WORKER_DSN"
WORKER_SHARDS = "PGSLUICE_WORKER_SHARDS"
_SYNC = (Connection, ConnectionPool)
_ASYNC = (AsyncConnection, AsyncConnectionPool)


class SendingPools(Pools):
    """Pools for senders without a connection: one, or one for each shard."""

    def __init__(
        self,
        dsn: Callable[[], str | None],
        application_name: str,
        *,
        shards: Callable[[], Shards | str | Path | None] = lambda: None,
        is_traced: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepare pools without connecting.

        Args:
            dsn: Returns the DSN; called each time, as it may change.
            application_name: `application_name` of the connections.
            shards: Returns the shards, or their file; None: a single database. Called each time.
            is_traced: Returns False if sends are never traced; called each time.
        """
        super().__init__(application_name)
        self._dsn = dsn
        self._shards = shards
        self._is_traced = is_traced
        self._router: tuple[Any, Router] | None = None
        self._listeners: dict[str, tuple[Place, Listener]] = {}

    @property
    def router(self) -> Router | None:
        """The router of the shards; None for a single database.

        Raises:
            ConfigurationError: The file of shards is invalid.
        """
        given = variable(os.environ, WORKER_SHARDS) or self._shards()
        if given is None or variable(os.environ, WORKER_DSN) is not None:
            return None
        if self._router is None or self._router[0] != given:
            self._router = (given, Router(given))
        return self._router[1]

    def dsn(self, name: str) -> str | None:
        """Return the DSN of a shard; without shards, that of the app."""
        if name and (router := self.router) is not None:
            return router.shards.dsn(name)
        dsn = variable(os.environ, WORKER_DSN)
        return self._dsn() if dsn is None else dsn

    def runner(self, connection: Connectable | None) -> Runner:
        """Return a runner on the caller's connection, or on the pool of this process.

        Raises:
            ArgumentError: It is not a connection, pool or session, or an async one; or there are shards and no
                connection.
            SluiceError: The server is unreachable.
        """
        if connection is None and self.router is not None:
            raise _keyless()
        if connection is None:
            return Runner(self.pool(), is_traced=self._is_traced())
        try:
            return Runner(connection, is_traced=self._is_traced())
        except TypeError:
            way = "await send_async() or send_many_async() with it"
            raise _refused(connection, _ASYNC, way) from None

    async def async_runner(self, connection: AsyncConnectable | None) -> AsyncRunner:
        """Like `runner`, in an event loop."""
        if connection is None and self.router is not None:
            raise _keyless()
        if connection is None:
            return AsyncRunner(await self.async_pool(), is_traced=self._is_traced())
        try:
            return AsyncRunner(connection, is_traced=self._is_traced())
        except TypeError:
            raise _refused(connection, _SYNC, "use send() or send_many() with it") from None

    def routed(
        self, connection: Connectable | None, keys: Sequence[str | None]
    ) -> Runner | ShardRunner:
        """Return a runner at the shards of some keys; without shards, that of `runner`.

        Raises:
            ArgumentError: As for `runner`; or there are shards, and a key is missing.
            SluiceError: As for `runner`.
        """
        if (router := self.router) is None:
            return self.runner(connection)
        if connection is not None:
            self.runner(connection)  # refuses what is no connection
        return ShardRunner(self, router, _keyed(keys), connection, is_traced=self._is_traced())

    async def async_routed(
        self, connection: AsyncConnectable | None, keys: Sequence[str | None]
    ) -> AsyncRunner | AsyncShardRunner:
        """Like `routed`, in an event loop."""
        if (router := self.router) is None:
            return await self.async_runner(connection)
        if connection is not None:
            await self.async_runner(connection)
        return AsyncShardRunner(self, router, _keyed(keys), connection, is_traced=self._is_traced())

    def listener(self, key: str | None = None) -> Listener:
        """Return the listener of this process, which all waits for results share; it is started on first use."""
        # Programs that only send do not import it.
        from pgsluice.worker.wakeups.listener import Listener

        router = self.router
        name = "" if router is None else router.home(_keyed((key,))[0])
        place = self._place(name)
        with self._locked(name):
            held = self._listeners.get(name)
            if held is None or held[0] != place:
                self._close_listener(name)
                connect_timeout_s = Settings.load().connect_timeout_s
                conninfo = self._reached(name).conninfo
                listener = Listener(conninfo, connect_timeout_s=connect_timeout_s)
                self._listeners[name] = held = (place, listener.__enter__())
            return held[1]

    def close(self) -> None:
        """Close the pools and the listeners of this process; the next use opens others."""
        super().close()
        for name in list(self._listeners):
            with self._locked(name):
                self._close_listener(name)

    def _close_listener(self, name: str) -> None:
        held = self._listeners.pop(name, None)
        if held is not None and held[0][0] == os.getpid():
            held[1].__exit__()


def _keyed(keys: Sequence[str | None]) -> list[str]:
    """Return the keys that choose shards.

    Raises:
        ArgumentError: One is missing, or not a text.
    """
    found = [key for key in keys if key is not None]
    if len(found) < len(keys):
        raise _keyless()
    for key in found:
        if not isinstance(key, str):
            raise ArgumentError(f"key is of type {type(key).__name__}; use a str")
    return found


def _keyless() -> ArgumentError:
    return ArgumentError(
        "the app has shards, and no key chooses one", "pass key=, or keys= to send_many()"
    )


def _refused(connection: Any, others: tuple[type, ...], way: str) -> ArgumentError:
    """Return the error of a connection of the wrong kind."""
    hint = way if isinstance(connection, others) else "pass a connection or pool of psycopg"
    return ArgumentError(f"connection is a {type(connection).__name__}; {hint}")
