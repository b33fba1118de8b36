"""A queue's or an archive's rows as a table of Spark.

Options beside those of `source`:
    queue       The queue's name.
    table       `queue` (default) or `archive`.
    snapshot    The name that an open transaction exported: all ranges see what that transaction sees.

Each range of msg_id is read at its own moment, if there is no `snapshot`: a message that is archived
meanwhile may be missed, or be in both tables; what is sent meanwhile is left out. Reading changes
nothing: messages stay visible to consumers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import LiteralString

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pgsluice.client.calls import spark as calls
from pgsluice.errors import ConfigurationError
from pgsluice.spark.access import Access, driver_connection, prepare, run
from pgsluice.spark.arrow_io import QueryPartition, read_batches
from pgsluice.spark.options import PARTITIONS_DEFAULT, whole_number
from pgsluice.spark.schemas import arrow_schema, struct
from pgsluice.spark.stream import LOG_SCHEMA

QUEUE_SCHEMA = struct(
    msg_id="long",
    read_ct="integer",
    enqueued_at="timestamp",
    last_read_at="timestamp",
    vt="timestamp",
    message="string",
    headers="string",
)
ARCHIVE_SCHEMA = struct(
    msg_id="long",
    read_ct="integer",
    enqueued_at="timestamp",
    last_read_at="timestamp",
    archived_at="timestamp",
    vt="timestamp",
    message="string",
    headers="string",
)


def schema_of(options: Mapping[str, str]) -> StructType:
    """The columns of what these options name, of a table as of a stream.

    Raises:
        ConfigurationError: `table` is none of its values.
    """
    if options.get("log"):
        return LOG_SCHEMA
    return ARCHIVE_SCHEMA if _table(options) == "archive" else QUEUE_SCHEMA


def reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """The reader for these options.

    Raises:
        ConfigurationError: They name nothing that can be read as a table.
    """
    if not options.get("queue"):
        raise ConfigurationError(
            "spark.read with format pgsluice reads a queue: give the option queue, its name; an event "
            "log is read with spark.readStream"
        )
    return QueueReader(options, schema)


class QueueReader(DataSourceReader):  # type: ignore[misc]
    """Read a queue or an archive in parallel by ranges of msg_id."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.queue_name = options["queue"]
        self.table = _table(options)
        self.access = Access.from_options(options)
        self.slice_count = whole_number(options, "numPartitions", PARTITIONS_DEFAULT)
        self.schema = arrow_schema(schema)
        self.prepare: tuple[LiteralString, ...] = ()
        snapshot = options.get("snapshot")
        if snapshot:
            self.prepare = calls.use_snapshot(snapshot)

    def partitions(self) -> Sequence[QueryPartition]:
        call = calls.queue_slices(self.queue_name, self.table, self.slice_count, self.schema.names)
        with driver_connection(self.access, autocommit=True) as connection:
            prepare(connection, self.prepare, self.access.conninfo())
            queries = run(connection, call, self.access.conninfo())
        return [QueryPartition(query, self.prepare) for query in queries]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Told that there is nothing to read, Spark makes up a partition of its own.
        if not isinstance(partition, QueryPartition):
            return iter(())
        return read_batches(self.access, partition.query, self.schema, prepare=partition.prepare)


def _table(options: Mapping[str, str]) -> str:
    table = options.get("table", "queue")
    if table not in ("queue", "archive"):
        raise ConfigurationError(f"table is {table!r}; use queue or archive")
    return table
