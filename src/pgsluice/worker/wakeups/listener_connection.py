"""Connection of a listener with a response timeout."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

import psycopg

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import Call
from pgsluice.client.calls import listeners as calls
from pgsluice.errors import ConnectionFailedError, SluiceError, translate
from pgsluice.sessions import AsyncSluiceConnection
from pgsluice.worker.forks import close_in_forks

Result = TypeVar("Result")

_LENT_CHECKS_MAX = 3


class ListenerConnection:
    """A connection to the server in autocommit mode.

    Attributes:
        connection: The psycopg connection.
        answer_s: Response timeout in seconds.
    """

    def __init__(self, connection: psycopg.AsyncConnection[Any], answer_s: float) -> None:
        """Wrap a connection with a response timeout in seconds."""
        self.connection = connection
        self.answer_s = answer_s

    async def run(self, call: Call[Result]) -> Result:
        """Run a call with the response timeout.

        Raises:
            ConnectionFailedError: It timed out; the connection is shut down.
            SluiceError: A database error.
        """
        with _cut_after(self.connection, self.answer_s) as cut:
            try:
                return await AsyncRunner(self.connection).run(call)
            except SluiceError as error:
                if not cut.is_done:
                    raise
                raise ConnectionFailedError(
                    f"the server did not respond within {self.answer_s:g} s; check the network"
                ) from error

    async def is_direct(self) -> bool:
        """True if no pooler is in between: the backend's pid equals that reported at connection start."""
        return await self.run(calls.backend_pid()) == self.connection.info.backend_pid


@contextlib.asynccontextmanager
async def connected_listener(
    conninfo: str, *, answer_s: float, connect_timeout_s: int
) -> AsyncIterator[ListenerConnection]:
    """Open a connection.

    Raises:
        ConnectionFailedError: The connection failed.
    """
    try:
        connection = await AsyncSluiceConnection.connect(
            conninfo,
            autocommit=True,
            prepare_threshold=None,  # in case of a pooler
            connect_timeout=connect_timeout_s,
            fallback_application_name="pgsluice listener",
        )
    except psycopg.Error as error:
        raise translate(error) from error
    close_in_forks(connection)
    try:
        yield ListenerConnection(connection, answer_s)
    finally:
        await connection.close()


async def is_lent(link: ListenerConnection, other: ListenerConnection) -> bool:
    """True if a pooler reassigns server sessions between transactions.

    False is not certain: under load the sessions may happen to be the same each time.
    """
    # A pooler in session mode may have no session left for the other connection, and let it wait.
    with (
        contextlib.suppress(SluiceError, psycopg.Error),
        _cut_after(other.connection, other.answer_s),
    ):
        for _ in range(_LENT_CHECKS_MAX):
            before = await link.run(calls.backend_pid())
            async with other.connection.transaction():
                # It gets the session released last, or the first connection gets another one meanwhile.
                if await other.run(calls.backend_pid()) == before:
                    return True
                if await link.run(calls.backend_pid()) != before:
                    return True
    return False


def shut_down(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Shut the socket of a connection down from another thread or task: waits on it fail, and the server notices."""
    with (
        contextlib.suppress(OSError, psycopg.Error),  # already closed
        socket.socket(fileno=os.dup(connection.fileno())) as copy,
    ):
        copy.shutdown(socket.SHUT_RDWR)


class _Cut:
    """Flag set when the response timeout shuts the connection down."""

    is_done = False


@contextlib.contextmanager
def _cut_after(connection: psycopg.AsyncConnection[Any], seconds: float) -> Iterator[_Cut]:
    """Shut the connection down if the block exceeds the timeout; psycopg itself has no response timeout."""
    cut = _Cut()

    def end() -> None:
        cut.is_done = True
        shut_down(connection)

    timer = asyncio.get_running_loop().call_later(seconds, end)
    try:
        yield cut
    finally:
        timer.cancel()


@contextlib.contextmanager
def input_of(
    connection: psycopg.AsyncConnection[Any],
    dispatch: Callable[[], None],
    failed: Callable[[], None],
) -> Iterator[None]:
    """Read what the server sends, in a callback of the event loop: a wake-up passes through one task less.

    Args:
        connection: An idle connection.
        dispatch: Called after each read.
        failed: Called if the connection failed; the block must end then.

    Raises:
        SluiceError: The connection failed.
    """
    failures: list[psycopg.Error] = []
    loop, fileno = asyncio.get_running_loop(), connection.fileno()

    def read() -> None:
        try:
            connection.pgconn.consume_input()
            dispatch()
        except psycopg.Error as error:
            loop.remove_reader(fileno)  # libpq has closed it
            failures.append(error)
            failed()

    loop.add_reader(fileno, read)
    try:
        yield
    finally:
        loop.remove_reader(fileno)
    if failures:
        raise translate(failures[0]) from failures[0]
