"""An event log into a Delta table: the pipeline `events`.

stream = events("orders", "/lake/orders", "/lake/orders.checkpoint")   # runs until stop()
stream.catch_up(deadline_s=60)     # everything committed before this call is in the lake
stream.stop()

events("orders", "/lake/orders", "/lake/orders.checkpoint", once=True)  # what is there now, then ends
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgsluice.client.calls import spark as calls
from pgsluice.errors import LogStateError
from pgsluice.spark.access import Access, driver_connection, run
from pgsluice.spark.patience import patiently
from pgsluice.spark.pipelines.places import (
    access_for,
    consumer_name,
    folder,
    open_table,
    session_for,
)
from pgsluice.spark.running import Progress, RunningStream
from pgsluice.spark.session import require_extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter


class EventStream(RunningStream):
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
        self.log = log
        self.lake = lake
        self.consumer = consumer
        self._access = access
        super().__init__(
            writer, what=f"the stream of event log {log!r}", cleanup=cleanup, target=str(lake)
        )

    @property
    def tick(self) -> int | None:
        """The lake holds everything up to this tick; None before the first answer of Spark."""
        offset = self.offset()
        return None if offset is None else offset["tick"]

    def catch_up(self, *, deadline_s: float = 120.0) -> Progress:
        """Wait until everything committed before this call is in the lake.

        Raises:
            PrivilegeError: The role may not tick the log.
            SluiceError: The stream failed or ended, or did not get there in time.
        """
        if self.has_ended():
            raise LogStateError(f"{self.what} has ended; start it again")
        wanted = self._ask(calls.log_tick(self.log))

        def arrived() -> bool:
            tick = self.tick
            return tick is not None and tick >= wanted

        self.wait_until(arrived, f"did not reach tick {wanted}", deadline_s=deadline_s)
        return self.progress()

    def settle(self) -> None:
        """Tell the log how far the lake is, so that it may forget what is there.

        Spark tells it of a micro-batch only when the next one is planned.
        """
        tick = self.tick
        if tick is not None:
            self._ask(calls.log_commit(self.log, self.consumer, tick))

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
    from pgsluice.spark.stream import LOG_SCHEMA

    table_folder, notes = folder(lake, "lake"), folder(checkpoint, "checkpoint")
    name = consumer or consumer_name(table_folder)
    with ExitStack() as cleanup:
        access = access_for(dsn, cleanup)
        with driver_connection(access, autocommit=True) as database:
            # An unknown log is named before Java starts.
            run(database, calls.log_incarnation(log), access.conninfo())
        session = session_for(spark, "pgsluice events")
        open_table(table_folder, notes, LOG_SCHEMA)
        options = {
            **access.options(),
            "log": log,
            "consumer": name,
            "startingOffsets": starting,
            "maxRowsPerTrigger": str(max_rows_per_trigger),
            "numPartitions": str(partitions or session.sparkContext.defaultParallelism),
        }
        rows = patiently(lambda: session.readStream.format("pgsluice").options(**options).load())
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
