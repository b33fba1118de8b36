"""Stream a work queue: claim messages for a query, replay them after a crash, and archive them once stored.

Options in addition to those of `source`:
    queue               Name of the work queue.
    consumer            Consumer name for the claims, unique to the query. Required.
    onCommit            Action on messages that the query has stored: `archive` (default) or `delete`.
    maxRowsPerTrigger   Maximum messages per micro-batch (50000; also Kafka's name `maxOffsetsPerTrigger`).

The query shares the queue with other consumers and obeys its limits: each message goes to only one consumer. Claims of
a query do not expire: restarted with its checkpoint, it reads them again. A micro-batch is settled, that is, its
messages are archived or deleted, when the query plans the next one; the last micro-batch of a stopped query is settled
by `settle(query)` or at its restart. A query that will not return leaves its claims behind; `drop_stream(consumer)`
makes these messages visible. The column `vt` is null, as claims do not expire.

`Trigger.AvailableNow` reads all messages that are visible at the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pgsluice.client.calls import spark_claims as calls
from pgsluice.errors import ConfigurationError
from pgsluice.spark.access import Access, driver_connection, run
from pgsluice.spark.arrow_io import QueryPartition, Reading, read_batches
from pgsluice.spark.features import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pgsluice.spark.options import PARTITIONS_DEFAULT, whole_number
from pgsluice.spark.reconnecting import ReconnectingConnection
from pgsluice.spark.running import reported_offset
from pgsluice.spark.schemas import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

# Claimed and archived in one transaction, which takes the server about a second.
MAX_ROWS_DEFAULT = 50_000
# For fewer messages, the overhead of a second task exceeds its gain.
_SLICE_MESSAGES_MIN = 10_000


class ClaimStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Read a work queue by claims; an offset is the sequence number of the last claimed micro-batch."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.queue_name = options["queue"]
        self.consumer_name = options.get("consumer") or ""
        if not self.consumer_name:
            raise ConfigurationError(
                "a stream of a work queue requires the option consumer, a unique name for its claims"
            )
        if options.get("table", "queue") != "queue":
            raise ConfigurationError(
                f"a stream reads the queue itself, not its {options['table']}; omit the option table"
            )
        self.archives = archives(options)
        limit = "maxRowsPerTrigger" if options.get("maxRowsPerTrigger") else "maxOffsetsPerTrigger"
        self.max_rows = whole_number(options, limit, MAX_ROWS_DEFAULT)
        self.slice_count = whole_number(options, "numPartitions", PARTITIONS_DEFAULT)
        self.schema = arrow_schema(schema)
        self.reading = Reading.from_options(options)
        self.access = Access.from_options(options)
        self.database = ReconnectingConnection(self.access)
        self.until: datetime | None = None  # set for AvailableNow
        self.is_done = False
        self.settled: dict[str, int] | None = None

    # --- planning, on the driver ---------------------------------------------------------------------

    def initialOffset(self) -> dict[str, int]:
        stream_id, seq = self.database.run(
            calls.queue_stream_start(self.consumer_name, self.queue_name)
        )
        return {"stream": stream_id, "seq": seq}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self.until = self.database.run(calls.clock())

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        # Spark calls this once it has committed the previous micro-batch. Its commit() would settle that only when new
        # messages arrive, but a queue with a limit on unfinished messages delivers none before that.
        self.commit(start)
        if isinstance(limit, ReadMaxRows):
            return self._claimed(start, min(limit.max_rows, 2**31 - 1))
        # Everything visible now, in several claims: one transaction each.
        if self.until is None:
            self.until = self.database.run(calls.clock())
        while (end := self._claimed(start, self.max_rows)) != start:
            start = end
        return end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[QueryPartition]:
        if end["seq"] <= start["seq"]:
            return []
        queries = self.database.run(
            calls.queue_stream_slices(
                start["stream"],
                start["seq"],
                end["seq"],
                slice_count=self.slice_count,
                slice_messages_min=_SLICE_MESSAGES_MIN,
                columns=self.schema.names,
            )
        )
        return [QueryPartition(query) for query in queries]

    def commit(self, end: dict[str, int]) -> None:
        if end != self.settled:
            self.database.run(
                calls.queue_stream_settle(end["stream"], end["seq"], archive=self.archives)
            )
            self.settled = end

    def stop(self) -> None:
        self.database.close()

    # --- reading, on the executors -------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # If there are no partitions, Spark passes a default one.
        if not isinstance(partition, QueryPartition):
            return iter(())
        return read_batches(self.access, partition.query, self.schema, reading=self.reading)

    # --- inside --------------------------------------------------------------------------------------

    def _claimed(self, start: dict[str, int], qty: int) -> dict[str, int]:
        """Return the offset after the next claim; the same if there is none."""
        if self.is_done:
            return start
        claimed = self.database.run(calls.queue_stream_claim(start["stream"], start["seq"], qty))
        if claimed is None:
            return start
        if self.until is not None and claimed.first_enqueued_at is not None:
            # All of these were enqueued after the start, so everything older has been read; stop after this one.
            self.is_done = claimed.first_enqueued_at > self.until
        return {"stream": start["stream"], "seq": claimed.seq}


def settle(query: StreamingQuery, *, options: Mapping[str, str] | None = None) -> int:
    """Settle the last micro-batch of a query without restarting it.

    Args:
        query: A stopped or terminated query. If it reads several queues, all must be in one database.
        options: Connection options and `onCommit`, as given to the query.

    Returns:
        The number of messages settled.

    Raises:
        SluiceError: The server refused it, or is unreachable.
    """
    options = options or {}
    progress = query.lastProgress
    access = Access.from_options(options)
    messages = 0
    for source in progress["sources"] if progress else ():
        offset = _offset(source["endOffset"])
        if offset is not None:
            call = calls.queue_stream_settle(
                offset["stream"], offset["seq"], archive=archives(options)
            )
            with driver_connection(access, autocommit=True) as connection:
                messages += run(connection, call, access.conninfo())
    return messages


def drop_stream(consumer: str, *, options: Mapping[str, str] | None = None) -> int | None:
    """Delete the stream of a consumer and make its unsettled messages visible.

    Messages already stored but not settled are delivered twice. Stop the query first; if restarted with its old
    checkpoint, it fails.

    Args:
        consumer: Consumer name of the claims.
        options: Connection options, as given to the query.

    Returns:
        The number of messages released; None if the stream does not exist.
    """
    access = Access.from_options(options or {})
    with driver_connection(access, autocommit=True) as connection:
        return run(connection, calls.queue_stream_drop(consumer), access.conninfo())


def archives(options: Mapping[str, str]) -> bool:
    """Parse the option onCommit: True for archive, False for delete.

    Raises:
        ConfigurationError: It is neither archive nor delete.
    """
    what = options.get("onCommit", "archive")
    if what not in ("archive", "delete"):
        raise ConfigurationError(f"onCommit is {what!r}; use archive or delete")
    return what == "archive"


def _offset(text: Any) -> dict[str, int] | None:
    offset = reported_offset(text)
    return offset if isinstance(offset, dict) and offset.keys() == {"stream", "seq"} else None
