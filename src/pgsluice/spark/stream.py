"""Stream an event log: a micro-batch has the events visible to one snapshot and not to an earlier one.

So replays return the same rows, and a transaction that commits late is in a later micro-batch.

Options in addition to those of `source`:
    log                 Name of the event log.
    offsets             `ticks` (default): micro-batches end at ticks of the log, usually one every few seconds.
                        `snapshots`: they end at any snapshot; a backlog is divided between any two transactions, and
                        new events do not wait for a tick. Snapshot offsets require the primary.
    startingOffsets     Start of a new query: `earliest` (default), `latest`, `committed` (the consumer position),
                        `{"tick": 12}` or `{"snapshot": "1005:1008:1005"}`.
    startingTimestamp   Instead: the last tick at or before a time, in milliseconds since 1970 or ISO 8601.
    startingOffsetsByTimestampStrategy
                        For a time in the future: `error` (default) or `latest`.
    consumer            Name of the consumer to register, one per query; the log retains events it has not finished.
                        Required for `latest` and `committed`. If it is not registered when a checkpoint exists, it is
                        registered at the checkpoint's offset, with a line on standard error, provided all later events
                        still exist; otherwise the stream fails. Without a consumer, the log may remove events before
                        they are read.
    commitOffsets       Move the consumer to the end of a micro-batch when Spark plans the next one (true). If false,
                        the caller does, as the pipelines do.
    maxRowsPerTrigger   Approximate maximum of events per micro-batch (200000; also Kafka's name
                        `maxOffsetsPerTrigger`). Tick intervals, and with snapshots transactions, are not divided.
    minOffsetsPerTrigger, maxTriggerDelay
                        Wait for a minimum number of events (1), up to a delay after the last micro-batch (15m).
                        Ignored with `Trigger.AvailableNow`.
    autoTick            Tick the log when due (true). Skipped without the privilege.
    failOnDataLoss      Fail if events are lost (true): the log no longer keeps events after the checkpoint, was dropped
                        and recreated, or its server was replaced or restored. If false, the stream continues from the
                        oldest tick kept, with a line on standard error.
    lossPermittedAfter  Continue after lost events only at these offsets: their snapshots, separated by spaces (none).
    lossHint          End of the error of lost events, which tells what to do.
    reader, connect.retries, connect.retryIntervalMs
                        See `batch`.
    lowLatency          Read on the driver, without tasks (false): half the delay, for low rates. See `low_latency`.
    shards              Several databases, each with a log of this name, as one stream with an offset per shard: a JSON
                        object such as `{"eu": {"dsnFile": "/etc/eu.dsn"}, "us": {"dsnEnv": "US_DSN"}}`, or the path of
                        a file of shards, which ends in `.toml`; instead of `dsn`. Adds a column `shard`. A new shard
                        starts as a new query does. The limits of a micro-batch are divided among the shards; what one
                        does not use is left to the others.

`Trigger.AvailableNow` reads everything committed before the start; with tick offsets only if the role may tick.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pgsluice.spark.arrow_io import QueryPartition, Reading, read_batches
from pgsluice.spark.features import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pgsluice.spark.offsets import Offset
from pgsluice.spark.schemas import arrow_schema, struct
from pgsluice.spark.shards import decode, encode, open_shards

LOG_SCHEMA = struct(
    ev_id="long",
    ev_time="timestamp",
    ev_txid="long",
    ev_type="string",
    ev_data="string",
    ev_extra1="string",
    ev_extra2="string",
    ev_extra3="string",
    ev_extra4="string",
)


def log_schema(options: Mapping[str, str]) -> StructType:
    """Return the columns of a log stream, with `shard` if the option shards is set."""
    return LOG_SCHEMA if not options.get("shards") else struct(shard="string", **_types(LOG_SCHEMA))


@dataclass(frozen=True)
class ShardPartition(InputPartition):  # type: ignore[misc]
    """Query on one shard.

    Attributes:
        shard: Name of the shard.
        query: The query.
        kept: The log must still have all events after this snapshot when the query is done; None if data loss is
            permitted.
    """

    shard: str
    query: QueryPartition
    kept: str | None = None


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Read an event log, or the logs of several shards, between offsets.

    Spark keeps one reader in a process on the driver for planning, and sends copies to the executors, which only call
    `read`.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.shards = open_shards(options)
        self.options = next(iter(self.shards.values())).options
        self.schema = arrow_schema(schema)
        self.reading = Reading.from_options(options)
        self.is_copy = False
        self.is_now = False
        self.released_at = -float("inf")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "is_copy": True}

    # --- planning, on the driver ---------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        # Spark calls this again after a crash until the first micro-batch is committed; the result must be stable.
        return encode({name: shard.first() for name, shard in self.shards.items()})

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self.is_now = True
        for shard in self.shards.values():
            shard.pin()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = decode(start, self.shards)
        end = self._ends(begin, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        return start if self._is_too_little(begin, end) else encode(end)

    def reportLatestOffset(self) -> dict[str, Any]:
        # Shown in Spark's progress next to the end of the micro-batch.
        return encode({name: shard.now(ticked=False) for name, shard in self.shards.items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[ShardPartition]:
        begin, finish = decode(start, self.shards), decode(end, self.shards)
        columns = [name for name in self.schema.names if not self._is_shard_column(name)]
        # A new shard starts with the next micro-batch.
        ranges = {
            name: (begin[name], finish[name])
            for name in self.shards
            if name in begin and name in finish and begin[name] != finish[name]
        }
        slice_count = max(1, self.options.slice_count // max(1, len(ranges)))
        return [
            ShardPartition(
                name,
                QueryPartition(query),
                None if self.options.permits_loss(begin[name]) else str(begin[name].snapshot),
            )
            for name, (first, last) in ranges.items()
            for query in self.shards[name].queries(
                first, last, columns=columns, slice_count=slice_count
            )
        ]

    def commit(self, end: dict[str, Any]) -> None:
        if not self.options.commits:
            return
        for name, offset in decode(end, self.shards).items():
            self.shards[name].commit(offset)

    def stop(self) -> None:
        for shard in self.shards.values():
            shard.close()

    # --- reading, on the executors -------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # If there are no partitions, Spark passes a default one.
        if not isinstance(partition, ShardPartition):
            return
        yield from self._rows(partition)
        if partition.kept is not None:
            # A truncated segment reads as empty, which is possible if the consumer was unregistered.
            shard = self.shards[partition.shard]
            try:
                shard.require(partition.kept)
            finally:
                if self.is_copy:
                    shard.close()

    # --- inside --------------------------------------------------------------------------------------

    def _ends(self, begin: dict[str, Offset], max_rows: int | None) -> dict[str, Offset]:
        """Return the end of each shard; what some have less than their share of `max_rows` is left to the others."""
        share = None if max_rows is None else -(-max_rows // len(self.shards))
        end = {
            name: shard.end(begin[name], share) if name in begin else shard.first()
            for name, shard in self.shards.items()
        }
        if share is None or len(begin) < 2:
            return end
        found = {name for name in begin if end[name] != begin[name]}
        full = {
            name
            for name in found
            if not self.shards[name].has_reached(
                end[name], self.shards[name].end(begin[name], None)
            )
        }
        if not full or len(full) == len(self.shards):
            return end
        left = share * len(self.shards) - sum(
            self.shards[name].count(begin[name], end[name], share) for name in found
        )
        more = share + max(0, left) // len(full)
        return end | {name: self.shards[name].end(begin[name], more) for name in full}

    def _rows(self, partition: ShardPartition) -> Iterator[pa.RecordBatch]:
        access, query = self.shards[partition.shard].access, partition.query.query
        if not any(map(self._is_shard_column, self.schema.names)):
            yield from read_batches(access, query, self.schema, reading=self.reading)
            return
        place = self.schema.get_field_index("shard")
        for batch in read_batches(access, query, self.schema.remove(place), reading=self.reading):
            names = pa.repeat(pa.scalar(partition.shard, self.schema.field(place).type), len(batch))
            columns = [*batch.columns[:place], names, *batch.columns[place:]]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _is_shard_column(self, name: str) -> bool:
        return name == "shard" and "" not in self.shards

    def _is_too_little(self, begin: dict[str, Offset], end: dict[str, Offset]) -> bool:
        """True if the stream should wait for more events."""
        least, now = self.options.min_rows, time.monotonic()
        if not self.is_now and least > 1 and now < self.released_at + self.options.max_delay_s:
            found = 0
            for name, shard in self.shards.items():
                if name in begin and found < least:
                    found += shard.count(begin[name], end[name], least - found)
            if found < least:
                return True
        self.released_at = now
        return False


def _types(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.typeName() for field in schema.fields}
