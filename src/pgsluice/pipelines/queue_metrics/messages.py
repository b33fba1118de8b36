"""What became of each message of some queues, once each, from the lake and from PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.errors import ConfigurationError
from pgsluice.lake.delta.opening import is_delta
from pgsluice.spark.lake_reading import read_table
from pgsluice.spark.shared_snapshot import SharedSnapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# No payload is read.
_KNOWN = ("msg_id", "enqueued_at")
_TYPES = "msg_id bigint, read_ct int, enqueued_at timestamp, last_read_at timestamp"


def lake_tables(lake: Path | None, queues: Sequence[str]) -> dict[str, Path]:
    """The tables of the lake that hold the archives of these queues; queues without one are left out.

    Args:
        lake: A folder with a table for each queue, named after it; or for one queue the table itself.
        queues: Their names.

    Raises:
        ConfigurationError: The lake holds none.
    """
    if lake is None:
        return {}
    if len(queues) == 1 and is_delta(lake):
        return {queues[0]: lake}
    found = {queue: lake / queue for queue in queues if is_delta(lake / queue)}
    if not found:
        raise ConfigurationError(
            f"the lake {lake} holds no archive of {', '.join(queues)}: there must be a table in a folder of the "
            "queue's name; run the pipeline archive into it, or leave the lake out"
        )
    return found


def read_messages(
    spark: SparkSession,
    snapshot: SharedSnapshot,
    queues: Sequence[str],
    lake: dict[str, Path],
    since: datetime | None,
) -> DataFrame:
    """Read what became of each message.

    The database is read as the snapshot has it and the lake after that: what was moved from the one to the other in
    between is in both, and counted once.

    Args:
        spark: With our formats.
        snapshot: Open until the rows have been used.
        queues: At least one.
        lake: From `lake_tables`.
        since: Leave out what ended before this time.

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
            there = read_table(spark, lake[queue]).select(*archived.columns)
            archived = archived.unionByName(there)
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
