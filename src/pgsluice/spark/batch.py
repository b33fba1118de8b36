"""Batch reads with Spark: messages of a queue, its archive, its dead letters, and a range of an event log.

Options in addition to those of `source`:
    queue               Name of a queue; `table` selects `queue` (default), `archive` or `dead_letters`.
    snapshot            Id of an exported snapshot, as from `shared_snapshot`, for all tasks. Queues only; reads of a
                        log range are repeatable without it.
    export              Name of an export: read only archived messages it has not verified; see `pipelines.archive`.
    log                 Name of an event log, instead of a queue.
    startingOffsets     `earliest` (default) or `{"tick": 12}`: events after that tick.
    endingOffsets       `latest` (default) or `{"tick": 34}`: events up to and including that tick.
    startingTimestamp,  Instead: the last tick at or before a time, in milliseconds since 1970 or as text with UTC
    endingTimestamp     offset. Adjacent ranges neither overlap nor leave gaps.
    autoTick            Tick the log before reading up to `latest`, to include everything committed before (true).
                        Skipped on a standby or without the privilege.
    failOnDataLoss      Fail if the log removes events of the range before they are read (true), or continue from the
                        oldest tick kept.
    pushdown            Push Spark's filters down to the server (false). Requires Spark's setting
                        `spark.sql.python.filterPushdown.enabled`, which `spark_session` enables.
    reader              `auto` (default), `adbc`, `copy` or `rows`; see `arrow_io`.
    connect.retries,    Maximum retries of a task whose connection is lost before its first row (8), and the first
    connect.retryIntervalMs  back-off in milliseconds (200), which doubles.

Without `snapshot`, each task reads its range of a queue with a separate snapshot: a message archived meanwhile may be
missing, or be in both tables; messages sent meanwhile are not read. Reads have no side effects: messages stay visible
to consumers, and the log does not retain events for them.

JSON is read as text. `.schema("message variant")` reads it as Spark's VARIANT, parsed in Python; beyond some thousand
rows, `parse_json(message)` in Spark is much faster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, LiteralString, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pgsluice.client.calls import Call, spark_reading
from pgsluice.client.calls import spark as calls
from pgsluice.client.calls.logs import log_tick
from pgsluice.errors import ConfigurationError, LogStateError, SluiceError
from pgsluice.spark.access import Access, driver_connection, prepare, run
from pgsluice.spark.arrow_io import QueryPartition, Reading, read_batches
from pgsluice.spark.features import require_filters
from pgsluice.spark.filters import condition_of
from pgsluice.spark.log_options import SLICE_EVENTS_MIN
from pgsluice.spark.offsets import moment
from pgsluice.spark.options import PARTITIONS_DEFAULT, truth, whole_number
from pgsluice.spark.schemas import arrow_schema, struct
from pgsluice.spark.stream import log_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

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
DEAD_LETTER_SCHEMA = struct(
    dead_letter_id="long",
    queue_name="string",
    msg_id="long",
    read_ct="integer",
    enqueued_at="timestamp",
    last_read_at="timestamp",
    message="string",
    headers="string",
    reason="string",
    error="string",
    error_type="string",
    trace="string",
    worker="string",
    attempts="integer",
    first_failed_at="timestamp",
    dead_at="timestamp",
)
_TABLES = {"queue": QUEUE_SCHEMA, "archive": ARCHIVE_SCHEMA, "dead_letters": DEAD_LETTER_SCHEMA}
# undefined_object; invalid_parameter_value before PostgreSQL 16
_NO_SNAPSHOT = ("42704", "22023")
# insufficient_privilege, read_only_sql_transaction
_MAY_NOT_TICK = ("42501", "25006")

Result = TypeVar("Result")


class Caller(Protocol):
    """Function that runs a call."""

    def __call__(self, call: Call[Result]) -> Result: ...


def schema_of(options: Mapping[str, str]) -> StructType:
    """Return all columns of the table or stream that the options select.

    Raises:
        ConfigurationError: `table` is invalid.
    """
    return log_schema(options) if options.get("log") else _TABLES[_table(options)]


def reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """Return the reader for these options.

    Raises:
        ConfigurationError: They do not select exactly one queue or log, or an option is invalid.
    """
    if bool(options.get("queue")) == bool(options.get("log")):
        raise ConfigurationError(
            "spark.read with format pgsluice reads a queue or an event log; set either the option queue or the "
            "option log to its name"
        )
    if options.get("shards"):
        raise ConfigurationError(
            "the option shards is only for spark.readStream; read each database and union the results"
        )
    kind = QueueReader if options.get("queue") else LogReader
    chosen = kind(options, schema)
    if truth(options, "pushdown", default=False):
        require_filters()
        return FilteringReader(chosen)
    return chosen


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Read with queries composed by the server, one per task."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        everything = schema_of(options)
        unknown = [name for name in schema.names if name not in everything.names]
        if unknown:
            raise ConfigurationError(
                f"column {unknown[0]!r} does not exist; choose from {', '.join(everything.names)}"
            )
        self.access = Access.from_options(options)
        self.reading = Reading.from_options(options)
        self.slice_count = whole_number(options, "numPartitions", PARTITIONS_DEFAULT)
        self.schema = arrow_schema(schema)
        # With another type chosen by the caller, a comparison may differ in PostgreSQL.
        self.filterable = {
            field.name: field.dataType
            for field in schema
            if field.dataType == everything[field.name].dataType
        }
        self.conditions: list[dict[str, Any]] = []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # If there are no partitions, Spark passes a default one.
        if isinstance(partition, QueryPartition):
            yield from read_batches(
                self.access,
                partition.query,
                self.schema,
                prepare=partition.prepare,
                reading=self.reading,
            )

    @contextmanager
    def _connected(self, *statements: LiteralString) -> Iterator[Caller]:
        """Connect, run these statements, and return a function that runs calls."""
        conninfo = self.access.conninfo()
        with driver_connection(self.access, autocommit=True) as connection:
            prepare(connection, statements, conninfo)

            def call_server(call: Call[Result]) -> Result:
                return run(connection, call, conninfo)

            yield call_server

    def _filtered(self, call_server: Caller, queries: list[str]) -> list[str]:
        if not self.conditions:
            return queries
        return call_server(spark_reading.filter_queries(queries, self.conditions))


class QueueReader(TableReader):
    """Read a queue, its archive or its dead letters in parallel by id ranges."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self.queue_name = options["queue"]
        self.table = _table(options)
        snapshot = options.get("snapshot")
        self.snapshot = snapshot
        self.export_name = options.get("export")
        if self.export_name and self.table != "archive":
            raise ConfigurationError("the option export is only for the table archive; omit it")
        self.prepare = calls.use_snapshot(snapshot) if snapshot else ()

    def partitions(self) -> Sequence[QueryPartition]:
        call = calls.queue_slices(
            self.queue_name,
            self.table,
            self.slice_count,
            self.schema.names,
            self.export_name or None,
        )
        try:
            with self._connected(*self.prepare) as call_server:
                queries = self._filtered(call_server, call_server(call))
        except SluiceError as error:
            if not self.prepare or error.sqlstate not in _NO_SNAPSHOT:
                raise
            raise ConfigurationError(
                f"the snapshot {self.snapshot} no longer exists, as its transaction has ended; keep that open "
                "until Spark has read: collect results inside `with shared_snapshot()`"
            ) from None
        return [QueryPartition(query, self.prepare) for query in queries]


