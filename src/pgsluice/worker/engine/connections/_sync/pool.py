# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""Connection pool that keeps reconnecting while a caller waits, and reports why no connection is available."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from typing import Any, Self, TypeVar

import psycopg
from psycopg import Connection
from psycopg_pool import ConnectionPool, PoolTimeout

from pgsluice.sessions import SluiceConnection
from pgsluice.worker.engine.connections.lost import is_read_only
from pgsluice.worker.engine.connections.pools import LastFailure, check_again_s, recorded

# A pool that could not connect for `reconnect_timeout` retries only on the next getconn, even while callers wait.
_RETRY_S = 2.0

Kind = TypeVar("Kind", bound=Connection[Any])


class PoolConnection(SluiceConnection):
    """A connection that records its connection failure, and its opening time on `time.monotonic`."""

    opened_s = 0.0

    @classmethod
    def connect(cls, *args: Any, **options: Any) -> Self:
        """Connect; record a failure in the option `last_failure`."""
        with recorded(options):
            connection = super().connect(*args, **options)
        connection.opened_s = time.monotonic()
        return connection


class Pool(ConnectionPool[Kind]):
    """A pool that keeps reconnecting while a caller waits, and reports why no connection is available.

    A lost connection is seldom the only one: a restart of the server ends them all. So the first one found lost
    replaces all idle connections, where psycopg's pool would find each in turn, with a pause after each.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        kwargs: dict[str, Any],
        check: Callable[[Kind], None] | None = None,
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

    def getconn(self, timeout: float | None = None) -> Kind:
        """Get a connection within `timeout`, default: the pool's."""
        seconds = self.timeout if timeout is None else timeout
        end_s = time.monotonic() + seconds
        failures = 0
        while True:
            rest_s = end_s - time.monotonic()
            try:
                connection = super().getconn(min(rest_s, _RETRY_S))
            except PoolTimeout:
                if rest_s <= _RETRY_S:
                    raise self._last_failure.timeout(seconds, self.max_size) from None
                continue
            if self._is_usable(connection):
                return connection
            time.sleep(check_again_s(failures, end_s))
            failures += 1

    def _is_usable(self, connection: Kind) -> bool:
        """Check a connection; if it is lost, return it and replace the idle ones."""
        if self._is_good is None:
            return True
        try:
            self._is_good(connection)
        except psycopg.Error:
            connection.close()
            self._replace_idle(connection)
            self._putconn(connection, from_getconn=True)  # without psycopg's warning
            return False
        except BaseException:
            self.putconn(connection)
            raise
        return True

    def _replace_idle(self, lost: Kind) -> None:
        """Replace the idle connections, unless that was done since the lost one was opened."""
        if getattr(lost, "opened_s", 0.0) >= self._replaced_s:
            self._replaced_s = time.monotonic()
            self.drain()

    @contextlib.contextmanager
    def connection(
        self,
        timeout: float | None = None,
    ) -> Generator[Kind]:
        """Lend a connection for the block; close it afterwards if its server is read-only."""
        with super().connection(timeout) as connection:
            try:
                yield connection
            except Exception as error:
                if is_read_only(error):
                    connection.close()  # the next one may reach the primary
                elif self._is_good is None and connection.broken:
                    self._replace_idle(connection)
                raise
