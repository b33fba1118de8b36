"""An event log into a table of the lake: the pipeline `events`.

stream = events("orders", "/lake/orders", "/lake/orders.checkpoint")   # runs until stop()
stream.catch_up(deadline_s=60)     # everything committed before this call is in the lake
stream.stop()

events("orders", "/lake/orders", "/lake/orders.checkpoint", once=True)  # process the backlog, then end
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.errors import LogStateError
from pgsluice.lake.address import IcebergAddress, IcebergNamespace, parse
from pgsluice.lake.storage import Folder
from pgsluice.pipelines.keeper import Keeper
from pgsluice.pipelines.options import StreamOptions
from pgsluice.pipelines.paths import (
    delta_folder,
    local_folder,
    open_table,
    own_consumer,
    record_consumer,
    session_for,
)
from pgsluice.spark.access import access_for
from pgsluice.spark.checkpoint import is_interrupted, local_url
from pgsluice.spark.extra import require_extra
from pgsluice.spark.offsets import Offset
from pgsluice.spark.offsets import starting as check_start
from pgsluice.spark.retry import with_retries
from pgsluice.spark.running import Progress, RunningStream
from pgsluice.spark.session import default_parallelism
from pgsluice.spark.shards import LogShard, decode, encode, open_shards, places_of
from pgsluice.spark.stored_checkpoint import CheckpointCopy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter


EVENT_DATE = "ev_date"
# Not to_date, which depends on the time zone of the session.
_DATE = "date_from_unix_date(int(floor(unix_seconds(ev_time) / 86400)))"


class EventStream(RunningStream):
    """A running stream from an event log into a table of the lake; created by `events`.

    A context manager that stops the stream.
    """

    def __init__(
        self,
        writer: DataStreamWriter,
        *,
        log: str,
        lake: Folder | IcebergAddress | IcebergNamespace,
        consumer: str,
        shards: Mapping[str, LogShard],
        keeper: Keeper,
        checkpoint: CheckpointCopy,
        cleanup: ExitStack,
        repeats: int = 0,
    ) -> None:
        self.log = log
        self.lake = lake
        self.consumer = consumer
        self._shards = shards
        self._keeper = keeper
        self._checkpoint = checkpoint
        for shard in shards.values():
            cleanup.callback(shard.close)
        super().__init__(
            writer,
            what=f"the stream of event log {log!r}",
            cleanup=cleanup,
            target=str(lake),
            repeats=repeats,
        )
        keeper.start(
            lambda: (self.progress(), self._offsets()),
            is_active=lambda: self.query.isActive,
            end=lambda: self.query.stop(),
            before_commit=checkpoint.publish,
        )

    def progress(self) -> Progress:
        return replace(super().progress(), rows_left=self._keeper.rows_left)

    def has_ended(self) -> bool:
        if self._keeper.failure is not None:
            self.query.stop()
            self._cleanup.close()
            raise self._keeper.failure
        return super().has_ended()

    @property
    def tick(self) -> int | None:
        """The last tick in the lake; None before Spark's first offset.

        Not available with offsets=snapshots; with several shards see `offset`, which has one per shard.
        """
        offset = self.offset()
        return None if offset is None else offset.get("tick")

    def catch_up(self, *, deadline_s: float = 120.0) -> Progress:
        """Wait until everything committed before this call is in the lake.

        Raises:
            PrivilegeError: Offsets are ticks, and the role may not tick the log.
            SluiceError: The stream failed or ended, or the deadline passed.
        """
        if self.has_ended():
            raise LogStateError(f"{self.what} has ended; start it again")
        target = {name: shard.now() for name, shard in self._shards.items()}

        def arrived() -> bool:
            offsets = self._offsets()
            return all(
                name in offsets and self._shards[name].has_reached(offsets[name], offset)
                for name, offset in target.items()
            )

        self.wait_until(arrived, f"did not reach {encode(target)}", deadline_s=deadline_s)
        return self.progress()

    def settle(self) -> None:
        """Commit the lake's position to the log, so that it can rotate out the events before it.

        Spark commits a micro-batch only when it plans the next one.
        """
        self._checkpoint.publish()
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
    shards: Mapping[str, str] | Path | str | None = None,
    once: bool = False,
    offsets: str = "ticks",
    partition_by: Sequence[str] = (),
    reading: StreamOptions = StreamOptions(),
    spark: SparkSession | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> EventStream:
    """Stream an event log into a table of the lake, each committed event exactly once, across restarts.

    Args:
        log: An existing event log.
        lake: Folder of the table, on disk or as a URL such as `s3://bucket/orders`, or
            `iceberg:catalogue/namespace.table`; created if missing. One log per table.
        checkpoint: Folder of Spark's checkpoint, on the driver's disk or as a URL such as `s3://bucket/orders.checkpoint`.
            Table and checkpoint belong together.
        dsn: DSN; None: by the rule of `pgsluice.connection`. A password in it goes to Spark's workers through a file in
            the temporary folder that only this user can read, deleted when the stream or the program ends; after a
            kill -9, when this user's next such file is created. On a cluster use `env:NAME` or `file:PATH`: a variable
            or a file on every machine.
        shards: Several databases instead of `dsn`, each with a log of this name: values of the table's column `shard`
            to DSNs; or the path of a file of shards.
        once: Process the backlog and return when it is in the lake; otherwise return immediately.
        offsets: `ticks`, or `snapshots`, which can split a backlog anywhere and need no ticks.
        partition_by: Partition columns of a new table: columns of the log, or `ev_date`, a column with the date of
            `ev_time` in UTC. An existing table keeps its own.
        reading: How the log is read.
        spark: Spark session to use; None: start one.
        on_progress: Called periodically while `once` reads.

    Returns:
        The stream, ended if `once`.

    Raises:
        MissingExtraError, MissingJavaError: See `session`.
        ConfigurationError: Table and checkpoint do not belong together, or the table has other columns or other
            partition columns.
        LogNotFoundError: The event log does not exist.
        ConsumerInUseError: Another query runs under this consumer name.
        SluiceError: Any other error that stopped the stream.
    """
    require_extra()
    from pyspark.sql import functions as f
    from pyspark.sql.types import DateType, StructField, StructType

    from pgsluice.spark.lake_tables import table_at
    from pgsluice.spark.stream import log_schema

    place, stored = parse(lake), delta_folder(checkpoint, "checkpoint")
    name = reading.consumer or own_consumer(place, stored)
    with ExitStack() as cleanup:
        checkpoint = local_folder(stored, cleanup)
        options = {
            **_place(dsn, shards, cleanup),
            **log_options(log, name, reading),
            "offsets": offsets,
        }
        ways = known_shards(options)
        schema = log_schema(options)
        by = tuple(partition_by) or table_at(place, schema).partition_by
        if EVENT_DATE in by:
            schema = StructType([*schema, StructField(EVENT_DATE, DateType())])
        keeper = holding(ways, "events", place, cleanup)
        copy = CheckpointCopy.restored(stored, checkpoint)
        table = open_table(place, checkpoint, schema, partition_by=by)
        record_consumer(name, place, checkpoint)
        session = session_for(spark, "pgsluice events", driver_memory=reading.driver_memory)
        rows = read_log(session, options, reading.partitions)
        if EVENT_DATE in by:
            rows = rows.withColumn(EVENT_DATE, f.expr(_DATE))
        writer = rows.writeStream.format(table.format_name)
        stream = EventStream(
            triggered(writer, checkpoint, None if once else reading.trigger_s),
            log=log,
            lake=place,
            consumer=name,
            shards=ways,
            keeper=keeper,
            checkpoint=copy,
            cleanup=cleanup.pop_all(),
            repeats=repeats_of(checkpoint) if once else 0,
        )
        if once:
            stream.drain(on_progress=on_progress)
        return stream


def log_options(
    log: str,
    consumer: str,
    reading: StreamOptions,
    *,
    loss_hint: str = "start with another --checkpoint and another --lake",
) -> dict[str, str]:
    """Return the options of a pipeline that reads a log.

    Raises:
        ConfigurationError: `starting` is invalid.
    """
    check_start(reading.starting, option="starting", by_ticks=True)
    return {
        "log": log,
        "consumer": consumer,
        "startingOffsets": reading.starting,
        "maxRowsPerTrigger": str(reading.max_rows_per_trigger),
        "commitOffsets": "false",  # the keeper does
        "lossHint": loss_hint,
    }


def known_shards(options: Mapping[str, str]) -> dict[str, LogShard]:
    """Return the shards of a stream; raise for a missing log, before Java starts."""
    shards = open_shards(options)
    for shard in shards.values():
        with closing(shard):
            shard.check_log()
    return shards


def holding(shards: Mapping[str, LogShard], kind: str, lake: object, cleanup: ExitStack) -> Keeper:
    """Hold the consumer of a new stream until `cleanup`; raise if another query does, before Java starts."""
    keeper = Keeper(shards, kind=kind, lake=str(lake))
    cleanup.callback(keeper.close)
    keeper.hold()
    return keeper


def read_log(
    session: SparkSession, options: Mapping[str, str], partitions: int | None
) -> DataFrame:
    """Return the stream of these options, with `partitions` concurrent read tasks; None: Spark's parallelism."""
    tasks = str(partitions or default_parallelism(session))
    reader = session.readStream.format("pgsluice").options(**options)
    return with_retries(reader.option("numPartitions", tasks).load)


def triggered(
    writer: DataStreamWriter, checkpoint: Path, trigger_s: float | None
) -> DataStreamWriter:
    """Return the writer with checkpoint and trigger: every `trigger_s` seconds; None: the backlog once."""
    writer = writer.option("checkpointLocation", local_url(checkpoint))
    if trigger_s is None:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{int(trigger_s * 1000)} milliseconds")


def repeats_of(checkpoint: Path) -> int:
    """Return how often to repeat a run of the backlog: PySpark 4.0 and 4.1 end it after an interrupted micro-batch."""
    from pgsluice.spark.features import HAS_LIMITS

    return int(not HAS_LIMITS and is_interrupted(checkpoint))


def _place(
    dsn: str | None, shards: Mapping[str, str] | Path | str | None, cleanup: ExitStack
) -> dict[str, str]:
    """Return the connection options."""
    if shards is None:
        return access_for(dsn, cleanup).options()
    return {
        "shards": json.dumps(
            {shard: access_for(one, cleanup).options() for shard, one in places_of(shards).items()}
        )
    }
