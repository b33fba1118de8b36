"""Connection pools that keep reconnecting while a caller waits, and report why no connection is available."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.abc import PQGen
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from pgsluice.backoff import next_delay_s
from pgsluice.errors import one_line
from pgsluice.sessions import AsyncSluiceConnection, SluiceConnection
from pgsluice.worker.engine.connections.lost import is_read_only

# A pool that could not connect for `reconnect_timeout` retries only on the next getconn, even while callers wait.
_ASK_AGAIN_S = 2.0

AsyncKind = TypeVar("AsyncKind", bound=AsyncConnection[Any])
Kind = TypeVar("Kind", bound=Connection[Any])


@dataclass(slots=True)
class LastFailure:
    """The last connection failure of a pool.

    Attributes:
        error: The error, or None after a success.
    """

    error: psycopg.Error | None = None

    @contextlib.contextmanager
    def recorded(self) -> Generator[None]:
        """Record whether the block fails."""
        try:
            yield
        except psycopg.Error as error:
            self.error = error
            raise
        self.error = None

    def timeout(self, seconds: float, qty: int) -> PoolTimeout:
        """Return the error of a caller whose timeout expired.

        Args:
            seconds: The timeout.
            qty: Maximum size of the pool.
        """
        reason = (
            f"all {qty} connections of this pool are in use (see --max-connections)"
            if self.error is None
            else one_line(str(self.error))
        )
        return PoolTimeout(f"no connection within {seconds:.0f} s: {reason}")


class PoolConnection(AsyncSluiceConnection):
    """A connection that records its connection failure, and its opening time on `time.monotonic`."""

    opened_s = 0.0

    @classmethod
    async def connect(cls, *args: Any, **options: Any) -> Self:
        """Connect; record a failure in the option `last_failure`."""
        with _recorded(options):
            connection = await super().connect(*args, **options)
        connection.opened_s = time.monotonic()
        return connection


class SyncPoolConnection(SluiceConnection):
    """Like `PoolConnection`, for threads."""

    opened_s = 0.0

    @classmethod
    def connect(cls, *args: Any, **options: Any) -> Self:
        """Connect; record a failure in the option `last_failure`."""
        with _recorded(options):
            connection = super().connect(*args, **options)
        connection.opened_s = time.monotonic()
        return connection


def _recorded(options: dict[str, Any]) -> contextlib.AbstractContextManager[None]:
    last_failure: LastFailure = options.pop("last_failure", None) or LastFailure()
    return last_failure.recorded()


class Pool(AsyncConnectionPool[AsyncKind]):
    """A pool that keeps reconnecting while a caller waits, and reports why no connection is available.

    A lost connection is seldom the only one: a restart of the server ends them all. So the first one found lost
    replaces all idle connections, where psycopg's pool would find each in turn, with a pause after each.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        kwargs: dict[str, Any],
        check: Callable[[AsyncKind], Awaitable[None]] | None = None,
        **options: Any,
    ) -> None:
        """Prepare the pool; `options` as for psycopg's pool.

        Args:
            conninfo: Connection string.
            kwargs: Options of each connection.
            check: Checks a connection before it is lent, and raises an error if it is lost.
            options: Further options of the pool.
        """
        self._last_failure = LastFailure()
        self._is_good = check
        self._replaced_s = 0.0
        super().__init__(
            conninfo, kwargs=kwargs | {"last_failure": self._last_failure}, open=False, **options
        )

    async def getconn(self, timeout: float | None = None) -> AsyncKind:  # noqa: ASYNC109 - psycopg's
        """Get a connection within `timeout`, default: the pool's."""
        seconds = self.timeout if timeout is None else timeout
        end_s = time.monotonic() + seconds
        failures = 0
        while True:
            rest_s = end_s - time.monotonic()
            try:
                connection = await super().getconn(min(rest_s, _ASK_AGAIN_S))
            except PoolTimeout:
                if rest_s <= _ASK_AGAIN_S:
                    raise self._last_failure.timeout(seconds, self.max_size) from None
                continue
            if await self._is_usable(connection):
                return connection
            await asyncio.sleep(_check_again_s(failures, end_s))
            failures += 1

    async def _is_usable(self, connection: AsyncKind) -> bool:
        """Check a connection; if it is lost, return it and replace the idle ones."""
        if self._is_good is None:
            return True
        try:
            await self._is_good(connection)
        except psycopg.Error:
            await connection.close()
            await self._replace_idle(connection)
            await self._putconn(connection, from_getconn=True)  # without psycopg's warning
            return False
        except BaseException:
            await self.putconn(connection)
            raise
        return True

    async def _replace_idle(self, lost: AsyncKind) -> None:
        """Replace the idle connections, unless that was done since the lost one was opened."""
        if getattr(lost, "opened_s", 0.0) >= self._replaced_s:
            self._replaced_s = time.monotonic()
            await self.drain()

    @contextlib.asynccontextmanager
    async def connection(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - psycopg's
    ) -> AsyncGenerator[AsyncKind]:
        """Lend a connection for the block; close it afterwards if its server is read-only."""
        async with super().connection(timeout) as connection:
            try:
                yield connection
            except Exception as error:
                if is_read_only(error):
                    await connection.close()  # the next one may reach the primary
                elif self._is_good is None and connection.broken:
                    await self._replace_idle(connection)
                raise


