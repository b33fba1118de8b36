"""Connection pools of a worker: a small one for the engine, others for consumers and handlers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextvars import ContextVar
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import upkeep
from pgsluice.connection import tcp_options
from pgsluice.errors import SluiceError, translate
from pgsluice.sessions import Session, SessionUse
from pgsluice.tracing.switch import quiet
from pgsluice.worker.engine.lost_sessions import OUT_OF_TIME
from pgsluice.worker.engine.pools import Noting, Pool, SyncNoting, SyncPool, end_at
from pgsluice.worker.forks import close_in_forks
from pgsluice.worker.wakeups.listener_connection import ListenerConnection, is_lent, shut_down

# The engine times out early and retries: the pool doubles the delay between its own attempts, so a server that is
# back would wait for the next one.
_ENGINE_WAIT_S = 2.0
_RECONNECT_S = 1.0
_CONNECT_S = 5
# Idle time after which a handler connection is closed.
_IDLE_S = 60.0
# An engine statement takes milliseconds. No response for this long means a lost server, which neither TCP nor a pooler
# may ever report. Preparing a queue is exempt: it may build an index.
_ANSWER_S = 15.0
_unhurried: ContextVar[bool] = ContextVar("unhurried", default=False)
# A handler connection unused for this long is checked before it is lent, with a timeout of _SIGN_S.
_UNUSED_S = 1.0
_SIGN_S = 5.0
# DISCARD ALL without DEALLOCATE and DISCARD PLANS: psycopg keeps statements prepared for the next handler.
_RESET = (
    "close all; reset session authorization; reset all; unlisten *; select pg_advisory_unlock_all(); "
    "discard temp; discard sequences"
)
# Settings in the startup packet. A pooler sets these later, so RESET ALL loses them.
_OF_CLIENT = ("application_name", "client_encoding", "DateStyle", "TimeZone")
_CANCEL_S = 2.0
_CLIENT_CHECK_MS = 2_000
_RESET_WATCHED = f"{_RESET}; set client_connection_check_interval = {_CLIENT_CHECK_MS}"


@contextlib.contextmanager
def unhurried() -> Iterator[None]:
    """Disable the response timeout of engine statements within this task."""
    token = _unhurried.set(True)
    try:
        yield
    finally:
        _unhurried.reset(token)


def cut_off(connection: Connection[Any]) -> None:
    """Cancel the running statement of another thread's connection and shut the connection down; up to 2 seconds."""
    with contextlib.suppress(
        OSError, psycopg.Error
    ):  # already closed, or the server does not respond
        connection.cancel_safe(timeout=_CANCEL_S)
    shut_down(connection)


class _Own:
    """A connection that forks of this process close."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        close_in_forks(self)  # type: ignore[arg-type]  # a mixin of connection classes


class EngineConnection(_Own, Noting):
    """A connection that is shut down when the server does not respond.

    Attributes:
        on_silence: Called after the shutdown.
    """

    on_silence: Callable[[], None] = staticmethod(lambda: None)

    async def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Wait with a timeout; shut the socket down, because a cancelled wait would also wait for the server."""
        if _unhurried.get():
            return await super().wait(*args, **kwargs)
        watch = asyncio.get_running_loop().call_later(_ANSWER_S, self._be_silent)
        try:
            return await super().wait(*args, **kwargs)
        finally:
            watch.cancel()

    def _be_silent(self) -> None:
        shut_down(self)
        self.on_silence()


class _Lent(_Own):
    """A connection lent to one handler after another.

    Attributes:
        good_s: Time of the last successful check, on `time.monotonic`.
        has_session: False if a pooler assigns a server session per transaction. Its settings are shared with other
            clients, so nothing is reset.
        has_been_idle: True if it was outside of a transaction after a round trip.
        is_out_of_time: True if the server ended the session by a transaction timeout.
    """

    good_s = 0.0
    has_session = True
    has_been_idle = False
    is_out_of_time = False
    _settings: tuple[Any, ...] | None = None
    _at_start: dict[str, str]

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.good_s < _UNUSED_S

    def _remember(self) -> None:
        self._settings = _settings_of(self)
        self._at_start = _reported_by(self)

    def _lost_settings(self) -> dict[str, str]:
        reported = _reported_by(self)
        return {
            name: setting
            for name, setting in self._at_start.items()
            if reported.get(name, setting) != setting
        }


