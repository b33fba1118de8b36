"""An event log as a stream: a micro-batch is what one snapshot sees and an earlier one does not, so that it has the
same rows whenever and however often it is read, and a transaction that commits late is in a later one.

Options beside those of `source`:
    log                 The event log's name.
    offsets             `ticks` (default): micro-batches end at ticks of the log, of which one every few seconds is
                        usual. `snapshots`: they end wherever asked; a backlog is cut between any two transactions,
                        new events wait for no tick. Read by snapshots on the primary only.
    startingOffsets     Where a new query begins: `earliest` (default), `latest`, `committed` where the consumer
                        stands, `{"tick": 12}` or `{"snapshot": "1005:1008:1005"}`.
    startingTimestamp   Or this: the last tick at or before a moment, in milliseconds since 1970 or ISO 8601.
    startingOffsetsByTimestampStrategy
                        For a moment that has not come yet: `error` (default) or `latest`.
    consumer            A consumer's name. It is registered, and the log keeps what it has not seen; one
                        query for one name. Needed for `latest` and `committed`. Where it is not registered any
                        more, or under this name not yet, it is registered at the checkpoint's offset if everything
                        after that is still there, with a line on standard error; else the stream stops. Without it,
                        nothing stops the log from forgetting events before they are read.
    maxRowsPerTrigger   About the most events in a micro-batch (200000; Kafka's name `maxOffsetsPerTrigger`
                        is taken too). What lies between two ticks is not divided, and a transaction never.
    minOffsetsPerTrigger, maxTriggerDelay
                        Wait for so many events (1), but not longer than this after the last micro-batch (15m).
                        Not with `Trigger.AvailableNow`.
    autoTick            Whether the stream ticks the log when it is time (true). A role that may not tick
                        leaves it to others.
    failOnDataLoss      Whether to stop when events are lost (true): the log no longer keeps what comes after the
                        checkpoint, was dropped and made again, or its server was replaced or restored. Otherwise
                        the stream goes on from the oldest tick that is kept, with a line on standard error.
    reader, connect.retries, connect.retryIntervalMs
                        How tasks read: see `batch`.
    lowLatency          Read on the driver, without tasks (false): half the delay, for small rates. See `low_latency`.
    shards              Several databases with a log of this name each, as one stream with an offset for each: a JSON
                        object such as `{"eu": {"dsnFile": "/etc/eu.dsn"}, "us": {"dsnEnv": "US_DSN"}}`, instead
                        of `dsn`. Rows have a column `shard` then. A shard that is added begins where a new query
                        would. The limits of a micro-batch are divided among the shards.

With `Trigger.AvailableNow` everything committed before the start is read; by ticks only if the role may tick.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pgsluice.spark.arrow_io import QueryPartition, Reading, read_batches
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
    """The columns of a log's stream, with `shard` where there are several."""
    return LOG_SCHEMA if not options.get("shards") else struct(shard="string", **_types(LOG_SCHEMA))


@dataclass(frozen=True)
class ShardPartition(InputPartition):  # type: ignore[misc]
    """One query, and the shard to ask.

    Attributes:
        shard: Its name.
        query: The query.
        kept: The snapshot after which the log must still have everything when the query is done; None where
            losses are allowed.
    """

    shard: str
    query: QueryPartition
    kept: str | None = None


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Read an event log, or one of several shards, between offsets.

    Spark keeps one of these in a process on the driver for the planning, and sends copies to the
    executors, who only call `read`.
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
        # Asked again after a crash until the first micro-batch is committed: the answer must stay.
        return encode({name: shard.first() for name, shard in self.shards.items()})

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self.is_now = True
        for shard in self.shards.values():
            shard.pin()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        share = None
        if isinstance(limit, ReadMaxRows):
            share = -(-limit.max_rows // len(self.shards))
        begin = decode(start, self.shards)
        end = {
            name: shard.end(begin[name], share) if name in begin else shard.first()
            for name, shard in self.shards.items()
        }
        return start if self._is_too_little(begin, end) else encode(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[ShardPartition]:
        begin, finish = decode(start, self.shards), decode(end, self.shards)
        columns = [name for name in self.schema.names if not self._is_shard_column(name)]
        slice_count = max(1, self.options.slice_count // len(self.shards))
        return [
            ShardPartition(
                name,
                QueryPartition(query),
                str(begin[name].snapshot) if self.options.fail_on_data_loss else None,
            )
            for name, shard in self.shards.items()
            # A shard that was added begins with the next micro-batch.
            if name in begin and name in finish
            for query in shard.queries(
                begin[name], finish[name], columns=columns, slice_count=slice_count
            )
        ]

    def commit(self, end: dict[str, Any]) -> None:
        for name, offset in decode(end, self.shards).items():
            self.shards[name].commit(offset)

    def stop(self) -> None:
        for shard in self.shards.values():
            shard.close()

    # --- reading, on the executors -------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Told that there is nothing to read, Spark makes up a partition of its own.
        if not isinstance(partition, ShardPartition):
            return
        yield from self._rows(partition)
        if partition.kept is not None:
            # A segment that was emptied reads like one without events. A consumer may have been unregistered.
            shard = self.shards[partition.shard]
            try:
                shard.require(partition.kept)
            finally:
                if self.is_copy:
                    shard.close()

    # --- inside --------------------------------------------------------------------------------------

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
        """Whether to wait for more."""
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
