"""A listener's connection: it answers in time, or it is cut."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar

import psycopg

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import Call
from pgsluice.client.calls import listeners as calls
from pgsluice.errors import ConnectionFailedError, SluiceError, translate
from pgsluice.worker.forks import close_in_forks

Result = TypeVar("Result")

_LENT_LOOKS = 3


class Link:
    """A connection to the server in autocommit mode.

    Attributes:
        connection: psycopg's.
        answer_s: How long the server has for an answer, seconds.
    """

    def __init__(self, connection: psycopg.AsyncConnection[Any], answer_s: float) -> None:
        """Wrap a connection whose server is to answer within so many seconds."""
        self.connection = connection
        self.answer_s = answer_s

    async def ask(self, call: Call[Result]) -> Result:
        """Run a call that must be answered in time.

        Raises:
            ConnectionFailedError: It was not; the connection is cut.
            SluiceError: The server failed.
        """
        with _cut_after(self.connection, self.answer_s) as cut:
            try:
                return await AsyncRunner(self.connection).run(call)
            except SluiceError as error:
                if not cut.is_done:
                    raise
                raise ConnectionFailedError(
                    f"the server did not answer within {self.answer_s:g} s; check the network between"
                ) from error

    async def is_direct(self) -> bool:
        """Whether the session is the one that was announced when the connection was made: no pooler is between."""
        return await self.ask(calls.backend_pid()) == self.connection.info.backend_pid


@contextlib.asynccontextmanager
async def linked(conninfo: str, *, answer_s: float, connect_timeout_s: int) -> AsyncIterator[Link]:
    """A connection of its own.

    Raises:
        ConnectionFailedError: There is none to be had.
    """
    try:
        connection = await psycopg.AsyncConnection.connect(
            conninfo,
            autocommit=True,
            prepare_threshold=None,  # it may be a pooler, which is yet to be found out
            connect_timeout=connect_timeout_s,
            fallback_application_name="pgsluice listener",
        )
    except psycopg.Error as error:
        raise translate(error) from error
    close_in_forks(connection)
    try:
        yield Link(connection, answer_s)
    finally:
        await connection.close()


async def is_lent(link: Link, other: Link) -> bool:
    """Whether a pooler gives the server's session of one connection to another one between two transactions.

    False is no proof: the sessions may have come back to where they were each time, as when many use the pooler.
    """
    # A pooler that lends for a session may have none left for the other one, and let it wait.
    with (
        contextlib.suppress(SluiceError, psycopg.Error),
        _cut_after(other.connection, other.answer_s),
    ):
        for _ in range(_LENT_LOOKS):
            before = await link.ask(calls.backend_pid())
            async with other.connection.transaction():
                # It is given the session that came back last; or else the first one may be given another one meanwhile.
                if await other.ask(calls.backend_pid()) == before:
                    return True
                if await link.ask(calls.backend_pid()) != before:
                    return True
    return False


def shut_down(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """End a connection from outside: a thread or task that waits on it finds it closed, and so does the server."""
    with (
        contextlib.suppress(OSError, psycopg.Error),  # it is closed already
        socket.socket(fileno=os.dup(connection.fileno())) as copy,
    ):
        copy.shutdown(socket.SHUT_RDWR)


class _Cut:
    """Whether a connection was cut because an answer took too long."""

    is_done = False


@contextlib.contextmanager
def _cut_after(connection: psycopg.AsyncConnection[Any], seconds: float) -> Iterator[_Cut]:
    """Cut a connection when the block takes longer: psycopg itself waits for an answer for ever."""
    cut = _Cut()

    def end() -> None:
        cut.is_done = True
        shut_down(connection)

    timer = asyncio.get_running_loop().call_later(seconds, end)
    try:
        yield cut
    finally:
        timer.cancel()
