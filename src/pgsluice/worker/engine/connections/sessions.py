"""Connections of a worker: those of the engine, and those lent to one handler after another."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Generator, Iterator
from contextvars import ContextVar
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import upkeep
from pgsluice.errors import SluiceError
from pgsluice.tracing.switch import quiet
from pgsluice.worker.engine.connections._async.pool import AsyncPoolConnection
from pgsluice.worker.engine.connections._sync.pool import PoolConnection
from pgsluice.worker.engine.connections.lost import OUT_OF_TIME
from pgsluice.worker.engine.connections.pools import end_at
from pgsluice.worker.forks import close_in_forks
from pgsluice.worker.wakeups.listener_connection import shut_down

# An engine statement takes milliseconds. No response for this long means a lost server, which neither TCP nor a pooler
# may ever report. Preparing a queue is exempt: it may build an index.
ANSWER_S = 15.0
_unhurried: ContextVar[bool] = ContextVar("unhurried", default=False)
# A handler connection unused for this long is checked before it is lent, with a timeout of SIGN_S.
_UNUSED_S = 1.0
SIGN_S = 5.0
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


class EngineConnection(_Own, AsyncPoolConnection):
    """A connection that is shut down when the server does not respond.

    Attributes:
        on_silence: Called after the shutdown.
    """

    on_silence: Callable[[], None] = staticmethod(lambda: None)

    async def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Wait with a timeout; shut the socket down, because a cancelled wait would also wait for the server."""
        if _unhurried.get():
            return await super().wait(*args, **kwargs)
        watch = asyncio.get_running_loop().call_later(ANSWER_S, self._be_silent)
        try:
            return await super().wait(*args, **kwargs)
        finally:
            watch.cancel()

    def _be_silent(self) -> None:
        shut_down(self)
        self.on_silence()


class LentConnection(_Own):
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
    if isinstance(connection, LentConnection):
        connection.has_been_idle = False


def has_ended(connection: object) -> bool:
    """True if the watched transaction has ended, even if another is open; unknown for a caller's pool."""
    return isinstance(connection, LentConnection) and connection.has_been_idle


class HandlerConnection(LentConnection, AsyncPoolConnection):
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
            watch = asyncio.get_running_loop().call_later(SIGN_S, shut_down, self)
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
        watch = asyncio.get_running_loop().call_later(SIGN_S, shut_down, self)
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


class ThreadConnection(LentConnection, PoolConnection):
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
        self._until_s = time.monotonic() + SIGN_S
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


def check_client_connection(connection: ThreadConnection) -> None:
    """Let the server cancel statements whose client is gone, where supported; elsewhere the client cancels them."""
    with contextlib.suppress(SluiceError), quiet(), connection.transaction():
        connection.is_watched = bool(Runner(connection).run(upkeep.check_client(_CLIENT_CHECK_MS)))
