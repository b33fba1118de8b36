"""Spark's format `pgsluice`: a queue's or an archive's rows as a table, an event log as a stream.

Options, the same for both: `dsn` (without a password), `dsnFile` or `dsnEnv` say where to connect, else
the rule of `pgsluice.connection`; `numPartitions` is the most queries to run at the same time (4).

As a table (`spark.read`): `queue`, and `table` which is `queue` or `archive`. Each range of msg_id is read
at its own moment: a message that is archived meanwhile may be missed, or be in both tables; what is sent
meanwhile is left out. With `snapshot`, the name that an open transaction exported, all ranges see what
that transaction sees. With `table` archive and `export`, an export's name, only what that export has not
verified is read. Reading changes nothing: messages stay visible to consumers.

As a stream (`spark.readStream`): see `stream`.

`.schema("msg_id bigint, message string")` reads these columns and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import LiteralString

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pgsluice.client.calls import spark as calls
from pgsluice.client.calls import spark_exports
from pgsluice.errors import ConfigurationError
from pgsluice.spark.access import Access, driver_connection, prepare, run
from pgsluice.spark.arrow_io import QueryPartition, read_batches
from pgsluice.spark.options import PARTITIONS_DEFAULT, whole_number
from pgsluice.spark.schemas import arrow_schema, struct
from pgsluice.spark.stream import LOG_SCHEMA, LogStreamReader

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


class PgsluiceSource(DataSource):  # type: ignore[misc]
    """The format `pgsluice`."""

    @classmethod
    def name(cls) -> str:
        return "pgsluice"

    def schema(self) -> StructType:
        if self.options.get("log"):
            return LOG_SCHEMA
        return ARCHIVE_SCHEMA if _table(self.options) == "archive" else QUEUE_SCHEMA

    def reader(self, schema: StructType) -> QueueReader:
        if not self.options.get("queue"):
            raise ConfigurationError(
                "spark.read with format pgsluice reads a queue: give the option queue, its name; an event "
                "log is read with spark.readStream"
            )
        return QueueReader(self.options, schema)

    def streamReader(self, schema: StructType) -> LogStreamReader:
        if not self.options.get("log"):
            raise ConfigurationError(
                "spark.readStream with format pgsluice reads an event log: give the option log, its name"
            )
        return LogStreamReader(self.options, schema)


class QueueReader(DataSourceReader):  # type: ignore[misc]
    """Read a queue or an archive in parallel by ranges of msg_id."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.queue_name = options["queue"]
        self.table = _table(options)
        self.export_name = options.get("export")
        self.access = Access.from_options(options)
        self.slice_count = whole_number(options, "numPartitions", PARTITIONS_DEFAULT)
        self.schema = arrow_schema(schema)
        self.prepare: tuple[LiteralString, ...] = ()
        snapshot = options.get("snapshot")
        if snapshot:
            self.prepare = calls.use_snapshot(snapshot)

    def partitions(self) -> Sequence[QueryPartition]:
        call = calls.queue_slices(self.queue_name, self.table, self.slice_count, self.schema.names)
        if self.export_name:
            call = spark_exports.export_slices(
                self.queue_name, self.export_name, self.slice_count, self.schema.names
            )
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
