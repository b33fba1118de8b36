"""A queue's archive into a Delta table: the pipeline `archive`.

archive("invoices", "/lake/invoices")   # what is new since the last time
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from pgsluice.client.calls import spark as calls
from pgsluice.spark.access import driver_connection, run
from pgsluice.spark.lake.reading import row_count
from pgsluice.spark.patience import patiently
from pgsluice.spark.pipelines.places import access_for, folder, session_for
from pgsluice.spark.session import require_extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def archive(
    queue: str,
    lake: str | Path,
    *,
    table: str = "archive",
    dsn: str | None = None,
    partitions: int | None = None,
    spark: SparkSession | None = None,
) -> int:
    """Copy the rows of an archive, or of a queue, that a Delta table does not hold yet.

    All rows are read as one transaction sees them, and arrive in one commit. Run again, after a crash
    too, it adds what has come since. A row is known by msg_id and enqueued_at; of a queue's row the lake
    keeps the state in which it was first seen.

    Args:
        queue: An existing queue.
        lake: The table's folder; made when it is not there. One queue for one table.
        table: `archive` or `queue`.
        dsn, partitions, spark: See `events`.

    Returns:
        How many rows were added; 0 too when another copy added them at the same time.

    Raises:
        QueueNotFoundError: There is no such queue.
        ConfigurationError: The table has other columns.
    """
    require_extra()
    from deltalake import DeltaTable

    place = folder(lake, "lake")
    with ExitStack() as cleanup:
        access = access_for(dsn, cleanup)
        database = cleanup.enter_context(driver_connection(access))
        # Only as long as this transaction lives can Spark's workers see what it sees.
        database.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        database.read_only = True
        run(database, calls.queue_slices(queue, table, 1, ["msg_id"]), access.conninfo())
        snapshot = run(database, calls.export_snapshot(), access.conninfo())
        session = session_for(spark, "pgsluice archive")
        options = {
            **access.options(),
            "queue": queue,
            "table": table,
            "snapshot": snapshot,
            "numPartitions": str(partitions or session.sparkContext.defaultParallelism),
        }
        rows = patiently(lambda: session.read.format("pgsluice").options(**options).load())
        app_id = f"pgsluice:{table}:{queue}"
        version, before = 0, 0
        if DeltaTable.is_deltatable(str(place)):
            there = DeltaTable(str(place))
            before = row_count(there)
            last = there.transaction_version(app_id)
            version = 0 if last is None else last + 1
            if there.file_uris():
                known = session.read.schema("msg_id bigint, enqueued_at timestamp").parquet(
                    *there.file_uris()
                )
                rows = rows.join(known, ["msg_id", "enqueued_at"], "left_anti").select(
                    *rows.columns
                )
        writer = rows.write.format("pgsluice-delta").mode("append")
        writer = writer.option("txnAppId", app_id).option("txnVersion", str(version))
        patiently(lambda: writer.save(str(place)))
    return row_count(DeltaTable(str(place))) - before
