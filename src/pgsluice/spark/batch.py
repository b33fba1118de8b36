"""Tables of Spark: the messages of a queue, its archive, its dead letters, and a range of an event log.

Options beside those of `source`:
    queue               A queue's name; `table` says which of its tables: `queue` (default), `archive` or
                        `dead_letters`.
    snapshot            The name that an open transaction exported, as `shared_snapshot` does: all tasks
                        see what that transaction sees. For a queue only; a range of a log is the same anyway.
    export              An export's name: of the archive only what it has not verified; see `pipelines.archive`.
    log                 An event log's name, instead of a queue's.
    startingOffsets     `earliest` (default) or `{"tick": 12}`: the events after that tick.
    endingOffsets       `latest` (default) or `{"tick": 34}`: the events up to it, and with it.
    startingTimestamp,  A moment instead, as milliseconds since 1970 or as text with its offset from UTC: the last tick
    endingTimestamp     at or before it. Ranges that meet at a moment share no event, and miss none.
    autoTick            Whether `latest` ticks the log first, so that all is read that was committed before
                        (true). A role that may not tick, or a standby, leaves it to others.
    failOnDataLoss      Whether to fail when the log forgets events of the range before they are read (true), or
                        to go on from the oldest tick that is kept.
    pushdown            Whether the server applies Spark's filters that it can (false). It needs Spark's setting
                        `spark.sql.python.filterPushdown.enabled`, which `spark_session` makes.
    reader              How rows are read: `auto` (default), `adbc`, `copy` or `rows`; see `arrow_io`.
    connect.retries,    How often a task asks again that lost its connection before its first row (8), and the
    connect.retryIntervalMs  first pause between (200); it doubles.

Without `snapshot` each range of a queue is read at its own moment: a message that is archived meanwhile may be
missed, or be in both tables; what is sent meanwhile is left out. Reading changes nothing: messages stay visible to
consumers, and the log forgets what it would have forgotten.

JSON comes as text. With `.schema("message variant")` it comes as Spark's VARIANT, parsed in Python: for more than
some thousand rows `parse_json(message)` is much faster, in Spark itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from pgsluice.client.calls import Call, spark_exports, spark_reading
from pgsluice.client.calls import spark as calls
from pgsluice.errors import ConfigurationError, LogStateError, SluiceError
from pgsluice.spark.access import Access, driver_connection, prepare, run
from pgsluice.spark.arrow_io import QueryPartition, Reading, read_batches
from pgsluice.spark.filters import condition_of
from pgsluice.spark.offsets import moment
from pgsluice.spark.options import PARTITIONS_DEFAULT, truth, whole_number
from pgsluice.spark.schemas import arrow_schema, struct
from pgsluice.spark.shards import SLICE_EVENTS_MIN
from pgsluice.spark.stream import log_schema

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


class Ask(Protocol):
    """What runs a call."""

    def __call__(self, call: Call[Result]) -> Result: ...


def schema_of(options: Mapping[str, str]) -> StructType:
    """All columns of what these options name, of a table as of a stream.

    Raises:
        ConfigurationError: `table` is none of its values.
    """
    return log_schema(options) if options.get("log") else _TABLES[_table(options)]


def reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """The reader for these options.

    Raises:
        ConfigurationError: They name nothing that can be read as a table, or cannot be used.
    """
    if bool(options.get("queue")) == bool(options.get("log")):
        raise ConfigurationError(
            "spark.read with format pgsluice reads a queue or an event log: give the option queue or the "
            "option log, its name"
        )
    if options.get("shards"):
        raise ConfigurationError(
            "the option shards is for spark.readStream; read the databases one by one, and union them"
        )
    kind = QueueReader if options.get("queue") else LogReader
    chosen = kind(options, schema)
    if truth(options, "pushdown", default=False):
        return FilteringReader(chosen)
    return chosen


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Read what the server composed queries for, one query a task."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        everything = schema_of(options)
        unknown = [name for name in schema.names if name not in everything.names]
        if unknown:
            raise ConfigurationError(
                f"there is no column {unknown[0]!r}; choose from {', '.join(everything.names)}"
            )
        self.access = Access.from_options(options)
        self.reading = Reading.from_options(options)
        self.slice_count = whole_number(options, "numPartitions", PARTITIONS_DEFAULT)
        self.schema = arrow_schema(schema)
        # Where the caller chose another type, a comparison may mean another thing in PostgreSQL.
        self.filterable = {
            field.name: field.dataType
            for field in schema
            if field.dataType == everything[field.name].dataType
        }
        self.conditions: list[dict[str, Any]] = []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Told that there is nothing to read, Spark makes up a partition of its own.
        if isinstance(partition, QueryPartition):
            yield from read_batches(
                self.access,
                partition.query,
                self.schema,
                prepare=partition.prepare,
                reading=self.reading,
            )

    @contextmanager
    def _connected(self, *statements: LiteralString) -> Iterator[Ask]:
        """What runs calls, on a connection that has run these statements."""
        conninfo = self.access.conninfo()
        with driver_connection(self.access, autocommit=True) as connection:
            prepare(connection, statements, conninfo)

            def ask(call: Call[Result]) -> Result:
                return run(connection, call, conninfo)

            yield ask

    def _filtered(self, ask: Ask, queries: list[str]) -> list[str]:
        if not self.conditions:
            return queries
        return ask(spark_reading.filter_queries(queries, self.conditions))


class QueueReader(TableReader):
    """Read a queue, its archive or its dead letters in parallel by ranges of their ids."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self.queue_name = options["queue"]
        self.table = _table(options)
        snapshot = options.get("snapshot")
        self.snapshot = snapshot
        self.export_name = options.get("export")
        if self.export_name and self.table != "archive":
            raise ConfigurationError("the option export is for the table archive; leave it out")
        self.prepare = calls.use_snapshot(snapshot) if snapshot else ()

    def partitions(self) -> Sequence[QueryPartition]:
        call = calls.queue_slices(self.queue_name, self.table, self.slice_count, self.schema.names)
        if self.export_name:
            call = spark_exports.export_slices(
                self.queue_name, self.export_name, self.slice_count, self.schema.names
            )
        try:
            with self._connected(*self.prepare) as ask:
                queries = self._filtered(ask, ask(call))
        except SluiceError as error:
            if not self.prepare or error.sqlstate not in _NO_SNAPSHOT:
                raise
            raise ConfigurationError(
                f"the snapshot {self.snapshot} is gone with the transaction that exported it; keep that open "
                "until Spark has read: ask for results inside of `with shared_snapshot()`"
            ) from None
        return [QueryPartition(query, self.prepare) for query in queries]


