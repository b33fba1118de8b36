"""An event log into a table of the lake: the pipeline `events`.

stream = events("orders", "/lake/orders", "/lake/orders.checkpoint")   # runs until stop()
stream.catch_up(deadline_s=60)     # everything committed before this call is in the lake
stream.stop()

events("orders", "/lake/orders", "/lake/orders.checkpoint", once=True)  # what is there now, then ends
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.errors import LogStateError
from pgsluice.lake.address import IcebergAddress, parse
from pgsluice.pipelines.paths import (
    consumer_name,
    folder,
    note_consumer,
    noted_consumer,
    open_table,
    session_for,
)
from pgsluice.spark.access import access_for
from pgsluice.spark.extra import require_extra
from pgsluice.spark.offsets import Offset
from pgsluice.spark.retry import patiently
from pgsluice.spark.running import Progress, RunningStream
from pgsluice.spark.shards import LogShard, decode, encode, open_shards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter


class EventStream(RunningStream):
    """A running stream from an event log into a table of the lake; made by `events`.

    A context manager: leaving it stops the stream.
    """

    def __init__(
        self,
        writer: DataStreamWriter,
        *,
        log: str,
        lake: Path | IcebergAddress,
        consumer: str,
        shards: Mapping[str, LogShard],
        cleanup: ExitStack,
    ) -> None:
        self.log = log
        self.lake = lake
        self.consumer = consumer
        self._shards = shards
        for shard in shards.values():
            cleanup.callback(shard.close)
        super().__init__(
            writer, what=f"the stream of event log {log!r}", cleanup=cleanup, target=str(lake)
        )

    @property
    def tick(self) -> int | None:
        """The lake holds everything up to this tick; None before the first answer of Spark.

        There is none with offsets=snapshots; of several shards `offset` has one for each.
        """
        offset = self.offset()
        return None if offset is None else offset.get("tick")

    def catch_up(self, *, deadline_s: float = 120.0) -> Progress:
        """Wait until everything committed before this call is in the lake.

        Raises:
            PrivilegeError: Offsets are ticks, and the role may not tick the log.
            SluiceError: The stream failed or ended, or did not get there in time.
        """
        if self.has_ended():
            raise LogStateError(f"{self.what} has ended; start it again")
        wanted = {name: shard.now() for name, shard in self._shards.items()}

        def arrived() -> bool:
            offsets = self._offsets()
            return all(
                name in offsets and self._shards[name].has_reached(offsets[name], offset)
                for name, offset in wanted.items()
            )

        self.wait_until(arrived, f"did not reach {encode(wanted)}", deadline_s=deadline_s)
        return self.progress()

    def settle(self) -> None:
        """Tell the log how far the lake is, so that it may forget what is there.

        Spark tells it of a micro-batch only when the next one is planned.
        """
        for name, offset in self._offsets().items():
            self._shards[name].commit(offset)
        for shard in self._shards.values():
            shard.close()

    def _offsets(self) -> dict[str, Offset]:
        offset = self.offset()
        return {} if offset is None else decode(offset, self._shards)


def events(
    log: str,
    lake: str | Path,
    checkpoint: str | Path,
    *,
    dsn: str | None = None,
    shards: Mapping[str, str] | None = None,
    consumer: str | None = None,
    once: bool = False,
    starting: str = "earliest",
    offsets: str = "ticks",
    max_rows_per_trigger: int = 200_000,
    trigger_s: float = 1.0,
    partitions: int | None = None,
    spark: SparkSession | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> EventStream:
    """Stream an event log into a table of the lake, each committed event once, whatever dies in between.

    Args:
        log: An existing event log.
        lake: The table's folder, or `iceberg:catalogue/namespace.table`; made when it is not there. One log for
            one table.
        checkpoint: A folder for Spark's notes on how far it is. Table and checkpoint belong together.
        dsn: Where to connect; by the rule of `pgsluice.connection` when None. A password in it goes to
            Spark's workers through a file in the temporary folder that only this user can read,
            deleted when the stream or the program ends; after a kill -9, when this user's next such file
            is made. On a cluster give `env:NAME` or `file:PATH`: a variable or a file that every machine has.
        shards: Several databases instead, whatever `dsn` is, each with a log of this name: what to call it in the
            table's column `shard`, and where to connect.
        consumer: The name under which the log keeps what the stream has not read; when None the one that the
            checkpoint was begun with, made from the table's folder. Unregister it when the pipeline is given up.
        once: Read what is there now and return when it is in the lake; otherwise return at once.
        starting: Where the first run begins: `earliest`, `latest`, `committed`, `{"tick": 12}` or
            `{"snapshot": "1005:1008:1005"}`.
        offsets: `ticks`, or `snapshots`, which divide a backlog as finely as asked and wait for no tick.
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
    from pgsluice.spark.stream import log_schema

    place, notes = parse(lake), folder(checkpoint, "checkpoint")
    name = consumer or noted_consumer(notes) or consumer_name(place)
    with ExitStack() as cleanup:
        options = {
            **_place(dsn, shards, cleanup),
            "log": log,
            "consumer": name,
            "startingOffsets": starting,
            "offsets": offsets,
            "maxRowsPerTrigger": str(max_rows_per_trigger),
        }
        ways = known_shards(options)
        table = open_table(place, notes, log_schema(options))
        note_consumer(name, notes)
        session = session_for(spark, "pgsluice events")
        writer = read_log(session, options, partitions).writeStream.format(table.format_name)
        stream = EventStream(
            triggered(writer, notes, None if once else trigger_s),
            log=log,
            lake=place,
            consumer=name,
            shards=ways,
            cleanup=cleanup.pop_all(),
        )
        if once:
            stream.drain(on_progress=on_progress)
        return stream


def known_shards(options: Mapping[str, str]) -> dict[str, LogShard]:
    """The shards of a stream; an unknown log is named here, before Java starts."""
    shards = open_shards(options)
    for shard in shards.values():
        with closing(shard):
            shard.look()
    return shards


def read_log(
    session: SparkSession, options: Mapping[str, str], partitions: int | None
) -> DataFrame:
    """The stream that options describe, read by so many tasks at once; by Spark's parallelism when None."""
    tasks = str(partitions or session.sparkContext.defaultParallelism)
    reader = session.readStream.format("pgsluice").options(**options)
    return patiently(reader.option("numPartitions", tasks).load)


def triggered(writer: DataStreamWriter, notes: Path, trigger_s: float | None) -> DataStreamWriter:
    """The writer with its checkpoint and trigger: every so many seconds, or what is there now when None."""
    writer = writer.option("checkpointLocation", str(notes))
    if trigger_s is None:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{int(trigger_s * 1000)} milliseconds")


def _place(dsn: str | None, shards: Mapping[str, str] | None, cleanup: ExitStack) -> dict[str, str]:
    """The options that say where to connect."""
    if shards is None:
        return access_for(dsn, cleanup).options()
    return {
        "shards": json.dumps(
            {shard: access_for(one, cleanup).options() for shard, one in shards.items()}
        )
    }
