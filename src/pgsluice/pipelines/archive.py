"""A queue's archive into a Delta table: the pipeline `archive`.

archive("invoices", "/lake/invoices")              # what is new since the last time
archive("invoices", "/lake/invoices", drop=True)   # and drop from PostgreSQL what the lake holds for certain

Three steps, each of which may be killed anywhere, and run by two at once:

  - copy: one commit of the lake takes what it does not hold yet, as one transaction of PostgreSQL sees it;
  - verify: the table is read again, without Spark, and PostgreSQL compares its rows with what was found, one by one.
    It remembers which are equal. By no highest id and no time: what commits late is not among them;
  - drop: what every export of the queue has verified is deleted. Retention (`set_retention`) and the retention of
    partitions delete nothing else either, from the first run of an export on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from pgsluice.client.calls import Call, spark_exports
from pgsluice.client.calls import spark as calls
from pgsluice.client.calls.spark_exports import Backlog
from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.delta.files import paths_of, row_count
from pgsluice.lake.delta.opening import Use, open_delta
from pgsluice.lake.file_errors import require_writable
from pgsluice.pipelines.paths import folder, session_for
from pgsluice.spark.access import Access, access_for, driver_connection, run
from pgsluice.spark.extra import require_extra
from pgsluice.spark.retry import patiently
from pgsluice.spark.running import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Connection = psycopg.Connection[Any]
Result = TypeVar("Result")

_VERIFY_ROWS = 10_000
_DROP_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class ArchiveProgress(Progress):
    """How far a copy of an archive is.

    Attributes:
        rows: Rows that were added to the lake.
        micro_batches: How many commits added them.
        verified: Archived messages that were found equal in the lake.
        dropped: Messages that were deleted from the archive.
    """

    verified: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """What is copied, and how it is read.

    Attributes:
        queue: The queue.
        table: `archive` or `queue`.
        export: The export's name; None for the table `queue`, which has none.
        access: How Spark's processes find the database.
        partitions: How many tasks read; Spark's parallelism when None.
        spark: The caller's session; our own when None, started when there is something to copy.
    """

    queue: str
    table: str
    export: str | None
    access: Access
    partitions: int | None = None
    spark: SparkSession | None = None

    @property
    def app_id(self) -> str:
        """The name under which its copies stand in the lake's log."""
        # Upper and lower case name the same queue.
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
    spark: SparkSession | None = None,
    on_progress: Callable[[ArchiveProgress], None] | None = None,
) -> ArchiveProgress:
    """Copy the archived messages that a Delta table does not hold yet, verify them there, and drop them if asked to.

    From its first run on, the archive keeps what this export has not verified, whatever its retention says;
    `drop_export` ends that. Killed at any moment and run again, it goes on: no message is in neither place, and
    none is twice in the lake. A message is known by msg_id and enqueued_at.

    Args:
        queue: An existing queue.
        lake: The table's folder; made when it is not there. One queue for one table.
        table: `archive`, or `queue` for a copy of the queue's own rows, each in the state in which it was first
            seen. They are neither verified nor dropped.
        export: The name of this copy among those of the queue; the last part of the folder's path when None.
        drop: Whether to drop from the archive what this and all other exports of the queue have verified.
        once: Whether to end after one copy; otherwise another one follows, until `stop` is set.
        every_s: The pause between two copies, seconds.
        stop: Ends the repetition, at once when it pauses.
        dsn, partitions, spark: See `events`.
        on_progress: Called after each step of each copy.

    Returns:
        What was added, verified and dropped. Nothing was added where another copy did at the same time.

    Raises:
        QueueNotFoundError: There is no such queue.
        ExportError: The export is of another table than the one in this folder.
        PrivilegeError: The role is not a member of sluice_admin; a copy of `queue` needs sluice_reader.
        ConfigurationError: The table has other columns, or these options do not go together.
        SluiceError: The lake holds a message differently, or twice. Nothing was dropped after that was found.
    """
    require_extra()
    if table == "queue" and (drop or export is not None):
        raise ConfigurationError(
            "drop and export are for archives: messages leave a queue when they are archived or deleted; "
            "leave them out, or copy the table archive"
        )
    place = folder(lake, "lake")
    ended = stop or threading.Event()
    progress = ArchiveProgress()
    with ExitStack() as cleanup:
        name = None if table == "queue" else export or place.name
        source = Source(queue, table, name, access_for(dsn, cleanup), partitions, spark)
        while True:
            copy = ArchiveCopy(source, place, progress, on_progress)
            copy.run(drop=drop)
            progress = copy.progress
            if once or ended.wait(every_s):
                return progress


