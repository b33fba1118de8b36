"""The outcome of each message of some queues, from the lake and from PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from pgsluice.errors import ConfigurationError
from pgsluice.lake.address import IcebergAddress, IcebergNamespace
from pgsluice.lake.storage import Folder
from pgsluice.lake.tables import Place, exists
from pgsluice.spark.lake_reading import read_iceberg, read_table
from pgsluice.spark.shared_snapshot import SharedSnapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Columns without the payload.
_KNOWN = ("msg_id", "enqueued_at")
_TYPES = "msg_id bigint, read_ct int, enqueued_at timestamp, last_read_at timestamp"


def lake_tables(lake: Folder | IcebergNamespace | None, queues: Sequence[str]) -> dict[str, Place]:
    """Return the lake tables with the archives of these queues; queues without one are left out.

    Args:
        lake: Folder or namespace with a table for each queue, named after it; or for one queue the table itself.
        queues: Queue names.

    Raises:
        ConfigurationError: The lake holds none.
    """
    if lake is None:
        return {}
    table = _as_table(lake)
    if len(queues) == 1 and table is not None and exists(table):
        return {queues[0]: table}
    found = {queue: lake / queue for queue in queues if exists(lake / queue)}
    if not found:
        raise ConfigurationError(
            f"the lake {lake} holds no archive of {', '.join(queues)}; run the pipeline archive into a folder or "
            "table of the queue's name in it, or omit the lake"
        )
    return found


def _as_table(lake: Folder | IcebergNamespace) -> Place | None:
    """Return the lake as the address of a table; None if it cannot be one."""
    if not isinstance(lake, IcebergNamespace):
        return lake
    return IcebergAddress(lake.catalog, lake.name) if "." in lake.name else None


def read_messages(
    spark: SparkSession,
    snapshot: SharedSnapshot,
    queues: Sequence[str],
    lake: dict[str, Place],
    since: datetime | None,
) -> DataFrame:
    """Return the outcome of each message.

    The database is read at the snapshot, and the lake after that. A message moved to the lake in between is in both,
    and is deduplicated.

    Args:
        spark: Session with our formats.
        snapshot: Must stay open until the rows are used.
        queues: At least one.
        lake: From `lake_tables`.
        since: Omit messages settled before this time.

    Returns:
        `queue`, `outcome` (`done`, `dead` or `waiting`), `enqueued_at`, `last_read_at`, `ended_at`, `read_ct`.
    """
    from pyspark.sql import functions as f

    def of(queue: str, table: str, columns: str) -> DataFrame:
        reader = spark.read.format("pgsluice").options(**snapshot.options)
        return reader.option("queue", queue).option("table", table).schema(columns).load()

    def ended(rows: DataFrame, at: str) -> DataFrame:
        rows = rows.withColumn("ended_at", f.col(at))
        return rows if since is None else rows.where(f.col("ended_at") >= f.lit(since))

    parts = []
    for queue in queues:
        archived = of(queue, "archive", f"{_TYPES}, archived_at timestamp")
        if queue in lake:
            exported = _read(spark, lake[queue]).select(*archived.columns)
            archived = archived.unionByName(exported)
        done = ended(archived, "archived_at")
        if queue in lake:
            done = done.dropDuplicates(_KNOWN)
        dead = ended(of(queue, "dead_letters", f"{_TYPES}, dead_at timestamp"), "dead_at")
        waiting = of(queue, "queue", _TYPES).withColumn("ended_at", f.lit(None).cast("timestamp"))
        outcomes = (("done", done), ("dead", dead), ("waiting", waiting))
        parts += [
            rows.select(
                f.lit(queue).alias("queue"),
                f.lit(outcome).alias("outcome"),
                "enqueued_at",
                "last_read_at",
                "ended_at",
                "read_ct",
            )
            for outcome, rows in outcomes
        ]
    return reduce(lambda one, other: one.unionByName(other), parts)


def _read(spark: SparkSession, place: Place) -> DataFrame:
    if isinstance(place, IcebergAddress):
        return read_iceberg(spark, place)
    return read_table(spark, place)
