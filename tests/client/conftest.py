"""One suite for the sync and the async clients: an adapter makes both blocking.

The tests of a file share a database and use queue and log names of their own. Tests that list all
queues or logs have a database of their own. Some tests run on the functions and on plain tables:
see `mode`.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import psycopg_pool
import pytest

from pgsluice import (
    Archive,
    AsyncArchive,
    AsyncDeadLetters,
    AsyncEventLog,
    AsyncInbox,
    AsyncOperations,
    AsyncSchedules,
    AsyncShareGroup,
    AsyncTableQueue,
    AsyncWorkQueue,
    DeadLetters,
    EventLog,
    Inbox,
    Operations,
    Schedules,
    ShareGroup,
    TableQueue,
    WorkQueue,
    schema,
)
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client._sync.runner import Runner
from support.site_settings import set_if_odd

_names = itertools.count(1)
QUEUES = {
    ("sync", "functions"): WorkQueue,
    ("sync", "tables"): TableQueue,
    ("async", "functions"): AsyncWorkQueue,
    ("async", "tables"): AsyncTableQueue,
}
# Differs from the default of the test server, so that a test detects a change of it.
SYNCHRONOUS_COMMIT = "local"


class Blocking:
    """Wrapper whose methods return results: it awaits those of an async object."""

    def __init__(self, inner: Any, run: Any) -> None:
        self._inner = inner
        self._run = run

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            return self._run(result) if inspect.isawaitable(result) else result

        return call


class Clients:
    """Both clients on one source, made and run in one style.

    Attributes:
        queue: The work queue client.
        log: The event log client.
        archive: The client of archives.
        operations: The client of operations.
        schedules: The client of schedules.
        source: The connection or pool of the clients; its methods block too.
        run: Runs the awaitables that the async style returns.
    """

    def __init__(self, style: str, mode: str, source: Any, run: Any) -> None:
        kinds = (
            QUEUES[style, mode],
            AsyncEventLog if style == "async" else EventLog,
            AsyncArchive if style == "async" else Archive,
            AsyncOperations if style == "async" else Operations,
            AsyncSchedules if style == "async" else Schedules,
            AsyncRunner if style == "async" else Runner,
        )
        self.queue, self.log, self.archive, self.operations, self.schedules, self._runner = (
            Blocking(kind(source), run) for kind in kinds
        )
        self.source = Blocking(source, run)
        self.run = run
        self._is_pool = hasattr(source, "getconn")
        self._share_groups = AsyncShareGroup if style == "async" else ShareGroup
        self._dead_letters = AsyncDeadLetters if style == "async" else DeadLetters

    def call(self, call: Any) -> Any:
        """Run a call that no client has."""
        return self._runner.run(call)

    def share_group(self, log_name: str, group_name: str) -> Any:
        """Return the client of a share group, on the same source."""
        return Blocking(self._share_groups(self.source._inner, log_name, group_name), self.run)

    def dead_letters(self, queue_name: str, consumer_name: str | None = None) -> Any:
        """Return the client of the dead letters of a queue, share group or consumer, on the same source."""
        inner = self._dead_letters(self.source._inner, queue_name, consumer_name)
        return Blocking(inner, self.run)

    def inbox(self) -> Any:
        """Return the client of the inbox, on the same connection."""
        kind = AsyncInbox if self._share_groups is AsyncShareGroup else Inbox
        return Blocking(kind(self.source._inner), self.run)

    def value(self, query: str) -> Any:
        """Run a query on the connection of the clients; a pool has only this one."""
        if not self._is_pool:
            return self._done(self._done(self.source.execute(query)).fetchone())[0]
        connection = self.source.getconn()
        try:
            return self._done(self._done(connection.execute(query)).fetchone())[0]
        finally:
            self.source.putconn(connection)

    def _done(self, result: Any) -> Any:
        return self.run(result) if inspect.isawaitable(result) else result


class Maker:
    """Factory of connections and pools of one style; `close` closes them all."""

    def __init__(self, style: str, mode: str) -> None:
        self.style = style
        self.mode = mode
        self._runner = asyncio.Runner() if style == "async" else None
        self._sources: list[Any] = []

    def run(self, result: Any) -> Any:
        return self._runner.run(_awaited(result))

    def connection(self, url: str, *, autocommit: bool = False, **options: Any) -> Clients:
        """Return clients on a connection; without autocommit the caller commits their calls."""
        if self._runner is None:
            source: Any = psycopg.connect(url, autocommit=autocommit, **options)
        else:
            source = self.run(
                psycopg.AsyncConnection.connect(url, autocommit=autocommit, **options)
            )
        return self._made(source)

    def pool(self, url: str, *, timeout_s: float = 30.0, **options: Any) -> Clients:
        """Return clients on a pool of one connection."""
        arguments: dict[str, Any] = {
            "kwargs": options,
            "min_size": 1,
            "max_size": 1,
            "open": False,
            "timeout": timeout_s,
        }
        if self._runner is None:
            source: Any = psycopg_pool.ConnectionPool(url, **arguments)
            source.open()
        else:
            source = self.run(self._open_async_pool(url, arguments))
        return self._made(source)

    def close(self) -> None:
        for source in self._sources:
            closing = source.close()
            if inspect.isawaitable(closing):
                self.run(closing)
        if self._runner is not None:
            self._runner.close()

    def _made(self, source: Any) -> Clients:
        self._sources.append(source)
        return Clients(self.style, self.mode, source, self.run)

    @staticmethod
    async def _open_async_pool(url: str, arguments: dict[str, Any]) -> Any:
        pool = psycopg_pool.AsyncConnectionPool(url, **arguments)
        await pool.open()
        return pool


async def _awaited(result: Any) -> Any:
    return await result


@pytest.fixture
def mode() -> str:
    """Backend of the work queue client: `functions`, or `tables` in a database without functions.

    `support.on_functions_and_tables` makes a test, or the tests of a file, run on both.
    """
    return "functions"


@pytest.fixture(params=["sync", "async"])
def make(request: pytest.FixtureRequest, mode: str) -> Iterator[Maker]:
    """Factory of clients, sync and async in turn."""
    maker = Maker(request.param, mode)
    try:
        yield maker
    finally:
        maker.close()


@pytest.fixture(scope="module")
def urls(server_18: Any) -> Iterator[Callable[[str], str]]:
    """Databases that all tests of a file share, one for each mode."""
    with psycopg.connect(server_18.url(), autocommit=True) as connection:
        names: dict[str, str] = {}

        def url(mode: str) -> str:
            if mode not in names:
                names[mode] = f"client_{next(_names)}"
                new_database(connection, server_18, names[mode], mode)
            return server_18.url(names[mode])

        yield url
        for name in names.values():
            connection.execute(f"drop database {name} with (force)")


def new_database(connection: psycopg.Connection, server: Any, name: str, mode: str) -> None:
    """Create a database with the functions, or with the tables only."""
    if mode == "functions":
        connection.execute(f"create database {name} template sluice_template")
        set_if_odd(connection, name)
        return
    connection.execute(f"create database {name} template template0")
    with psycopg.connect(server.url(name)) as inside:
        schema.install_tables(inside)


@pytest.fixture
def shared_url(urls: Callable[[str], str], mode: str) -> str:
    """A database for all tests of a file."""
    return urls(mode)


@pytest.fixture
def own_url(server_18: Any, mode: str) -> Iterator[str]:
    """A database of the test's own."""
    name = f"own_{next(_names)}"
    with psycopg.connect(server_18.url(), autocommit=True) as connection:
        new_database(connection, server_18, name, mode)
        yield server_18.url(name)
        connection.execute(f"drop database {name} with (force)")


