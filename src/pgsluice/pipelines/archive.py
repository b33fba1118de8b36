"""A queue's archive into a Delta or Iceberg table: the pipeline `archive`.

archive("invoices", "/lake/invoices")              # copy messages archived since the last run
archive("invoices", "/lake/invoices", drop=True)   # and delete verified messages from PostgreSQL

Three idempotent steps, each safe to kill at any point and to run concurrently:

  - copy: one commit of the lake adds the rows that it lacks, from one snapshot of PostgreSQL;
  - verify: the table is read again, without Spark, and PostgreSQL compares it with its rows, one by one, and records
    the equal ones. Progress is tracked by row, so late commits are not missed;
  - drop: rows that every export of the queue has verified are deleted. From the first run of an export on, retention
    (`archive_retention`) and the retention of partitions delete no other rows either.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from pgsluice.client.calls import Call, spark_exports
from pgsluice.client.calls import spark as calls
from pgsluice.client.calls.spark_exports import Backlog
from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.address import IcebergAddress, parse
from pgsluice.lake.file_errors import require_writable
from pgsluice.lake.storage import Folder
from pgsluice.pipelines.paths import session_for
from pgsluice.spark.access import Access, access_for, driver_connection, run
from pgsluice.spark.checkpoint import local_url
from pgsluice.spark.extra import require_extra
from pgsluice.spark.retry import with_retries
from pgsluice.spark.running import Progress
from pgsluice.spark.session import can_push, default_parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pgsluice.lake.archived import ArchivedTable

Connection = psycopg.Connection[Any]
Result = TypeVar("Result")

ARCHIVED_DATE = "archived_date"
# In UTC; Spark's own conversion would use the time zone of the session.
_DATE = "date_from_unix_date(int(floor(unix_seconds(archived_at) / 86400)))"
_VERIFY_ROWS = 10_000
_DROP_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class ArchiveProgress(Progress):
    """The progress of an archive copy.

    Attributes:
        rows: Rows added to the lake.
        micro_batches: Commits that added them.
        verified: Archived messages verified in the lake.
        dropped: Messages deleted from the archive.
    """

    verified: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class CopySource:
    """The source of a copy.

    Attributes:
        queue: The queue.
        table: `archive` or `queue`.
        export: The export's name; None for the table `queue`, which has none.
        access: Database access of Spark's processes.
        partitions: Concurrent read tasks; None: Spark's parallelism.
        spark: Spark session to use; None: start one if there are rows to copy.
        partition_by: Partition columns of a new lake table.
    """

    queue: str
    table: str
    export: str | None
    access: Access
    partitions: int | None = None
    spark: SparkSession | None = None
    partition_by: tuple[str, ...] = ()

    @property
    def app_id(self) -> str:
        """The application id of its copies in the lake's transaction log."""
        # Queue names are case-insensitive.
        return f"pgsluice:{self.table}:{self.queue.lower()}"


def archive(
    queue: str,
    lake: str | Path,
    *,
    table: str = "archive",
    export: str | None = None,
    drop: bool = False,
    once: bool = True,
    every_s: float = 60.0,
    stop: threading.Event | None = None,
    dsn: str | None = None,
    partitions: int | None = None,
    partition_by: Sequence[str] = (),
    spark: SparkSession | None = None,
    on_progress: Callable[[ArchiveProgress], None] | None = None,
) -> ArchiveProgress:
    """Copy archived messages to a lake table, verify the copy, and optionally drop them from PostgreSQL.

    From its first run on, the archive keeps messages that this export has not verified, regardless of retention;
    `drop_export` ends that. Idempotent: a run killed at any moment can be repeated, and no message is lost, or
    duplicated in the lake. A message is identified by msg_id and enqueued_at.

    Args:
        queue: An existing queue.
        lake: Folder of the table, on disk or as a URL such as `s3://bucket/orders`, or
            `iceberg:catalogue/namespace.table`; created if missing. One queue per table.
        table: `archive`, or `queue` to copy the queue's rows, each in the state in which it was first
            read. Those are neither verified nor dropped.
        export: Name of this copy among those of the queue; None: the last part of the folder's path, or
            the `namespace.table` of an Iceberg table.
        drop: Delete messages from the archive that this and all other exports of the queue have verified.
        once: Return after one copy; otherwise repeat until `stop` is set.
        every_s: Pause between two copies, seconds.
        stop: Event that ends the repetition, also during a pause.
        partition_by: Partition columns of a new table: columns of the archive or queue, or, of an archive,
            `archived_date`, a column with the date of `archived_at` in UTC. An existing table keeps its own.
        dsn, partitions, spark: See `events`.
        on_progress: Called after each step of each copy.

    Returns:
        Rows added, verified and dropped. Of two concurrent copies only one adds rows.

    Raises:
        QueueNotFoundError: The queue does not exist.
        ExportError: The export belongs to another table than the one in this folder.
        PrivilegeError: The role is not a member of sluice_admin; a copy of `queue` needs sluice_reader.
        ConfigurationError: The table has other columns or the rows of another queue, or the options contradict each
            other.
        SluiceError: The lake holds a message with other contents, or twice. Nothing is dropped after that.
    """
    require_extra()
    if table == "queue" and (drop or export is not None):
        raise ConfigurationError(
            "drop and export apply to archives, as messages leave a queue when archived or deleted; "
            "omit them, or copy the table archive"
        )
    place = parse(lake)
    ended = stop or threading.Event()
    progress = ArchiveProgress()
    with ExitStack() as cleanup:
        own_name = place.identifier if isinstance(place, IcebergAddress) else place.name
        name = None if table == "queue" else export or own_name
        access = access_for(dsn, cleanup)
        source = CopySource(queue, table, name, access, partitions, spark, tuple(partition_by))
        while True:
            copy = ArchiveCopy(source, place, progress, on_progress)
            copy.run(drop=drop)
            progress = copy.progress
            if once or ended.wait(every_s):
                return progress


