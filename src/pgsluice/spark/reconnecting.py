"""Reconnecting database connection for the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import psycopg

from pgsluice.backoff import Backoff
from pgsluice.client.calls import Call
from pgsluice.errors import ConnectionFailedError
from pgsluice.spark.access import Access, driver_connection, run

Result = TypeVar("Result")

_DEADLINE_S = 60.0


class ReconnectingConnection:
    """Connection that retries idempotent calls after transient errors, and reconnects if necessary.

    Pickling drops the open connection; Spark copies readers to the executors.

    Args:
        access: Address of the database.
        prepare: Called with each new connection.
        options: See `connection.connect`.
    """

    def __init__(
        self,
        access: Access,
        prepare: Callable[[psycopg.Connection[Any]], None] | None = None,
        **options: Any,
    ) -> None:
        self.access = access
        self._prepare = prepare
        self._options = options
        self._connection: psycopg.Connection[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    @property
    def is_open(self) -> bool:
        """True between a successful call and `close`."""
        return self._connection is not None

    def open(self) -> psycopg.Connection[Any]:
        """Connect if necessary, and return the connection."""
        if self._connection is None:
            connection = driver_connection(self.access, autocommit=True, **self._options)
            try:
                if self._prepare is not None:
                    self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def run(self, call: Call[Result]) -> Result:
        """Run an idempotent call.

        A failed first connection attempt is not retried, so that a wrong address or password is reported immediately.

        Raises:
            SluiceError: Error of the server; ConnectionFailedError if it is unreachable for a minute.
        """
        self.open()
        return Backoff(deadline_s=_DEADLINE_S).retry(lambda: self._run(call))

    def _run(self, call: Call[Result]) -> Result:
        try:
            return run(self.open(), call, self.access.conninfo())
        except ConnectionFailedError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next call reconnects."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
