"""Several tables of Spark as one moment has them.

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
    """What the database looks like at one moment.

    Attributes:
        id: Its name, for `set transaction snapshot`.
        access: How to reach the database; it holds no password.
    """

    id: str
    access: Access

    @property
    def options(self) -> dict[str, str]:
        """The options with which the format `pgsluice` reads what it sees."""
        return {**self.access.options(), "snapshot": self.id}


@contextmanager
def shared_snapshot(dsn: str | None = None) -> Iterator[SharedSnapshot]:
    """Hold a snapshot of the database for all tasks of Spark, on every machine, until the block ends.

    Spark reads when it is asked for a result: ask inside the block. An open snapshot keeps vacuum from removing what
    it sees, so keep the block short.

    Args:
        dsn: Where to connect; `pgsluice.connection` decides when it is None. A password in it is handed to Spark's
            workers through a file that only this user can read: on other machines use the option `dsnFile` or
            `dsnEnv` instead of these options' own.

    Raises:
        ConnectionFailedError: The server cannot be reached.
    """
    with ExitStack() as cleanup:
        access = access_for(dsn, cleanup)
        database = cleanup.enter_context(driver_connection(access))
        database.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        database.read_only = True
        prepare(database, spark_reading.STAY_OPEN, access.conninfo())
        yield SharedSnapshot(run(database, calls.export_snapshot(), access.conninfo()), access)
