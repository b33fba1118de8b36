"""Captured changes and the current state of each captured table, in the lake: the pipeline `changes`.

stream = changes("changes", "/lake/shop", "/lake/shop.checkpoint",
                 state=CurrentStateOptions(snapshots=["public.account"]))
stream.catch_up()                                # everything committed before this call is in the lake
live(spark, "/lake/shop", "public.account")      # the current rows of the table
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgsluice.errors import ConfigurationError, one_line
from pgsluice.lake.file_errors import require_writable
from pgsluice.lake.names import ColumnName
from pgsluice.pipelines.events import (
    EventStream,
    holding,
    known_shards,
    log_options,
    read_log,
    repeats_of,
    triggered,
)
from pgsluice.pipelines.options import CurrentStateOptions, StreamOptions
from pgsluice.pipelines.paths import (
    delta_folder,
    local_folder,
    open_table,
    own_consumer,
    record_consumer,
    session_for,
)
from pgsluice.spark.access import Access, access_for
from pgsluice.spark.checkpoint import record_written
from pgsluice.spark.extra import require_extra
from pgsluice.spark.failure import concise
from pgsluice.spark.micro_batch import MicroBatch
from pgsluice.spark.retry import with_retries
from pgsluice.spark.running import Progress
from pgsluice.spark.session import is_connect, register_source
from pgsluice.spark.stored_checkpoint import CheckpointCopy

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from pgsluice.lake.table import LakeTable
    from pgsluice.pipelines.current_state.applier import Applier
    from pgsluice.pipelines.current_state.apply import CurrentStates
    from pgsluice.pipelines.current_state.parking import Parking
    from pgsluice.pipelines.current_state.snapshot import Rebuilds, Snapshots

_LOOK_AGAIN_S = 0.1


class ChangeStream(EventStream):
    """A running stream of captured changes into the lake; created by `changes`.

    Threads take the pending snapshots meanwhile, apply micro-batches that are due, and maintain the tables.
    """

    def __init__(
        self,
        writer: DataStreamWriter,
        *,
        snapshots: Snapshots,
        rebuilds: Rebuilds | None,
        access: Access,
        parking: Parking,
        applier: Applier,
        compact_every_s: float,
        vacuum_retention_h: float,
        **place: Any,
    ) -> None:
        self._parking = parking  # used by `progress` as soon as the stream runs
        super().__init__(writer, **place)
        self.snapshots = snapshots
        self._rebuilds = rebuilds
        self._access = access
        self._applier = applier
        self._compact_every_s, self._vacuum_retention_h = compact_every_s, vacuum_retention_h
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        works = [self._take] if snapshots.pending() else []
        works += [self._rebuild] if rebuilds is not None else []
        works += [self._apply_when_due] if applier.is_polled else []
        works += [self._maintain] if math.isfinite(compact_every_s) else []
        self._threads = [
            threading.Thread(target=self._run, args=(work,), daemon=True) for work in works
        ]
        self._cleanup.callback(self._end_threads)
        for thread in self._threads:
            thread.start()

    def has_ended(self) -> bool:
        if self._failure is not None:
            self.query.stop()
            self._cleanup.close()
            raise self._failure
        ended = super().has_ended()
        if ended:
            self._apply(now=True)
        return ended

    def catch_up(self, *, deadline_s: float = 120.0) -> Progress:
        """Wait until everything committed before this call is in the lake, and in the current-state tables.

        Raises:
            PrivilegeError: The role may not tick the log.
            SluiceError: The stream failed or ended, or the deadline passed.
        """
        progress = super().catch_up(deadline_s=deadline_s)
        self._apply(now=True)
        return progress

    def progress(self) -> Progress:
        return replace(super().progress(), parked=tuple(map(str, self._parking.parked())))

    def finish(self, *, on_progress: Callable[[Progress], None] | None = None) -> Progress:
        """Wait until the snapshots and everything committed before this call are in the lake; then stop.

        Tables that the pipeline rebuilds are complete then, or parked.

        Raises:
            CaptureError: A table of the snapshots is not captured; raised at the end, when all others are in the lake.
            SluiceError: The stream or a snapshot failed.
        """

        def wait_for(condition: Callable[[], bool]) -> None:
            def is_met() -> bool:
                if on_progress is not None:
                    on_progress(self.progress())
                return condition()

            self.wait_until(is_met, "did not take its snapshots", deadline_s=math.inf)
            self.catch_up(deadline_s=math.inf)

        wait_for(self.snapshots.is_taken)
        rebuilds, seen = self._rebuilds, None
        # A table that is no further after its snapshot was applied would never be complete.
        while rebuilds is not None and (left := rebuilds.unfinished()) and left != seen:
            seen = left
            wait_for(lambda: not rebuilds.pending())
        progress = self.stop()
        if on_progress is not None:
            on_progress(progress)
        for failure in self.snapshots.failures.values():
            raise failure
        return progress

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as failure:  # noqa: BLE001 - raised by has_ended
            self._failure = failure

    def _take(self) -> None:
        if self._has_offset():
            self.snapshots.take(self._access, self._stop)

    def _rebuild(self) -> None:
        while self._rebuilds is not None and self._has_offset() and not self._stop.is_set():
            self._rebuilds.take_next(self._access, self._stop, self._applier.idle)
            self._stop.wait(_LOOK_AGAIN_S)

    def _has_offset(self) -> bool:
        """Wait for the first offset of the stream; False if the stream ends before."""
        # Once the stream has an offset its consumer is registered, so the log keeps the appended rows for it. Not even
        # after the query has ended: rows appended without a consumer may be removed before the next run.
        while super().offset() is None:
            if self._stop.wait(_LOOK_AGAIN_S):
                return False
        return True

    def _apply_when_due(self) -> None:
        while not self._stop.wait(_LOOK_AGAIN_S) and self.query.isActive:
            self._apply(now=False)

    def _maintain(self) -> None:
        from pgsluice.pipelines.current_state.upkeep import maintain

        while not self._stop.wait(self._compact_every_s):
            maintain(self._parking.current, retention_h=self._vacuum_retention_h)

    def _apply(self, *, now: bool) -> None:
        app_id = MicroBatch(str(self.query.id), 0).app_id
        self._applier.apply_pending(app_id, now=now)

    def _end_threads(self) -> None:
        self._stop.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()


def changes(
    log: str,
    lake: str | Path,
    checkpoint: str | Path,
    *,
    dsn: str | None = None,
    once: bool = False,
    reading: StreamOptions = StreamOptions(),
    state: CurrentStateOptions = CurrentStateOptions(),
    spark: SparkSession | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> ChangeStream:
    """Stream captured changes into the lake: each event exactly once, and the current state of each table.

    `LAKE/events` receives every event of the log. `LAKE/current/schema.table` is the current-state table of each
    captured table with events in the log, see `pgsluice.pipelines.current_state.table`. Each table applies a
    micro-batch in one idempotent commit, so restarts neither lose nor repeat it.

    A table whose changes cannot be applied is parked: it stays at its last good version, and the other tables and the
    table of events go on. `pgsluice.pipelines.current_state.snapshot.rebuild` repairs it.

    Args:
        log: Event log that `sluice.capture`, `pgq.jsontriga` or `pgq.logutriga` write to.
        lake: Folder of all these tables, on disk or as a URL such as `s3://bucket/shop`; created if missing. Or
            `iceberg:catalogue/namespace`, for Iceberg tables in a namespace, named `events`, `rejects` and
            `schema__table`. One log per lake.
        checkpoint: Folder of Spark's checkpoint, as of `events`. Lake and checkpoint belong together.
        dsn, once, spark, on_progress: See `events`.
        reading: How the log is read.
        state: How the current-state tables are maintained.

    Returns:
        The stream, ended if `once`.

    Raises:
        MissingExtraError, MissingJavaError: See `session`.
        ConfigurationError: Lake and checkpoint do not belong together, or a table or column is not supported.
        LogNotFoundError: The event log does not exist.
        ConsumerInUseError: Another query runs under this consumer name.
        CaptureError: A table of `snapshots` is not captured into this log, with `once`; all other tables are in the
            lake. Without `once` it is logged.
        ChangeError: A change cannot be read or applied, with `on_bad_value="fail"`.
        SluiceError: Any other error that stopped the stream.
    """
    require_extra()
    chosen, bucket_counts, types = state.chosen(), state.bucket_counts(), state.types()
    from pgsluice.lake.tables import tables_in
    from pgsluice.pipelines.current_state.apply import CurrentStates
    from pgsluice.pipelines.current_state.losses import LOSS_HINTS, skip_gap
    from pgsluice.pipelines.current_state.parking import Parking
    from pgsluice.pipelines.current_state.shaping import Shaping
    from pgsluice.pipelines.current_state.snapshot import Rebuilds, Snapshots
    from pgsluice.spark.stream import LOG_SCHEMA

    current, stored = tables_in(lake), delta_folder(checkpoint, "checkpoint")
    name = reading.consumer or own_consumer(current.events, stored)
    with ExitStack() as cleanup:
        checkpoint = local_folder(stored, cleanup)
        access = access_for(dsn, cleanup)
        parking = Parking(
            current,
            log,
            access,
            fails=state.on_bad_value == "fail",
            rebuilds=state.on_change == "rebuild",
        )
        rejects = current.rejects if state.on_bad_value == "null" else None
        options = access.options() | log_options(
            log, name, reading, loss_hint=LOSS_HINTS[state.after_loss]
        )
        ways = known_shards(options)
        keeper = holding(ways, "changes", current.lake, cleanup)
        copy = CheckpointCopy.restored(stored, checkpoint)
        table = open_table(current.events, checkpoint, LOG_SCHEMA)
        require_writable(current.state_folder, "lake")
        record_consumer(name, current.events, checkpoint)
        session = session_for(spark, "pgsluice changes", driver_memory=reading.driver_memory)
        shaping = Shaping(access, log, parking, _arrow_types(types))
        states = CurrentStates(
            current, shaping, chosen, bucket_counts, state.deleted_kept_h, parking, rejects
        )
        skips_losses = state.after_loss == "rebuild"
        snapshots = Snapshots(state.snapshots, log, checkpoint / "snapshots")
        options |= skip_gap(ways[""], checkpoint, states, snapshots, is_allowed=skips_losses)
        states.clean()
        rebuilds = Rebuilds(parking, states.selects, checkpoint / "rebuilds")
        rebuilds_itself = not once or skips_losses or rebuilds.may_begin()
        parking.warn(selects=states.selects, snapshots=snapshots.pending())
        ends_by_itself = once and not snapshots.pending() and not rebuilds_itself
        applier = _applier(states, table, checkpoint, session, state.apply_every_s)
        rows = read_log(session, options, reading.partitions).writeStream
        writer = _into_lake(rows, session, _batch_writer(table, copy, applier))
        stream = ChangeStream(
            triggered(writer, checkpoint, None if ends_by_itself else reading.trigger_s),
            snapshots=snapshots,
            rebuilds=rebuilds if rebuilds_itself else None,
            access=access,
            parking=parking,
            applier=applier,
            compact_every_s=math.inf if once else state.compact_every_s,
            vacuum_retention_h=state.vacuum_retention_h,
            log=log,
            lake=current.lake,
            consumer=name,
            shards=ways,
            keeper=keeper,
            checkpoint=copy,
            cleanup=cleanup.pop_all(),
            repeats=repeats_of(checkpoint) if ends_by_itself else 0,
        )
    if once:
        (stream.drain if ends_by_itself else stream.finish)(on_progress=on_progress)
    return stream


def _applier(
    states: CurrentStates,
    table: LakeTable,
    checkpoint: Path,
    session: SparkSession,
    every_s: float | None,
) -> Applier:
    from pgsluice.pipelines.current_state.applier import Applier
    from pgsluice.pipelines.current_state.event_files import tasks_in
    from pgsluice.pipelines.current_state.pending import Pending, pending_folder

    pending, run = Pending(pending_folder(checkpoint)), partial(tasks_in, session)
    return Applier(states, table, pending, tasks=run, every_s=every_s, has_sink=is_connect(session))


def _into_lake(
    rows: DataStreamWriter, session: SparkSession, write: Callable[[DataFrame, int], None]
) -> DataStreamWriter:
    """Return the writer: a function of foreachBatch, or in Spark Connect a sink, as functions share no state there."""
    if not is_connect(session):
        return rows.foreachBatch(concise(write))
    from pgsluice.pipelines.current_state.event_sink import EventSink

    register_source(session, EventSink)
    return rows.format(EventSink.name())


def _batch_writer(
    table: LakeTable, checkpoint: CheckpointCopy, applier: Applier
) -> Callable[[DataFrame, int], None]:
    from pgsluice.pipelines.current_state.event_files import write_files

    def write(events: DataFrame, batch_id: int) -> None:
        app_id = MicroBatch.of(events.sparkSession.sparkContext).app_id
        # The files are also the source of the current state, so the database is read once, and nothing is cached.
        written = with_retries(lambda: write_files(events, table))
        checkpoint.publish()
        table.commit(written.files, app_id=app_id, version=batch_id)
        if written.files:
            record_written(checkpoint.local, app_id, batch_id)
        applier.add(app_id, batch_id, written)

    return write


def _arrow_types(column_types: Mapping[ColumnName, str]) -> dict[ColumnName, pa.DataType]:
    """Return types of columns from Spark's notation; a session must run."""
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql.types import DataType, StructType

    from pgsluice.lake.nested import is_nested
    from pgsluice.spark.schemas import arrow_schema

    found = {}
    for column, text in column_types.items():
        try:
            kind = arrow_schema(StructType().add("value", DataType.fromDDL(text))).field(0).type
        except PySparkException as error:
            raise ConfigurationError(
                f"invalid type {text!r} of column {column}: {one_line(str(error))}; use string, or a type such as "
                "array<bigint> or struct<name: string>"
            ) from None
        if not (is_nested(kind) or pa.types.is_string(kind)):
            raise ConfigurationError(
                f"column {column} cannot be stored as {text}; use string, array<...> or struct<...>"
            )
        found[column] = kind
    return found
