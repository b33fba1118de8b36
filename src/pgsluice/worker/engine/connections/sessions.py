"""Connections of a worker: those of the engine, and those lent to one handler after another."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import psycopg
from psycopg import Connection

from pgsluice.worker.engine.connections._async.pool import AsyncPoolConnection
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
RESET = (
    "close all; reset session authorization; reset all; unlisten *; select pg_advisory_unlock_all(); "
    "discard temp; discard sequences"
)
# Settings in the startup packet. A pooler sets these later, so RESET ALL loses them.
_OF_CLIENT = ("application_name", "client_encoding", "DateStyle", "TimeZone")
_CANCEL_S = 2.0
CLIENT_CHECK_MS = 2_000
RESET_WATCHED = f"{RESET}; set client_connection_check_interval = {CLIENT_CHECK_MS}"


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


class Lendable(_Own):
    """A connection lent to one handler after another.

    Attributes:
        good_s: Time of the last successful check, on `time.monotonic`.
        has_session: False if a pooler assigns a server session per transaction. Its settings are shared with other
            clients, so nothing is reset.
        has_been_idle: True if it was outside of a transaction after a round trip.
        is_out_of_time: True if the server ended the session by a transaction timeout.
        is_watched: True if this worker set `client_connection_check_interval` in the session.
    """

    good_s = 0.0
    has_session = True
    has_been_idle = False
    is_out_of_time = False
    is_watched = False
    _until_s: float | None = None
    _settings: tuple[Any, ...] | None = None
    _at_start: dict[str, str]

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.good_s < _UNUSED_S

    @contextlib.contextmanager
    def _hurried(self) -> Iterator[None]:
        """Let statements of the block wait for the server 5 seconds at most."""
        self._until_s = time.monotonic() + SIGN_S
        try:
            yield
        finally:
            self._until_s = None

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


def restore(connection: Any, settings: tuple[Any, ...]) -> None:
    connection.row_factory, connection.cursor_factory = settings[:2]
    connection.prepare_threshold, connection.prepared_max = settings[2:]
    connection._adapters = None  # noqa: SLF001 - psycopg recreates it from its defaults
    connection._notice_handlers.clear()  # noqa: SLF001 - the public method needs each handler object
    connection._notify_handlers.clear()  # noqa: SLF001


def watch(connection: object) -> None:
    """Start to detect that a handler ends the transaction of its connection."""
    if isinstance(connection, Lendable):
        connection.has_been_idle = False


def has_ended(connection: object) -> bool:
    """True if the watched transaction has ended, even if another is open; unknown for a caller's pool."""
    return isinstance(connection, Lendable) and connection.has_been_idle