class ArchiveCopy:
    """One copy, step by step."""

    def __init__(
        self,
        source: Source,
        place: Path,
        progress: ArchiveProgress | None = None,
        on_progress: Callable[[ArchiveProgress], None] | None = None,
    ) -> None:
        self.source = source
        self.place = place
        self.progress = progress or ArchiveProgress()
        self._on_progress = on_progress
        self._conninfo = source.access.conninfo()

    def run(self, *, drop: bool) -> None:
        """Copy, verify, and drop if asked to."""
        with ExitStack() as cleanup:
            database = cleanup.enter_context(driver_connection(self.source.access, autocommit=True))
            self.register(database)
            # Only as long as its transaction lives can Spark's workers see what it sees.
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
        """Make the table when it is not there, and have the archive keep for it what it does not hold."""
        from pgsluice.spark.batch import ARCHIVE_SCHEMA, QUEUE_SCHEMA
        from pgsluice.spark.lake_tables import table_at

        source = self.source
        # An unknown queue is named before anything is made.
        self._ask(database, calls.queue_slices(source.queue, source.table, 1, ["msg_id"]))
        schema = QUEUE_SCHEMA if source.table == "queue" else ARCHIVE_SCHEMA
        require_writable(self.place, "lake")
        table_at(str(self.place), schema).create()
        if source.export is not None:
            lake_id = str(open_delta(self.place, Use.APPEND).metadata().id)
            call = spark_exports.create_export(
                source.queue, source.export, str(self.place), lake_id
            )
            self._ask(database, call)

    def backlog(self, reader: Connection) -> list[Backlog] | None:
        """What the transaction of the reader sees that is not verified; None where nothing is verified ever."""
        if self.source.export is None:
            return None
        call = spark_exports.export_backlog(self.source.queue, self.source.export)
        return self._ask(reader, call)

    def copy(self, reader: Connection, backlog: Sequence[Backlog] | None) -> None:
        """Add to the lake, in one commit, what the reader sees and the lake does not hold.

        Both are looked at in one state of the lake, and the commit has the number that follows it: of two that copy
        at once, whoever comes second adds nothing.
        """
        from pgsluice.lake.archived import files_with, ranges_of

        source = self.source
        snapshot = self._ask(reader, calls.export_snapshot())
        session = session_for(source.spark, "pgsluice archive")
        options = {
            **source.access.options(),
            "queue": source.queue,
            "table": source.table,
            "snapshot": snapshot,
            "numPartitions": str(source.partitions or session.sparkContext.defaultParallelism),
        }
        if source.export is not None:
            options["export"] = source.export
        rows = patiently(lambda: session.read.format("pgsluice").options(**options).load())
        there = open_delta(self.place, Use.APPEND)
        last = there.transaction_version(source.app_id)
        paths = paths_of(there) if backlog is None else files_with(there, ranges_of(backlog))
        if paths:
            files = [str(self.place / path) for path in paths]
            known = session.read.schema("msg_id bigint, enqueued_at timestamp").parquet(*files)
            rows = rows.join(known, ["msg_id", "enqueued_at"], "left_anti").select(*rows.columns)
        writer = rows.write.format("pgsluice-delta").mode("append")
        writer = writer.option("txnAppId", source.app_id)
        writer = writer.option("txnVersion", str(0 if last is None else last + 1))
        patiently(lambda: writer.save(str(self.place)))
        added = row_count(open_delta(self.place, Use.READ)) - row_count(there)
        self._report(
            rows=self.progress.rows + added,
            micro_batches=self.progress.micro_batches + (added > 0),
        )

    def verify(self, database: Connection, backlog: Sequence[Backlog]) -> None:
        """Read the table again and let PostgreSQL compare what was found there with its own rows."""
        from pgsluice.lake.archived import files_with, force_to_disk, ranges_of, read_again

        table = open_delta(self.place, Use.READ)
        ranges = ranges_of(backlog)
        force_to_disk(self.place, files_with(table, ranges))
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
                f"the lake table in {self.place} holds {len(different)} messages otherwise than the archive of queue "
                f"{self.source.queue!r}, msg_id {', '.join(map(str, different[:10]))}; the archive keeps them: see who "
                "changed them, here or there"
            )

    def drop(self, database: Connection) -> None:
        """Delete from the archive what every export has verified, some thousand rows in a transaction."""
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