@dataclass(frozen=True)
class LogPartition(QueryPartition):
    """A query that is whole as long as the log keeps a tick.

    Attributes:
        from_tick: That tick; None when nobody wants to know.
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
        self.queue_name = options["log"]
        self.start = _place(options, "starting", "earliest")
        self.end = _place(options, "ending", "latest")
        self.auto_tick = truth(options, "autoTick", default=True)
        self.fail_on_data_loss = truth(options, "failOnDataLoss", default=True)

    def partitions(self) -> Sequence[QueryPartition]:
        with self._connected() as ask:
            # The end first: nothing of the range can come up between the two.
            to_tick = self._tick(ask, self.end)
            from_tick = self._tick(ask, self.start)
            try:
                queries = self._slices(ask, from_tick, to_tick)
            except LogStateError:
                if self.fail_on_data_loss:
                    raise
                queries = self._slices(ask, self._tick(ask, "earliest"), to_tick)
            kept = from_tick if self.fail_on_data_loss else None
            return [LogPartition(query, from_tick=kept) for query in self._filtered(ask, queries)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from super().read(partition)
        if isinstance(partition, LogPartition) and partition.from_tick is not None:
            # A segment that was emptied reads like one without events. Its ticks go with it, the oldest first.
            with self._connected() as ask:
                ask(calls.log_end(self.queue_name, partition.from_tick, 0, partition.from_tick))

    def _slices(self, ask: Ask, from_tick: int, to_tick: int) -> list[str]:
        call = calls.log_slices(
            self.queue_name,
            from_tick,
            to_tick,
            slice_count=self.slice_count,
            slice_events_min=SLICE_EVENTS_MIN,
            columns=self.schema.names,
        )
        return ask(call)

    def _tick(self, ask: Ask, place: str | int | datetime) -> int:
        if isinstance(place, datetime):
            return ask(calls.log_tick_at(self.queue_name, place))
        if place == "earliest":
            return ask(calls.log_start(self.queue_name, None, "earliest"))
        if not isinstance(place, str):
            return place
        if self.auto_tick:
            try:
                return ask(calls.log_tick(self.queue_name))
            except SluiceError as error:
                if error.sqlstate not in _MAY_NOT_TICK:
                    raise
        return ask(calls.log_newest(self.queue_name))


class FilteringReader(DataSourceReader):  # type: ignore[misc]
    """A reader whose server applies the filters that it can.

    A class of its own: where Spark's setting is off, it refuses each reader that takes filters.
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
    """Where a range starts or ends: its default word, a tick or a moment.

    Raises:
        ConfigurationError: It is none of these, or two of them.
    """
    offsets, timestamp = options.get(f"{which}Offsets"), options.get(f"{which}Timestamp")
    if offsets and timestamp:
        raise ConfigurationError(
            f"the options {which}Offsets and {which}Timestamp are given; give one of them"
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
