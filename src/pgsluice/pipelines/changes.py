"""Captured changes into the lake, and the current state of each captured table: the pipeline `changes`.

stream = changes("changes", "/lake/shop", "/lake/shop.checkpoint", snapshots=["public.account"])
stream.catch_up()                                # everything committed before this call is in the lake
live(spark, "/lake/shop", "public.account")      # the rows that the table has
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgsluice.errors import ConfigurationError
from pgsluice.lake.file_errors import require_writable
from pgsluice.pipelines.events import EventStream, known_shards, read_log, triggered
from pgsluice.pipelines.paths import (
    consumer_name,
    folder,
    note_consumer,
    noted_consumer,
    open_table,
    session_for,
)
from pgsluice.spark.access import Access, access_for
from pgsluice.spark.extra import require_extra
from pgsluice.spark.micro_batch import MicroBatch
from pgsluice.spark.retry import patiently
from pgsluice.spark.running import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from pgsluice.pipelines.current_state.apply import CurrentStates
    from pgsluice.pipelines.current_state.snapshot import Snapshots

_LOOK_AGAIN_S = 0.1
DELETED_KEPT_H = 168.0
BUCKETS_MAX = 100_000


class ChangeStream(EventStream):
    """A running stream of captured changes into the lake; made by `changes`.

    Beside it, a thread takes the snapshots that are pending.
    """

    def __init__(
        self, writer: DataStreamWriter, *, snapshots: Snapshots, access: Access, **place: Any
    ) -> None:
        super().__init__(writer, **place)
        self.snapshots = snapshots
        self._access = access
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        if snapshots.pending():
            self._thread = threading.Thread(target=self._take, daemon=True)
            self._cleanup.callback(self._end_snapshots)
            self._thread.start()

    def has_ended(self) -> bool:
        if self._failure is not None:
            self.query.stop()
            self._cleanup.close()
            raise self._failure
        return super().has_ended()

    def finish(self, *, on_progress: Callable[[Progress], None] | None = None) -> Progress:
        """Wait until the snapshots, and everything committed before this call, are in the lake; then stop.

        Raises:
            SluiceError: The stream or a snapshot failed.
        """

        def taken() -> bool:
            if on_progress is not None:
                on_progress(self.progress())
            return not self.snapshots.pending()

        self.wait_until(taken, "did not take its snapshots", deadline_s=math.inf)
        self.catch_up(deadline_s=math.inf)
        progress = self.stop()
        if on_progress is not None:
            on_progress(progress)
        return progress

    def _take(self) -> None:
        try:
            # When the stream has looked at the log its consumer is registered: what is appended is kept for it.
            while super().offset() is None and self.query.isActive:
                if self._stop.wait(_LOOK_AGAIN_S):
                    return
            self.snapshots.take(self._access, self._stop)
        except BaseException as failure:  # noqa: BLE001 - has_ended raises it again
            self._failure = failure

    def _end_snapshots(self) -> None:
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()


def changes(
    log: str,
    lake: str | Path,
    checkpoint: str | Path,
    *,
    dsn: str | None = None,
    consumer: str | None = None,
    once: bool = False,
    starting: str = "earliest",
    snapshots: Sequence[str] = (),
    tables: Sequence[str] | None = None,
    buckets: Mapping[str, int] | None = None,
    text_columns: Sequence[str] = (),
    deleted_kept_h: float = DELETED_KEPT_H,
    max_rows_per_trigger: int = 200_000,
    trigger_s: float = 1.0,
    partitions: int | None = None,
    spark: SparkSession | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> ChangeStream:
    """Stream captured changes into the lake: each event once, and what every table is now.

    `LAKE/events` gets every event of the log. `LAKE/current/schema.table` is the current state of each table whose
    changes are among them; `pgsluice.pipelines.current_state.table` says what is in it. Each of these tables takes a
    micro-batch in one commit and once, whatever dies in between.

    Args:
        log: An event log that `sluice.capture`, `pgq.jsontriga` or `pgq.logutriga` write to.
        lake: The folder of all these tables; made when it is not there. One log for one lake.
        checkpoint: A folder for Spark's notes on how far it is. Lake and checkpoint belong together.
        dsn, consumer, once, starting, max_rows_per_trigger, trigger_s, partitions, spark, on_progress: See `events`.
        snapshots: Tables, captured by `sluice.capture`, whose rows of before are wanted too. They are appended to the
            log, once for each checkpoint, by a thread beside the stream; with `once`, before this returns. Interrupted,
            it goes on in the next run. Writers go on.
        tables: Tables that get a current state, as `schema.table`; all of which there are changes when None.
        buckets: Tables too large for the driver, as `schema.table`, and into how many buckets each is divided: changes
            are applied by Spark's executors then. It stays as it was when the table's current state was made.
        text_columns: Columns, as `schema.table.column`, that are text in the lake: where a value does not fit the type.
        deleted_kept_h: For how many hours at least a deleted row leaves a trace, 0 or more.

    Returns:
        The stream. With `once` it has ended.

    Raises:
        MissingExtraError, MissingJavaError: See `session`.
        ConfigurationError: Lake and checkpoint do not belong together, or a table or a column cannot be kept.
        LogNotFoundError: There is no such event log.
        CaptureError: A table of `snapshots` is not captured into this log; without `once` the stream says so.
        SluiceError: A change cannot be read or applied, or anything else that stopped the stream.
    """
    require_extra()
    from pgsluice.pipelines.current_state.apply import CurrentStates
    from pgsluice.pipelines.current_state.snapshot import Snapshots
    from pgsluice.spark.stream import LOG_SCHEMA

    lake_folder, notes = folder(lake, "lake"), folder(checkpoint, "checkpoint")
    events_folder = lake_folder / "events"
    name = consumer or noted_consumer(notes) or consumer_name(lake_folder)
    with ExitStack() as cleanup:
        access = access_for(dsn, cleanup)
        states = CurrentStates(
            lake_folder / "current",
            access,
            None if tables is None else frozenset(tables),
            _checked(buckets or {}),
            frozenset(text_columns),
            deleted_kept_h,
        )
        options = {
            **access.options(),
            "log": log,
            "consumer": name,
            "startingOffsets": starting,
            "maxRowsPerTrigger": str(max_rows_per_trigger),
        }
        ways = known_shards(options)
        open_table(events_folder, notes, LOG_SCHEMA)
        require_writable(lake_folder / "current", "lake")
        note_consumer(name, notes)
        session = session_for(spark, "pgsluice changes")
        wanted = Snapshots(snapshots, log, notes / "snapshots")
        ends_by_itself = once and not wanted.pending()
        rows = read_log(session, options, partitions)
        writer = rows.writeStream.foreachBatch(_batch_writer(events_folder, states))
        stream = ChangeStream(
            triggered(writer, notes, None if ends_by_itself else trigger_s),
            snapshots=wanted,
            access=access,
            log=log,
            lake=lake_folder,
            consumer=name,
            shards=ways,
            cleanup=cleanup.pop_all(),
        )
    if ends_by_itself:
        stream.drain(on_progress=on_progress)
    elif once:
        stream.finish(on_progress=on_progress)
    return stream


def _batch_writer(events_folder: Path, states: CurrentStates) -> Callable[[DataFrame, int], None]:
    def write(events: DataFrame, batch_id: int) -> None:
        app_id = MicroBatch.of(events.sparkSession.sparkContext).app_id
        # Two readers follow, and the database is to be asked once.
        events.persist()
        try:
            writer = events.write.format("pgsluice-delta").mode("append")
            writer = writer.option("txnAppId", app_id).option("txnVersion", str(batch_id))
            patiently(lambda: writer.save(str(events_folder)))
            patiently(lambda: states.apply(events, app_id=app_id, version=batch_id))
        finally:
            events.unpersist()

    return write


def _checked(buckets: Mapping[str, int]) -> dict[str, int]:
    for table, count in buckets.items():
        if not 2 <= count <= BUCKETS_MAX:
            raise ConfigurationError(
                f"buckets of {table} are {count}; use a number from 2 to {BUCKETS_MAX}"
            )
    return dict(buckets)
