"""A connection of the driver that outlives the server's restarts."""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg

from pgsluice.backoff import Backoff
from pgsluice.client.calls import Call
from pgsluice.errors import ConnectionFailedError
from pgsluice.spark.access import Access, driver_connection, run

Result = TypeVar("Result")

_DEADLINE_S = 60.0


class LastingConnection:
    """Runs calls, after a lost connection or a conflict again; so each must be one that may be run twice.

    It may be pickled, which leaves the connection behind: Spark copies its readers to the executors.
    """

    def __init__(self, access: Access) -> None:
        self.access = access
        self._connection: psycopg.Connection[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    def run(self, call: Call[Result]) -> Result:
        """Run a call.

        A first connection that fails is not retried: the address or the password may be wrong, and the query's
        owner should learn of it.

        Raises:
            SluiceError: What the server said; ConnectionFailedError when it did not come back within a minute.
        """
        self._connect()
        return Backoff(deadline_s=_DEADLINE_S).retry(lambda: self._run(call))

    def _run(self, call: Call[Result]) -> Result:
        try:
            return run(self._connect(), call, self.access.conninfo())
        except ConnectionFailedError:
            self.close()
            raise

    def _connect(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            self._connection = driver_connection(self.access, autocommit=True)
        return self._connection

    def close(self) -> None:
        """Close the connection; the next call makes one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
