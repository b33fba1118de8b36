"""An event log as a stream: Spark's offsets are ticks, so a micro-batch replayed has the same rows.

Options beside those of `source`:
    log                 The event log's name.
    startingOffsets     Where a new query begins: `earliest` (default), `latest` or `{"tick": 12}`.
    consumer            A consumer's name. It is registered, and the log keeps what it has not seen; one
                        query for one name. Needed for `latest`. Without it, nothing stops the log from
                        forgetting events before they are read.
    maxRowsPerTrigger   About the most events in a micro-batch (200000; Kafka's name `maxOffsetsPerTrigger`
                        is taken too). What lies between two ticks is never divided.
    autoTick            Whether the stream ticks the log when it is time (true). A role that may not tick
                        leaves it to others.
    failOnDataLoss      Whether to stop when the log no longer keeps the tick to go on from (true), or to
                        go on from the oldest that is kept, with a line on standard error.

With `Trigger.AvailableNow` everything committed before the start is read, if the role may tick.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pgsluice.client.calls import Call, pgq
from pgsluice.client.calls import spark as calls
from pgsluice.errors import (
    ConfigurationError,
    ConnectionFailedError,
    LogStateError,
    PrivilegeError,
    RetryableError,
    SluiceError,
)
from pgsluice.spark.access import Access, driver_connection, run
from pgsluice.spark.arrow_io import QueryPartition, read_batches
from pgsluice.spark.offsets import Offset, starting
from pgsluice.spark.options import PARTITIONS_DEFAULT, truth, whole_number
from pgsluice.spark.schemas import arrow_schema, struct

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
# A micro-batch costs 0.3 s whatever is in it: with 10k rows Spark reads 30k/s, with 100k 170k/s and more.
MAX_ROWS_DEFAULT = 200_000
# Below this a second task costs more than it brings: 20 ms of Spark, against 400k rows/s of one reader.
SLICE_EVENTS_MIN = 10_000
_RECONNECT_DEADLINE_S = 60.0
_RECONNECT_PAUSE_MAX_S = 2.0

Result = TypeVar("Result")


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Read an event log between ticks.

    Spark keeps one of these in a process on the driver for the planning, and sends copies to the
    executors, who only call `read`.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.queue_name = options["log"]
        self.access = Access.from_options(options)
        self.schema = arrow_schema(schema)
        self.starting = starting(options.get("startingOffsets", "earliest"))
        self.consumer_name = options.get("consumer") or None
        if self.starting == "latest" and self.consumer_name is None:
            raise ConfigurationError(
                "startingOffsets=latest needs the option consumer: Spark asks again after a crash, and only "
                "a registered consumer remembers where latest was"
            )
        limit = "maxRowsPerTrigger" if options.get("maxRowsPerTrigger") else "maxOffsetsPerTrigger"
        self.max_rows = whole_number(options, limit, MAX_ROWS_DEFAULT)
        self.slice_count = whole_number(options, "numPartitions", PARTITIONS_DEFAULT)
        self.slice_events_min = whole_number(options, "sliceEventsMin", SLICE_EVENTS_MIN)
        self.auto_tick = truth(options, "autoTick", default=True)
        self.fail_on_data_loss = truth(options, "failOnDataLoss", default=True)
        self.last_tick: int | None = None  # set for AvailableNow
        self.log: str | None = None
        self.connection: psycopg.Connection[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "connection": None}

    # --- planning, on the driver ---------------------------------------------------------------------

    def initialOffset(self) -> dict[str, str | int]:
        # Asked again after a crash until the first micro-batch is committed: the answer must stay.
        tick = self._call(calls.log_start(self.queue_name, self.consumer_name, self.starting))
        return Offset(self._log(), tick).to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        if self.auto_tick:
            try:
                self.last_tick = self._call(calls.log_tick(self.queue_name))
            except PrivilegeError:
                self.auto_tick = False
        if self.last_tick is None:
            self.last_tick = self._call(calls.log_newest(self.queue_name))

    def latestOffset(self, start: dict[str, str | int], limit: ReadLimit) -> dict[str, str | int]:
        if self.auto_tick and self.last_tick is None:
            self._tick()
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else sys.maxsize >> 1
        self.log = (
            None  # it may have been dropped and made again: then the offset is of another log
        )
        begin = self._offset(start)
        tick = self._with_what_is_kept(
            begin.tick,
            lambda from_tick: calls.log_end(self.queue_name, from_tick, max_rows, self.last_tick),
        )
        return Offset(begin.log, max(tick, begin.tick)).to_dict()

    def partitions(
        self, start: dict[str, str | int], end: dict[str, str | int]
    ) -> Sequence[QueryPartition]:
        begin, finish = self._offset(start), self._offset(end)
        # Spark asks for an empty range, and after a crash before the first commit for a reversed one.
        if finish.tick <= begin.tick:
            return []
        queries = self._with_what_is_kept(
            begin.tick,
            lambda from_tick: calls.log_slices(
                self.queue_name,
                from_tick,
                finish.tick,
                slice_count=self.slice_count,
                slice_events_min=self.slice_events_min,
                columns=self.schema.names,
            ),
        )
        return [QueryPartition(query) for query in queries]

    def commit(self, end: dict[str, str | int]) -> None:
        if self.consumer_name is not None:
            tick = self._offset(end).tick
            self._call(calls.log_commit(self.queue_name, self.consumer_name, tick))

    def stop(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    # --- reading, on the executors -------------------------------------------------------------------

    def read(self, partition: QueryPartition) -> Iterator[pa.RecordBatch]:
        return read_batches(self.access, partition.query, self.schema)

    # --- inside --------------------------------------------------------------------------------------

    def _log(self) -> str:
        if self.log is None:
            self.log = self._call(calls.log_incarnation(self.queue_name))
        return self.log

    def _offset(self, offset: dict[str, str | int]) -> Offset:
        return Offset.from_dict(offset, log=self._log(), queue_name=self.queue_name)

    def _tick(self) -> None:
        try:
            self._call(pgq.ticker(self.queue_name))
        except PrivilegeError:
            self.auto_tick = False  # others tick
        except LogStateError:
            pass  # paused, or ticked from outside; that may end while the stream runs

    def _with_what_is_kept(self, tick: int, call: Any) -> Any:
        """Make a call that starts at a tick; if it is gone and losses are allowed, at the oldest kept."""
        try:
            return self._call(call(tick))
        except LogStateError:
            if self.fail_on_data_loss:
                raise
        oldest = self._call(calls.log_start(self.queue_name, None, "earliest"))
        print(
            f"pgsluice: event log {self.queue_name!r} no longer keeps tick {tick}; going on from {oldest}",
            file=sys.stderr,
        )
        return self._call(call(max(oldest, tick)))

    def _call(self, call: Call[Result]) -> Result:
        """Run a call; after a lost connection again, until the deadline.

        Every call here may be run twice. A first connection that fails is not tried again: the address
        or the password may be wrong, and the query's owner should hear of it.
        """
        deadline = time.monotonic() + _RECONNECT_DEADLINE_S
        was_connected = self.connection is not None
        pause_s = 0.1
        while True:
            try:
                if self.connection is None:
                    self.connection = driver_connection(self.access, autocommit=True)
                    was_connected = True
                return run(self.connection, call, self.access.conninfo())
            except SluiceError as error:
                failure = error
            lost = isinstance(failure, ConnectionFailedError)
            if lost:
                self.stop()
            if not (was_connected and (lost or isinstance(failure, RetryableError))):
                # Without the chain: Spark prints it whole into its logs.
                raise failure from None
            if time.monotonic() + pause_s > deadline:
                raise failure from None
            threading.Event().wait(
                pause_s
            )  # the server is starting, or full: ask again a little later
            pause_s = min(2 * pause_s, _RECONNECT_PAUSE_MAX_S)
