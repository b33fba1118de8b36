"""A connection of the driver that outlives the server's restarts."""

from __future__ import annotations

import threading
import time
from typing import Any, TypeVar

import psycopg

from pgsluice.client.calls import Call
from pgsluice.errors import ConnectionFailedError, RetryableError, SluiceError
from pgsluice.spark.access import Access, driver_connection, run

Result = TypeVar("Result")

_DEADLINE_S = 60.0
_PAUSE_MAX_S = 2.0


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

        A first connection that fails is not tried again: the address or the password may be wrong, and the
        query's owner should hear of it.

        Raises:
            SluiceError: What the server said; ConnectionFailedError when it did not come back within a minute.
        """
        deadline = time.monotonic() + _DEADLINE_S
        was_connected = self._connection is not None
        pause_s = 0.1
        while True:
            try:
                if self._connection is None:
                    self._connection = driver_connection(self.access, autocommit=True)
                    was_connected = True
                return run(self._connection, call, self.access.conninfo())
            except SluiceError as error:
                failure = error
            lost = isinstance(failure, ConnectionFailedError)
            if lost:
                self.close()
            may_pass = was_connected and (lost or isinstance(failure, RetryableError))
            if not may_pass or time.monotonic() + pause_s > deadline:
                # Without the chain: Spark prints it whole into its logs.
                raise failure from None
            # The server is starting, or full: ask again a little later.
            threading.Event().wait(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def close(self) -> None:
        """Close the connection; the next call makes one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