class SyncPool(ConnectionPool[Kind]):
    """Like `Pool`, for threads."""

    def __init__(
        self,
        conninfo: str,
        *,
        kwargs: dict[str, Any],
        check: Callable[[Kind], None],
        **options: Any,
    ) -> None:
        """Prepare and open the pool; the arguments are those of `Pool`."""
        self._last_failure = LastFailure()
        self._is_good = check
        self._replaced_s = 0.0
        super().__init__(
            conninfo, kwargs=kwargs | {"last_failure": self._last_failure}, open=True, **options
        )

    def getconn(self, timeout: float | None = None) -> Kind:
        """Get a connection within `timeout`, default: the pool's."""
        seconds = self.timeout if timeout is None else timeout
        end_s = time.monotonic() + seconds
        failures = 0
        while True:
            rest_s = end_s - time.monotonic()
            try:
                connection = super().getconn(min(rest_s, _ASK_AGAIN_S))
            except PoolTimeout:
                if rest_s <= _ASK_AGAIN_S:
                    raise self._last_failure.timeout(seconds, self.max_size) from None
                continue
            if self._is_usable(connection):
                return connection
            time.sleep(_check_again_s(failures, end_s))
            failures += 1

    def _is_usable(self, connection: Kind) -> bool:
        """Like `Pool._is_usable`."""
        try:
            self._is_good(connection)
        except psycopg.Error:
            connection.close()
            self._replace_idle(connection)
            self._putconn(connection, from_getconn=True)
            return False
        except BaseException:
            self.putconn(connection)
            raise
        return True

    def _replace_idle(self, lost: Kind) -> None:
        """Like `Pool._replace_idle`."""
        if getattr(lost, "opened_s", 0.0) >= self._replaced_s:
            self._replaced_s = time.monotonic()
            self.drain()

    @contextlib.contextmanager
    def connection(self, timeout: float | None = None) -> Generator[Kind]:
        """Like `Pool.connection`."""
        with super().connection(timeout) as connection:
            try:
                yield connection
            except Exception as error:
                if is_read_only(error):
                    connection.close()
                raise


def end_at(gen: PQGen[Any], until_s: float) -> PQGen[Any]:
    """Raise OperationalError if the exchange is not done at `until_s`; psycopg polls ten times a second."""
    try:
        awaited = next(gen)
        while True:
            ready = yield awaited
            if time.monotonic() > until_s:
                gen.close()
                raise psycopg.OperationalError("the server did not respond")
            awaited = gen.send(ready)
    except StopIteration as end:
        return end.value


def _check_again_s(failures: int, end_s: float) -> float:
    """Return the delay after a failed check: 0 after the first, as its successor is new."""
    return max(0.0, min(next_delay_s(failures, delay_max_s=1.0), end_s - time.monotonic()))


async def given(value: Any) -> Any:
    """Return an argument of a pool, or the result if it is a callable."""
    made = value() if callable(value) else value
    return await made if inspect.isawaitable(made) else made
