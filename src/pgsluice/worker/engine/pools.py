"""Connection pools that keep reconnecting while a caller waits, and report why no connection is available."""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from pgsluice.errors import one_line
from pgsluice.worker.engine.lost_sessions import is_read_only

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
    def noted(self) -> Generator[None]:
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


class Noting(AsyncConnection[Any]):
    """A connection that records its connection failure."""

    @classmethod
    async def connect(cls, *args: Any, **options: Any) -> Self:
        """Connect; record a failure in the option `last_failure`."""
        with _noted(options):
            return await super().connect(*args, **options)


class SyncNoting(Connection[Any]):
    """Like `Noting`, for threads."""

    @classmethod
    def connect(cls, *args: Any, **options: Any) -> Self:
        """Connect; record a failure in the option `last_failure`."""
        with _noted(options):
            return super().connect(*args, **options)


def _noted(options: dict[str, Any]) -> contextlib.AbstractContextManager[None]:
    last_failure: LastFailure = options.pop("last_failure", None) or LastFailure()
    return last_failure.noted()


class Pool(AsyncConnectionPool[AsyncKind]):
    """A pool that keeps reconnecting while a caller waits, and reports why no connection is available."""

    def __init__(self, conninfo: str, *, kwargs: dict[str, Any], **options: Any) -> None:
        """Prepare the pool; `options` as for psycopg's pool."""
        self._last_failure = LastFailure()
        super().__init__(
            conninfo, kwargs=kwargs | {"last_failure": self._last_failure}, open=False, **options
        )

    async def getconn(self, timeout: float | None = None) -> AsyncKind:  # noqa: ASYNC109 - psycopg's
        """Get a connection within `timeout`, default: the pool's."""
        seconds = self.timeout if timeout is None else timeout
        end_s = time.monotonic() + seconds
        while True:
            rest_s = end_s - time.monotonic()
            try:
                return await super().getconn(min(rest_s, _ASK_AGAIN_S))
            except PoolTimeout:
                if rest_s <= _ASK_AGAIN_S:
                    raise self._last_failure.timeout(seconds, self.max_size) from None

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
                raise


class SyncPool(ConnectionPool[Kind]):
    """Like `Pool`, for threads."""

    def __init__(self, conninfo: str, *, kwargs: dict[str, Any], **options: Any) -> None:
        """Prepare and open the pool; `options` as for psycopg's pool."""
        self._last_failure = LastFailure()
        super().__init__(
            conninfo, kwargs=kwargs | {"last_failure": self._last_failure}, open=True, **options
        )

    def getconn(self, timeout: float | None = None) -> Kind:
        """Get a connection within `timeout`, default: the pool's."""
        seconds = self.timeout if timeout is None else timeout
        end_s = time.monotonic() + seconds
        while True:
            rest_s = end_s - time.monotonic()
            try:
                return super().getconn(min(rest_s, _ASK_AGAIN_S))
            except PoolTimeout:
                if rest_s <= _ASK_AGAIN_S:
                    raise self._last_failure.timeout(seconds, self.max_size) from None

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


async def given(value: Any) -> Any:
    """Return an argument of a pool, or the result if it is a callable."""
    made = value() if callable(value) else value
    return await made if inspect.isawaitable(made) else made