def _reported_by(connection: Any) -> dict[str, str]:
    """Return the session settings that the server reported last."""
    reported = {name: connection.info.parameter_status(name) for name in _OF_CLIENT}
    return {name: setting for name, setting in reported.items() if setting is not None}


def _settings_of(connection: Any) -> tuple[Any, ...]:
    """Return the connection attributes that a handler may change within a transaction."""
    return (
        connection.row_factory,
        connection.cursor_factory,
        connection.prepare_threshold,
        connection.prepared_max,
    )


def _restore(connection: Any, settings: tuple[Any, ...]) -> None:
    connection.row_factory, connection.cursor_factory = settings[:2]
    connection.prepare_threshold, connection.prepared_max = settings[2:]
    connection._adapters = None  # noqa: SLF001 - psycopg recreates it from its defaults
    connection._notice_handlers.clear()  # noqa: SLF001 - the public method needs each handler object
    connection._notify_handlers.clear()  # noqa: SLF001


def watch(connection: object) -> None:
    """Start to detect that a handler ends the transaction of its connection."""
    if isinstance(connection, _Lent):
        connection.has_been_idle = False


def has_ended(connection: object) -> bool:
    """True if the watched transaction has ended, even if another is open; unknown for a caller's pool."""
    return isinstance(connection, _Lent) and connection.has_been_idle