@pytest.fixture
def observer(shared_url: str) -> Iterator[psycopg.Connection]:
    """Another session, which sees only committed changes."""
    with psycopg.connect(shared_url, autocommit=True) as connection:
        yield connection


@pytest.fixture(params=["pool", "connection"])
def clients(request: pytest.FixtureRequest, make: Maker, shared_url: str) -> Clients:
    """Clients that commit each call, on a pool and on an autocommit connection."""
    if request.param == "pool":
        return make.pool(shared_url)
    return make.connection(shared_url, autocommit=True)


@pytest.fixture
def caller(make: Maker, shared_url: str) -> Clients:
    """Clients on a connection that the caller commits."""
    return make.connection(shared_url, options=f"-c synchronous_commit={SYNCHRONOUS_COMMIT}")


@pytest.fixture
def queue_name(observer: psycopg.Connection, mode: str) -> str:
    """A queue of this test's own."""
    name = f"orders_{next(_names)}"
    QUEUES["sync", mode](observer).create(name)
    return name


@pytest.fixture
def log_name(observer: psycopg.Connection) -> str:
    """An event log of this test's own, which ticks as soon as it has a new event."""
    name = f"events_{next(_names)}"
    observer.execute("select pgq.create_queue(%s)", [name])
    observer.execute(
        "update pgq.queue set queue_ticker_max_count = 1 where queue_name = %s", [name]
    )
    return name
