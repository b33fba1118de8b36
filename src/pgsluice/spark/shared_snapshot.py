"""Consistent reads of several tables with Spark in one exported snapshot.

with shared_snapshot() as snapshot:
    options = {**snapshot.options, "queue": "orders"}
    waiting = spark.read.format("pgsluice").options(**options).load()
    archived = spark.read.format("pgsluice").options(**options, table="archive").load()
    waiting.unionByName(archived, allowMissingColumns=True).write...  # each message once
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import psycopg

from pgsluice.client.calls import spark as calls
from pgsluice.client.calls import spark_reading
from pgsluice.spark.access import Access, access_for, driver_connection, prepare, run


@dataclass(frozen=True, slots=True)
class SharedSnapshot:
    """Exported snapshot of the database.

    Attributes:
        id: Snapshot id for `set transaction snapshot`.
        access: Address of the database, without password.
    """

    id: str
    access: Access

    @property
    def options(self) -> dict[str, str]:
        """Options of the format `pgsluice` for reading in this snapshot."""
        return {**self.access.options(), "snapshot": self.id}


@contextmanager
def shared_snapshot(dsn: str | None = None) -> Iterator[SharedSnapshot]:
    """Export a snapshot for all Spark tasks, on every machine, and hold it open for the duration of the block.

    Spark is lazy: collect results inside the block. An open snapshot holds back the xmin horizon, so vacuum cannot
    remove dead rows; keep the block short.

    Args:
        dsn: Connection string; None to resolve it as `pgsluice.connection` does. A password is passed to Spark's
            workers in a file that only this user can read; on other machines, replace it with the option `dsnFile` or
            `dsnEnv`.

    Raises:
        ConnectionFailedError: The server is unreachable.
    """
    with ExitStack() as cleanup:
        access = access_for(dsn, cleanup)
        database = cleanup.enter_context(driver_connection(access))
        database.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        database.read_only = True
        prepare(database, spark_reading.STAY_OPEN, access.conninfo())
        yield SharedSnapshot(run(database, calls.export_snapshot(), access.conninfo()), access)