@dataclass(frozen=True)
class LogPartition(QueryPartition):
    """Query whose result is complete while the log keeps a tick.

    Attributes:
        from_tick: The tick; None to skip the check.
    """

    from_tick: int | None = None


class LogReader(TableReader):
    """Read the events between two ticks."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        if options.get("table") or options.get("snapshot"):
            raise ConfigurationError(
                "the options table and snapshot are for a queue; leave them out with log"
            )
        self.log_name = options["log"]
        self.start = _place(options, "starting", "earliest")
        self.end = _place(options, "ending", "latest")
        self.auto_tick = truth(options, "autoTick", default=True)
        self.fail_on_data_loss = truth(options, "failOnDataLoss", default=True)

    def partitions(self) -> Sequence[QueryPartition]:
        with self._connected() as call_server:
            # Resolve the end first, so that no event can enter the range between the two calls.
            _, upto = self._tick(call_server, self.end)
            try:
                from_tick, after = self._tick(call_server, self.start)
                queries = self._slices(call_server, after, upto)
            except LogStateError:
                if self.fail_on_data_loss:
                    raise
                from_tick, after = self._tick(call_server, "earliest")
                queries = self._slices(call_server, after, upto)
            kept = from_tick if self.fail_on_data_loss else None
            return [
                LogPartition(query, from_tick=kept)
                for query in self._filtered(call_server, queries)
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from super().read(partition)
        if isinstance(partition, LogPartition) and partition.from_tick is not None:
            # A truncated segment reads as empty. Its ticks are removed with it, oldest first.
            with self._connected() as call_server:
                call_server(calls.log_start(self.log_name, None, str(partition.from_tick)))

    def _slices(self, call_server: Caller, after: str, upto: str) -> list[str]:
        call = calls.log_slices(
            self.log_name,
            after,
            upto,
            slice_count=self.slice_count,
            slice_events_min=SLICE_EVENTS_MIN,
            columns=self.schema.names,
        )
        return call_server(call)

    def _tick(self, call_server: Caller, place: str | int | datetime) -> tuple[int, str]:
        """Return a tick and its snapshot."""
        if place == "latest" and self.auto_tick:
            try:
                call_server(log_tick(self.log_name))
            except SluiceError as error:
                if error.sqlstate not in _MAY_NOT_TICK:
                    raise
        starting = place.isoformat() if isinstance(place, datetime) else str(place)
        return call_server(calls.log_start(self.log_name, None, starting))


class FilteringReader(DataSourceReader):  # type: ignore[misc]
    """Reader with filter pushdown.

    A separate class, as Spark refuses readers with `pushFilters` if its setting is off.
    """

    def __init__(self, inner: TableReader) -> None:
        self.inner = inner

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for found in filters:
            condition = condition_of(found, self.inner.filterable)
            if condition is None:
                yield found
            else:
                self.inner.conditions.append(condition)

    def partitions(self) -> Sequence[InputPartition]:
        partitions: Sequence[InputPartition] = self.inner.partitions()
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self.inner.read(partition)


def _table(options: Mapping[str, str]) -> str:
    table = options.get("table") or "queue"
    if table not in _TABLES:
        raise ConfigurationError(f"table is {table!r}; use queue, archive or dead_letters")
    return table


def _place(options: Mapping[str, str], which: str, default: str) -> str | int | datetime:
    """Parse the start or end of a range: the default keyword, a tick or a timestamp.

    Raises:
        ConfigurationError: It is invalid, or both options are given.
    """
    offsets, timestamp = options.get(f"{which}Offsets"), options.get(f"{which}Timestamp")
    if offsets and timestamp:
        raise ConfigurationError(
            f"the options {which}Offsets and {which}Timestamp are mutually exclusive; set only one"
        )
    if timestamp:
        return moment(f"{which}Timestamp", timestamp)
    if not offsets or offsets.lower() == default:
        return default
    try:
        value = json.loads(offsets)
    except ValueError:
        value = None
    tick = value.get("tick") if isinstance(value, dict) and "tick" in value else None
    if not isinstance(tick, int) or isinstance(tick, bool):
        raise ConfigurationError(f'{which}Offsets is {offsets!r}; use {default} or {{"tick": 12}}')
    return tick
