"""The pipelines that ship: an event log, a queue or an archive into a Delta table.

stream = events("orders", "/lake/orders", "/lake/orders.checkpoint")   # runs until stop()
stream.catch_up(deadline_s=60)     # everything committed before this call is in the lake
stream.stop()

events("orders", "/lake/orders", "/lake/orders.checkpoint", once=True)  # what is there now, then ends
archive("invoices", "/lake/invoices")                                   # what is new since the last time
"""

from __future__ import annotations

import atexit
import hashlib
import json
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg

from pgsluice import connection
from pgsluice.client.calls import spark as calls
from pgsluice.errors import ConfigurationError, LogStateError, SluiceError
from pgsluice.spark.access import Access, driver_connection, private_file, run, secrets_of
from pgsluice.spark.failure import is_start_timeout, told_by
from pgsluice.spark.session import register, require_extra, spark_session

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

_STARTS_MAX = 4
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stream is.

    Attributes:
        rows: Events that this run put into the lake.
        micro_batches: How many micro-batches carried them.
        tick: The lake holds everything up to this tick; None before the first answer of Spark.
        batch_duration_s: How long the last micro-batch took; 0.0 before the first.
    """

    rows: int
    micro_batches: int
    tick: int | None
    batch_duration_s: float


class EventStream:
    """A running stream from an event log into a Delta table; made by `events`.

    A context manager: leaving it stops the stream.
    """

    def __init__(
        self,
        writer: DataStreamWriter,
        *,
        log: str,
        lake: Path,
        consumer: str,
        access: Access,
        cleanup: ExitStack,
    ) -> None:
        # Until the stream ends; or until the program does, which may have dropped this object.
        self._cleanup = cleanup
        atexit.register(cleanup.close)
        self.log = log
        self.lake = lake
        self.consumer = consumer
        self._access = access
        self._writer = writer
        self._rows: dict[int, int] = {}
        self._starts = 0
        self._tick: int | None = None
        self._duration_s = 0.0
        self.query = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.query.stop()
        if kind is None:
            self.settle()  # after an error, its own error would hide that one
        self._cleanup.close()

    def await_ready(self, *, deadline_s: float = 120.0) -> None:
        """Wait until Spark has looked at the log for the first time.

        Raises:
            SluiceError: The stream failed, or was not ready in time.
        """
        self._wait(lambda: self._tick is not None, deadline_s, "was not ready")

    def catch_up(self, *, deadline_s: float = 120.0) -> Progress:
        """Wait until everything committed before this call is in the lake.

        Raises:
            PrivilegeError: The role may not tick the log.
            SluiceError: The stream failed or ended, or did not get there in time.
        """
        if self._has_ended():
            raise LogStateError(f"the stream of event log {self.log!r} has ended; start it again")
        tick = self._ask(calls.log_tick(self.log))
        self._wait(
            lambda: self._tick is not None and self._tick >= tick,
            deadline_s,
            f"did not reach tick {tick}",
        )
        return self.progress()

    def drain(
        self,
        *,
        deadline_s: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Progress:
        """Wait until the stream ends by itself, as it does with `once`.

        Raises:
            SluiceError: It failed, or did not end in time.
        """
        end = None if deadline_s is None else time.monotonic() + deadline_s
        while not self._has_ended():
            self._pause()
            if on_progress is not None:
                on_progress(self.progress())
            if end is not None and time.monotonic() > end:
                raise SluiceError(
                    f"the stream of event log {self.log!r} did not end within {deadline_s:g} s; it goes on: "
                    "stop it, or wait longer"
                )
        self.settle()
        self._cleanup.close()
        progress = self.progress()
        if on_progress is not None:
            on_progress(progress)
        return progress

    def progress(self) -> Progress:
        """How far the stream is now."""
        self._look()
        return Progress(
            rows=sum(self._rows.values()),
            micro_batches=sum(1 for rows in self._rows.values() if rows),
            tick=self._tick,
            batch_duration_s=self._duration_s,
        )

    def stop(self) -> Progress:
        """Stop now, in the middle of a micro-batch if need be: its rows come with the next start."""
        self.query.stop()
        self.settle()
        self._cleanup.close()
        return self.progress()

    def settle(self) -> None:
        """Tell the log how far the lake is, so that it may forget what is there.

        Spark tells it of a micro-batch only when the next one is planned.
        """
        self._look()
        if self._tick is not None:
            self._ask(calls.log_commit(self.log, self.consumer, self._tick))

    def _start(self) -> StreamingQuery:
        self._starts += 1
        return self._writer.start(str(self.lake))

    def _look(self) -> None:
        for entry in self.query.recentProgress:
            offset = entry["sources"][0]["endOffset"]
            if offset is not None:
                self._rows[entry["batchId"]] = max(
                    entry["numInputRows"], self._rows.get(entry["batchId"], 0)
                )
                tick = json.loads(offset)["tick"] if isinstance(offset, str) else offset["tick"]
                self._tick = max(tick, self._tick or 0)
                if entry["numInputRows"]:
                    self._duration_s = entry["durationMs"]["triggerExecution"] / 1000

    def _has_ended(self) -> bool:
        """Whether the stream is over.

        Raises:
            SluiceError: It failed.
        """
        self._look()
        if self.query.isActive:
            return False
        failure = self.query.exception()
        if failure is None:
            return True
        if is_start_timeout(failure) and self._tick is None and self._starts < _STARTS_MAX:
            self.query = self._start()
            return False
        self._cleanup.close()
        raise told_by(failure, f"the stream of event log {self.log!r}") from None

    def _wait(self, arrived: Callable[[], bool], deadline_s: float, missed: str) -> None:
        end = time.monotonic() + deadline_s
        while True:
            ended = self._has_ended()
            if arrived():
                return
            if ended:
                raise LogStateError(f"the stream of event log {self.log!r} {missed}: it has ended")
            if time.monotonic() > end:
                raise SluiceError(
                    f"the stream of event log {self.log!r} {missed} within {deadline_s:g} s; look at "
                    "Spark's log, or wait longer"
                )
            self._pause()

    def _pause(self) -> None:
        from pyspark.errors import StreamingQueryException

        # Its failure is what _has_ended reports.
        with suppress(StreamingQueryException):
            self.query.awaitTermination(_POLL_S)

    def _ask(self, call: Any) -> Any:
        with driver_connection(self._access, autocommit=True) as database:
            return run(database, call, self._access.conninfo())


def events(
    log: str,
    lake: str | Path,
    checkpoint: str | Path,
    *,
    dsn: str | None = None,
    consumer: str | None = None,
    once: bool = False,
    starting: str = "earliest",
    max_rows_per_trigger: int = 200_000,
    trigger_s: float = 1.0,
    partitions: int | None = None,
    spark: SparkSession | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> EventStream:
    """Stream an event log into a Delta table, each committed event once, whatever dies in between.

    Args:
        log: An existing event log.
        lake: The table's folder; made when it is not there. One log for one table.
        checkpoint: A folder for Spark's notes on how far it is. Table and checkpoint belong together.
        dsn: Where to connect; by the rule of `pgsluice.connection` when None. A password in it goes to
            Spark's workers through a file in the temporary folder that only this user can read,
            deleted when the stream or the program ends; after a kill -9 it stays there.
        consumer: The name under which the log keeps what the stream has not read; made from the
            table's folder when None. Unregister it when the pipeline is given up.
        once: Read what is there now and return when it is in the lake; otherwise return at once.
        starting: Where the first run begins: `earliest`, `latest` or `{"tick": 12}`.
        max_rows_per_trigger: About the most events in one micro-batch, 1 or more.
        trigger_s: How often to look for new events, seconds; 0 for as often as possible.
        partitions: The most tasks that read at the same time; Spark's parallelism when None.
        spark: A session of the caller's; our own when None.
        on_progress: Called now and then while `once` reads.

    Returns:
        The stream. With `once` it has ended.

    Raises:
        MissingExtraError, MissingJavaError: See `session`.
        ConfigurationError: Table and checkpoint do not belong together, or the table has other columns.
        LogNotFoundError: There is no such event log.
        SluiceError: Anything else that stopped the stream.
    """
    require_extra()
    table_folder, notes = _folder(lake, "lake"), _folder(checkpoint, "checkpoint")
    name = consumer or _consumer_name(table_folder)
    with ExitStack() as cleanup:
        access = _access(dsn, cleanup)
        with driver_connection(access, autocommit=True) as database:
            # An unknown log is named before Java starts.
            run(database, calls.log_incarnation(log), access.conninfo())
        session = _session(spark, "pgsluice events")
        _open_table(table_folder, notes)
        options = {
            **access.options(),
            "log": log,
            "consumer": name,
            "startingOffsets": starting,
            "maxRowsPerTrigger": str(max_rows_per_trigger),
            "numPartitions": str(partitions or session.sparkContext.defaultParallelism),
        }
        rows = _patiently(lambda: session.readStream.format("pgsluice").options(**options).load())
        writer = rows.writeStream.format("pgsluice-delta").option("checkpointLocation", str(notes))
        if once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{int(trigger_s * 1000)} milliseconds")
        stream = EventStream(
            writer,
            log=log,
            lake=table_folder,
            consumer=name,
            access=access,
            cleanup=cleanup.pop_all(),
        )
        if once:
            stream.drain(on_progress=on_progress)
        return stream


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

    folder = _folder(lake, "lake")
    with ExitStack() as cleanup:
        access = _access(dsn, cleanup)
        database = cleanup.enter_context(driver_connection(access))
        # Only as long as this transaction lives can Spark's workers see what it sees.
        database.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        database.read_only = True
        run(database, calls.queue_slices(queue, table, 1, ["msg_id"]), access.conninfo())
        snapshot = run(database, calls.export_snapshot(), access.conninfo())
        session = _session(spark, "pgsluice archive")
        options = {
            **access.options(),
            "queue": queue,
            "table": table,
            "snapshot": snapshot,
            "numPartitions": str(partitions or session.sparkContext.defaultParallelism),
        }
        rows = _patiently(lambda: session.read.format("pgsluice").options(**options).load())
        app_id = f"pgsluice:{table}:{queue}"
        version, before = 0, 0
        if DeltaTable.is_deltatable(str(folder)):
            there = DeltaTable(str(folder))
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
        _patiently(lambda: writer.save(str(folder)))
    return row_count(DeltaTable(str(folder))) - before


def row_count(table: DeltaTable) -> int:
    """How many rows a Delta table holds, from the statistics of its files."""
    actions = table.get_add_actions(flatten=True)
    return sum(actions.column("num_records").to_pylist())


def _session(spark: SparkSession | None, app_name: str) -> SparkSession:
    if spark is None:
        return spark_session(app_name)
    register(spark)
    return spark


def _access(dsn: str | None, cleanup: ExitStack) -> Access:
    """Decide where to connect, and how Spark's workers learn of it without Spark knowing.

    A file made for that goes with the clean-up.
    """
    conninfo = connection.resolve(dsn).conninfo
    if not conninfo:
        return Access()  # libpq's own variables, which the workers inherit
    if not secrets_of(conninfo):
        return Access(dsn=conninfo)
    file = private_file(conninfo)
    cleanup.callback(file.unlink, missing_ok=True)
    return Access(dsn_file=str(file))


def _folder(path: str | Path, what: str) -> Path:
    if "://" in str(path):
        raise ConfigurationError(f"the {what} {str(path)!r} is not a folder; give a folder's path")
    return Path(path).expanduser().absolute()


def _consumer_name(lake: Path) -> str:
    # Two tables may have the same name in two folders.
    return f"spark:{lake.name}:{hashlib.sha256(str(lake).encode()).hexdigest()[:8]}"


def _open_table(lake: Path, checkpoint: Path) -> None:
    """Make the table on the first run; refuse a table and a checkpoint that do not belong together."""
    from deltalake import DeltaTable

    from pgsluice.spark.lake import LakeTable
    from pgsluice.spark.stream import LOG_SCHEMA

    is_table = DeltaTable.is_deltatable(str(lake))
    has_run = (checkpoint / "metadata").exists()
    if has_run and not is_table:
        raise ConfigurationError(
            f"the checkpoint {checkpoint} says that events are in the lake table {lake}, which is not "
            "there; bring the table back, or start with another checkpoint and read the log again"
        )
    if is_table and not has_run and row_count(DeltaTable(str(lake))):
        raise ConfigurationError(
            f"the lake table {lake} holds rows, and the checkpoint {checkpoint} is new: events would be "
            "added a second time; use the checkpoint that belongs to the table, or another table"
        )
    LakeTable.of(str(lake), LOG_SCHEMA).create()


def _patiently(act: Callable[[], Any]) -> Any:
    """Do something that makes Spark start a Python process, again if it came up too late."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    for last in (False,) * (_STARTS_MAX - 1) + (True,):
        try:
            return act()
        except (PySparkException, Py4JError) as error:
            if last or not is_start_timeout(error):
                raise told_by(error, "Spark") from None
    raise AssertionError  # the last turn returns or raises