class ArchiveCopy:
    """One copy, in steps."""

    def __init__(
        self,
        source: CopySource,
        place: Folder | IcebergAddress,
        progress: ArchiveProgress | None = None,
        on_progress: Callable[[ArchiveProgress], None] | None = None,
    ) -> None:
        self.source = source
        self.place = place
        self.progress = progress or ArchiveProgress()
        self._on_progress = on_progress
        self._conninfo = source.access.conninfo()

    def run(self, *, drop: bool) -> None:
        """Copy, verify, and optionally drop."""
        with ExitStack() as cleanup:
            database = cleanup.enter_context(driver_connection(self.source.access, autocommit=True))
            self.register(database)
            # Spark's workers can import its snapshot only while its transaction is open.
            reader = cleanup.enter_context(driver_connection(self.source.access))
            reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            reader.read_only = True
            backlog = self.backlog(reader)
            if backlog is None or backlog:
                self.copy(reader, backlog)
            reader.rollback()
            if backlog:
                self.verify(database, backlog)
            if drop:
                self.drop(database)

    def register(self, database: Connection) -> None:
        """Create the table if missing, and register the export, so that the archive keeps unverified messages."""
        from pyspark.sql.types import DateType, StructField, StructType

        from pgsluice.lake.archived import open_archived
        from pgsluice.spark.batch import ARCHIVE_SCHEMA, QUEUE_SCHEMA
        from pgsluice.spark.lake_tables import table_at

        source = self.source
        # Raise for an unknown queue before anything is created.
        self._ask(database, calls.queue_slices(source.queue, source.table, 1, ["msg_id"]))
        schema = QUEUE_SCHEMA if source.table == "queue" else ARCHIVE_SCHEMA
        by = source.partition_by or table_at(self.place, schema).partition_by
        if ARCHIVED_DATE in by and source.table == "archive":
            schema = StructType([*schema, StructField(ARCHIVED_DATE, DateType())])
        table = table_at(self.place, schema, partition_by=by)
        require_writable(table.folder, "lake")
        table.create()
        lake_table = open_archived(self.place)
        if lake_table.last_version(source.app_id) is None and lake_table.row_count() > 0:
            raise ConfigurationError(
                f"the lake table {self.place} holds rows that were not copied from the {source.table} of queue "
                f"{source.queue!r}; use another table, one for each queue"
            )
        if source.export is not None:
            call = spark_exports.create_export(
                source.queue, source.export, str(self.place), lake_table.id
            )
            self._ask(database, call)

    def backlog(self, reader: Connection) -> list[Backlog] | None:
        """Return the unverified messages in the reader's snapshot; None if this table is never verified."""
        if self.source.export is None:
            return None
        call = spark_exports.export_backlog(self.source.queue, self.source.export)
        return self._ask(reader, call)

    def copy(self, reader: Connection, backlog: Sequence[Backlog] | None) -> None:
        """Add the rows of the reader's snapshot that the lake lacks, in one commit.

        The commit's version follows that of the lake state compared with, so the second of two concurrent copies adds
        nothing.
        """
        from pyspark.sql import functions as f

        from pgsluice.lake.archived import open_archived, ranges_of

        source = self.source
        snapshot = self._ask(reader, calls.export_snapshot())
        session = session_for(source.spark, "pgsluice archive")
        options = {
            **source.access.options(),
            "queue": source.queue,
            "table": source.table,
            "snapshot": snapshot,
            "numPartitions": str(source.partitions or default_parallelism(session)),
        }
        if source.export is not None:
            options["export"] = source.export
        rows = with_retries(lambda: session.read.format("pgsluice").options(**options).load())
        lake_table = open_archived(self.place)
        last = lake_table.last_version(source.app_id)
        paths = lake_table.files(None if backlog is None else ranges_of(backlog))
        if paths:
            known = self._keys(session, lake_table, paths, backlog)
            rows = rows.join(known, ["msg_id", "enqueued_at"], "left_anti").select(*rows.columns)
        if ARCHIVED_DATE in lake_table.partition_by:
            rows = rows.withColumn(ARCHIVED_DATE, f.expr(_DATE))
        writer = rows.write.format(lake_table.reading[0]).mode("append")
        writer = writer.option("txnAppId", source.app_id)
        writer = writer.option("txnVersion", str(0 if last is None else last + 1))
        with_retries(lambda: writer.save(str(self.place)))
        added = open_archived(self.place).row_count() - lake_table.row_count()
        self._report(
            rows=self.progress.rows + added,
            micro_batches=self.progress.micro_batches + (added > 0),
        )

    def _keys(
        self,
        session: SparkSession,
        lake_table: ArchivedTable,
        paths: Collection[str],
        backlog: Sequence[Backlog] | None,
    ) -> DataFrame:
        """Read the keys of messages in the lake, at least those of the backlog."""
        keys = session.read.schema("msg_id bigint, enqueued_at timestamp")
        if isinstance(lake_table.folder, Path):
            # Spark would infer the types of partition columns from the paths.
            files = keys.parquet(*(local_url(lake_table.folder / path) for path in paths))
            return files.select("msg_id", "enqueued_at")
        # Spark reads files of an object store only with a jar.
        source, version = lake_table.reading
        reader = keys.format(source).options(pushdown=can_push(session), **version)
        rows = reader.load(str(self.place))
        if backlog is None:
            return rows
        first = min(part.first_msg_id for part in backlog)
        last = max(part.last_msg_id for part in backlog)
        return rows.where(rows["msg_id"].between(first, last))

    def verify(self, database: Connection, backlog: Sequence[Backlog]) -> None:
        """Read the table again, and let PostgreSQL compare it with its own rows."""
        from pgsluice.lake.archived import open_archived, ranges_of, read_again

        table = open_archived(self.place)
        ranges = ranges_of(backlog)
        table.force_to_disk(table.files(ranges))
        different: list[int] = []
        for ids in ranges:
            for found in read_again(table, ids):
                for start in range(0, len(found.msg_ids), _VERIFY_ROWS):
                    part = slice(start, start + _VERIFY_ROWS)
                    verdict = self._ask(
                        database,
                        spark_exports.verify_exported(
                            self.source.queue,
                            self.source.export or "",
                            found.msg_ids[part],
                            found.enqueued_us[part],
                            found.hashes[part],
                        ),
                    )
                    different += verdict.different
                    self._report(verified=self.progress.verified + verdict.verified)
        if different:
            raise SluiceError(
                f"{len(different)} messages in the lake table {self.place} differ from the archive of queue "
                f"{self.source.queue!r}, msg_id {', '.join(map(str, different[:10]))}; the archive keeps them: find "
                "out what changed them, in the lake or in PostgreSQL"
            )

    def drop(self, database: Connection) -> None:
        """Delete messages from the archive that every export has verified, in transactions of bounded size."""
        while dropped := self._ask(
            database, spark_exports.drop_exported(self.source.queue, _DROP_ROWS)
        ):
            self._report(dropped=self.progress.dropped + dropped)

    def _ask(self, database: Connection, call: Call[Result]) -> Result:
        return run(database, call, self._conninfo)

    def _report(self, **changes: Any) -> None:
        self.progress = replace(self.progress, **changes)
        if self._on_progress is not None:
            self._on_progress(self.progress)
