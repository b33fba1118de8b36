"""A work queue as a stream: messages are claimed for a query, given again after a crash, and archived when stored.

    rows = spark.readStream.format("pgsluice").option("queue", "orders").option("consumer", "lake").load()

Options beside those of `source`:
    queue               The work queue's name.
    consumer            The name under which messages are claimed; one query for one name. Needed.
    onCommit            What becomes of messages that the query has stored: `archive` (default) or `delete`.
    maxRowsPerTrigger   The most messages in a micro-batch (50000; Kafka's name `maxOffsetsPerTrigger` is taken too).

The query shares the queue with ordinary consumers, and keeps to its limits: a message is claimed by one of them. What a
query has claimed stays claimed, whatever becomes of the query: started again with its checkpoint, it reads it again. A
micro-batch is settled, its messages archived or deleted, when the query looks for the next one; the last one of a query
that is stopped, by `settle(query)` or when it is started again. A query that is given up for good leaves its claims
behind: `release_claims(consumer)` makes them visible again. The column `vt` is null: it tells when a claim ends.

With `Trigger.AvailableNow` all is read that was visible at the start.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pgsluice.client.calls import spark_claims as calls
from pgsluice.errors import ConfigurationError
from pgsluice.spark.access import Access, driver_connection, run
from pgsluice.spark.arrow_io import QueryPartition, Reading, read_batches
from pgsluice.spark.options import PARTITIONS_DEFAULT, whole_number
from pgsluice.spark.reconnecting import LastingConnection
from pgsluice.spark.schemas import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

# What one transaction claims and archives: a second of work for the server.
MAX_ROWS_DEFAULT = 50_000
# Below this a second task costs more than it brings.
_SLICE_MESSAGES_MIN = 10_000


class ClaimStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Read a work queue by claims. Its offsets name the last micro-batch that was claimed."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.queue_name = options["queue"]
        self.consumer_name = options.get("consumer") or ""
        if not self.consumer_name:
            raise ConfigurationError(
                "a stream of a work queue needs the option consumer, a name of its own under which it claims messages"
            )
        if options.get("table", "queue") != "queue":
            raise ConfigurationError(
                f"a stream reads the queue itself, not its {options['table']}; leave the option table out"
            )
        self.archives = archives(options)
        limit = "maxRowsPerTrigger" if options.get("maxRowsPerTrigger") else "maxOffsetsPerTrigger"
        self.max_rows = whole_number(options, limit, MAX_ROWS_DEFAULT)
        self.slice_count = whole_number(options, "numPartitions", PARTITIONS_DEFAULT)
        self.schema = arrow_schema(schema)
        self.reading = Reading.from_options(options)
        self.access = Access.from_options(options)
        self.database = LastingConnection(self.access)
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
        # Spark asks for more when it has noted that what came before is stored. Waiting for its commit() would keep
        # claims until there is something new, and of a queue with a limit on claims there would never be.
        self.commit(start)
        if self.is_done:
            return start
        qty = min(limit.max_rows if isinstance(limit, ReadMaxRows) else self.max_rows, 2**31 - 1)
        claimed = self.database.run(calls.queue_stream_claim(start["stream"], start["seq"], qty))
        if claimed is None:
            return start
        if self.until is not None and claimed.first_enqueued_at is not None:
            # All of it came later: so what was there is read, and with this one it ends.
            self.is_done = claimed.first_enqueued_at > self.until
        return {"stream": start["stream"], "seq": claimed.seq}

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
        # Told that there is nothing to read, Spark makes up a partition of its own.
        if not isinstance(partition, QueryPartition):
            return iter(())
        return read_batches(self.access, partition.query, self.schema, reading=self.reading)


def settle(query: StreamingQuery, *, options: Mapping[str, str] | None = None) -> int:
    """Archive or delete the last messages that a query has stored, which it would do when started again.

    Args:
        query: A query that was stopped, or has ended. Of several queues it reads, all have to be in one database.
        options: How to connect, and `onCommit`, as they were given to the query.

    Returns:
        How many messages.

    Raises:
        SluiceError: The server refused it, or cannot be reached.
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


def release_claims(consumer: str, *, options: Mapping[str, str] | None = None) -> int | None:
    """Give up the stream of a name: what it claimed and did not settle is visible again.

    What it had stored already and not settled comes twice. A query of this name has to be stopped before; started
    again with its old checkpoint, it fails and says why.

    Args:
        consumer: The name under which it claimed.
        options: How to connect, as they were given to the query.

    Returns:
        How many messages; None when there is no such stream.
    """
    access = Access.from_options(options or {})
    with driver_connection(access, autocommit=True) as connection:
        return run(connection, calls.release_claims(consumer), access.conninfo())


def archives(options: Mapping[str, str]) -> bool:
    """Whether stored messages are archived, by the option onCommit; otherwise they are deleted.

    Raises:
        ConfigurationError: It is neither archive nor delete.
    """
    what = options.get("onCommit", "archive")
    if what not in ("archive", "delete"):
        raise ConfigurationError(f"onCommit is {what!r}; use archive or delete")
    return what == "archive"


def _offset(text: Any) -> dict[str, int] | None:
    offset = json.loads(text) if isinstance(text, str) else text
    return offset if isinstance(offset, dict) and offset.keys() == {"stream", "seq"} else None