class HandlerConnection(_Lent, Noting):
    """A connection for `async def` handlers."""

    async def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Wait, and record a transaction timeout and idle states."""
        try:
            return await super().wait(*args, **kwargs)
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
            watch = asyncio.get_running_loop().call_later(_SIGN_S, shut_down, self)
            try:
                await AsyncConnectionPool.check_connection(self)
            finally:
                watch.cancel()
        self.good_s = time.monotonic()

    async def reset(self) -> None:
        """Reset the session and this object after a handler, or close the connection."""
        if self.closed or self._settings is None:
            return
        _restore(self, self._settings)
        if not self.has_session:
            return
        autocommit = self.autocommit
        watch = asyncio.get_running_loop().call_later(_SIGN_S, shut_down, self)
        try:
            await self.set_autocommit(True)
            await self.execute(_RESET, prepare=False)
            if lost := self._lost_settings():
                again = upkeep.set_settings(lost)
                # Not by a runner, which refuses the session as it is now.
                await self.execute(again.sql, again.parameters)
            await self.set_autocommit(autocommit)
        except (psycopg.Error, SluiceError):
            await self.close()
        finally:
            watch.cancel()


class ThreadConnection(_Lent, SyncNoting):
    """A connection for handlers in threads.

    Attributes:
        is_watched: True if this worker set `client_connection_check_interval` in the session.
    """

    is_watched = False
    _until_s: float | None = None

    def wait(self, gen: PQGen[Any], *args: Any, **kwargs: Any) -> Any:
        """Like `HandlerConnection.wait`; within `_hurried` for 5 seconds at most."""
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

    @contextlib.contextmanager
    def _hurried(self) -> Generator[None]:
        self._until_s = time.monotonic() + _SIGN_S
        try:
            yield
        finally:
            self._until_s = None

    def check(self) -> None:
        """Like `HandlerConnection.check`."""
        if self._settings is None:
            self._remember()
        if not self.is_fresh:
            with self._hurried():
                ConnectionPool.check_connection(self)
        self.good_s = time.monotonic()

    def reset(self) -> None:
        """Like `HandlerConnection.reset`."""
        if self.closed or self._settings is None:
            return
        _restore(self, self._settings)
        if not self.has_session:
            return
        autocommit = self.autocommit
        try:
            with self._hurried():
                self.set_autocommit(True)
                self.execute(_RESET_WATCHED if self.is_watched else _RESET, prepare=False)
                if lost := self._lost_settings():
                    again = upkeep.set_settings(lost)
                    self.execute(again.sql, again.parameters)
                self.set_autocommit(autocommit)
        except (psycopg.Error, SluiceError):
            self.close()


def _check_client_connection(connection: ThreadConnection) -> None:
    """Let the server cancel statements whose client is gone, where supported; elsewhere the client cancels them."""
    with contextlib.suppress(SluiceError), quiet(), connection.transaction():
        connection.is_watched = bool(Runner(connection).run(upkeep.check_client(_CLIENT_CHECK_MS)))


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
        self._engine_options = {**options, "session": own, "autocommit": True}
        self._threads_size = handlers_size if threads_size is None else threads_size
        self.engine = Pool[EngineConnection](
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
        self.consumers = Pool[HandlerConnection](
            conninfo,
            connection_class=HandlerConnection,
            configure=self._configure,
            check=HandlerConnection.check,
            min_size=0,
            max_size=consumers_size,
            kwargs={**self._options, "autocommit": True},
            timeout=_ENGINE_WAIT_S,
            reconnect_timeout=_RECONNECT_S,
            max_idle=_IDLE_S,
            reset=HandlerConnection.reset,
            name="consumers",
        )
        self._is_own = handlers is None
        self._handlers: AsyncConnectionPool[Any] = handlers or Pool[HandlerConnection](
            conninfo,
            connection_class=HandlerConnection,
            configure=self._configure,
            check=HandlerConnection.check,
            min_size=0,
            max_size=handlers_size,
            kwargs=self._options,
            reconnect_timeout=_RECONNECT_S,
            max_idle=_IDLE_S,
            name="handlers",
        )
        self._sync: SyncPool[ThreadConnection] | None = None
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
                link = ListenerConnection(connection, _ANSWER_S)
                if await link.is_direct():
                    return
                self._is_pooled = True
                self._configure_any(connection)
                async with await EngineConnection.connect(
                    self._conninfo, **self._engine_options
                ) as other:
                    self._configure_any(other)
                    self._is_lent = await is_lent(link, ListenerConnection(other, _SIGN_S))
        except psycopg.Error as error:
            raise translate(error) from error

    def _configure_any(self, connection: AsyncConnection[Any] | Connection[Any]) -> None:
        if self._is_pooled:
            connection.prepare_threshold = None  # prepared statements belong to one session
        if isinstance(connection, _Lent):
            connection.has_session = not self._is_lent

    async def _configure(self, connection: HandlerConnection) -> None:
        self._configure_any(connection)

    async def _configure_engine(self, connection: EngineConnection) -> None:
        self._configure_any(connection)
        connection.on_silence = self._replace_all

    def _configure_thread(self, connection: ThreadConnection) -> None:
        self._configure_any(connection)
        if not self._is_pooled:  # the setting would leak into a session of the pooler
            _check_client_connection(connection)

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
    async def lend(self) -> AsyncGenerator[AsyncConnection[Any]]:
        """Lend a connection to an `async def` handler; commit at the end, roll back after an exception.

        The session is reset afterwards. A caller's pool resets its own connections.
        """
        async with self._handlers.connection() as connection:
            if not self._is_own:
                close_in_forks(connection)
            try:
                yield connection
            finally:
                if isinstance(connection, HandlerConnection):
                    await connection.reset()
                elif connection.broken:  # a caller's pool may lend the other lost ones unchecked
                    await self._handlers.drain()

    @contextlib.contextmanager
    def lend_sync(self) -> Generator[Connection[Any]]:
        """Lend a connection to a handler in a thread, like `lend`."""
        with self._threads().connection() as connection:
            try:
                yield connection
            finally:
                connection.reset()

    def _threads(self) -> SyncPool[ThreadConnection]:
        with self._lock:
            if self._sync is None:
                self._sync = SyncPool[ThreadConnection](
                    self._conninfo,
                    connection_class=ThreadConnection,
                    check=ThreadConnection.check,
                    configure=self._configure_thread,
                    min_size=0,
                    max_size=self._threads_size,
                    kwargs=self._options,
                    reconnect_timeout=_RECONNECT_S,
                    max_idle=_IDLE_S,
                    name="threads",
                )
            return self._sync
