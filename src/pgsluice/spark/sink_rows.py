"""Rows into a work queue or an event log: staged by many tasks, sent in one transaction.

Simplest first, each task sends its rows and commits. A task that is run again, or a driver that dies between
the tasks and its own note that they are done, sends them twice. So a task puts its rows into a table of its own, which
is not logged; and the driver, when all are there, moves them on in one transaction that also notes, in a ledger, which
version of which sink this is. Run again, it finds the version there and moves nothing. Four things it rests on:

  - a version is a micro-batch of a query, or what the writer called it: it has nothing to do with how many tasks there
    were, or which of them had which rows, as these may differ the second time;
  - the tables do not survive a crash of the server, so the driver says how many rows each must have;
  - an attempt that failed left its table behind. Nobody sends it, as the driver sends those that it was told of; it is
    dropped with the next commit, or by `sluice.maintain()`;
  - of the answer to a commit that was lost nobody knows what it was. The driver commits again, and the ledger knows.

Few rows need no table: they go to the driver with the news that the task is done.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, groupby
from typing import Any, TypeVar

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage

from pgsluice.backoff import Backoff
from pgsluice.client.calls import Call
from pgsluice.client.calls import spark_sinks as calls
from pgsluice.errors import SluiceError
from pgsluice.spark.access import driver_connection, run, scrubbed
from pgsluice.spark.arrow_ingest import ingest
from pgsluice.spark.micro_batch import MicroBatch
from pgsluice.spark.schemas import conform
from pgsluice.spark.sink_target import JSON_COLUMNS, Target

Result = TypeVar("Result")

# A stage costs a task two connections and a table: 10 ms. So many bytes for each task the driver takes gladly.
CARRIED_BYTES_MAX = 128 << 10
# As long as a server may take to start again.
_COMMIT_DEADLINE_S = 60.0
# A task that lost its server is run again at once, and a few times only: it waits until the server is back.
_ASK_DEADLINE_S = 20.0
_JSON = pa.json_(pa.string())


@dataclass(frozen=True)
class RowsWritten(WriterCommitMessage):  # type: ignore[misc]
    """What one task tells the driver: where its rows are.

    Attributes:
        part: The partition's number.
        row_count: How many rows.
        stage_id: The stage that has them, or None.
        carried: Otherwise they are here, as an Arrow stream; None where there are none.
        micro_batch: For a stream, which one they are of.
    """

    part: int
    row_count: int
    stage_id: int | None = None
    carried: bytes | None = None
    micro_batch: MicroBatch | None = None


def stage(
    target: Target, sink_id: str, version: int, batches: Iterator[pa.RecordBatch], *, part: int
) -> RowsWritten:
    """Take the rows of one task to where the driver finds them.

    Args:
        target: Where they will go.
        sink_id: Who writes.
        version: Which of its writes this is.
        batches: The rows, in any schema that can be cast to the target's.
        part: The partition's number: what is sent is in this order.

    Raises:
        SluiceError: A value has no place in the target, or the server refused it or went away.
    """
    rows = _conformed(batches, target.schema)
    few, held_bytes = [], 0
    for batch in rows:
        few.append(batch)
        held_bytes += batch.nbytes
        if held_bytes > CARRIED_BYTES_MAX:
            stage_id = _ask(target, calls.create_stage(sink_id, version, target.schema.names))
            place = ("sluice", calls.stage_table(stage_id))
            count = ingest(target.access, place, *_for_server(chain(few, rows), target.schema))
            return RowsWritten(part, count, stage_id)
    if not few:
        return RowsWritten(part, 0)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, target.schema) as writer:
        for batch in few:
            writer.write_batch(batch)
    count = sum(batch.num_rows for batch in few)
    return RowsWritten(part, count, carried=sink.getvalue().to_pybytes())


def commit(
    target: Target,
    sink_id: str,
    version: int,
    told: Sequence[RowsWritten],
    *,
    keep: timedelta | None = None,
) -> bool:
    """Send what tasks staged, once for each version of a sink.

    Args:
        target: Where it goes.
        sink_id: Who writes.
        version: Which of its writes this is; its first may be 0, each is above the one before.
        told: What the tasks said.
        keep: How long the ledger has to know of it; None for ever.

    Returns:
        False when this or a later version was committed already; nothing is sent then.

    Raises:
        SluiceError: Nothing was sent: write the rows again.
    """
    parts = sorted((part for part in told if part.row_count), key=lambda part: part.part)
    if not parts:
        return True

    def work(connection: psycopg.Connection[Any], dsn: str) -> bool:
        is_new = run(connection, calls.sink_commit(sink_id, version, keep=keep), dsn)
        if is_new:
            stages: list[tuple[int, int]] = []
            for is_staged, some in groupby(parts, key=lambda part: part.stage_id is not None):
                if is_staged:
                    stages += [(part.stage_id or 0, part.row_count) for part in some]
                else:
                    stages.append(_stage_carried(connection, dsn, target, sink_id, version, some))
            run(connection, _send(target, stages), dsn)
        run(connection, calls.drop_stages(sink_id, version), dsn)
        return is_new

    return _in_transaction(target, work, deadline_s=_COMMIT_DEADLINE_S)


def drop(target: Target, sink_id: str, version: int) -> None:
    """Drop what was staged for a write that is given up; if that cannot be now, maintenance does."""
    with suppress(SluiceError):
        _ask(target, calls.drop_stages(sink_id, version))


def is_committed(target: Target, sink_id: str, version: int) -> bool:
    """Whether this or a later version of a sink was committed."""
    position = _ask(target, calls.sink_position(sink_id))
    return position is not None and position[0] >= version


def send(target: Target, batches: Iterator[pa.RecordBatch]) -> int:
    """Send the rows of one task now, in one transaction: sent again, they are there twice.

    Returns:
        How many rows.

    Raises:
        SluiceError: As for `stage`. Nothing was sent, unless the connection was lost at the end.
    """
    rows = _conformed(batches, target.schema)
    if target.name is not None and target.kind == "log":
        place = ("pgq", _ask(target, calls.log_table(target.name)))
        return ingest(target.access, place, target.schema, rows)
    if target.name is not None and not {"key", "deduplication_key"} & set(target.schema.names):
        table, now = _ask(target, calls.queue_table(target.name))
        return ingest(target.access, ("pgmq", table), *as_messages(rows, target.schema, now))
    sink_id = f"pgsluice:direct:{uuid.uuid4()}"
    stage_id = _ask(target, calls.create_stage(sink_id, 0, target.schema.names))
    place = ("sluice", calls.stage_table(stage_id))
    count = ingest(target.access, place, *_for_server(rows, target.schema))

    def work(connection: psycopg.Connection[Any], dsn: str) -> None:
        run(connection, _send(target, [(stage_id, count)]), dsn)
        run(connection, calls.drop_stages(sink_id, 0), dsn)

    _in_transaction(target, work, deadline_s=0)
    return count


def _send(target: Target, stages: Sequence[tuple[int, int]]) -> Any:
    if target.kind == "queue":
        return calls.send_staged(target.name, stages)
    return calls.insert_staged(target.name, stages)


def _stage_carried(
    connection: psycopg.Connection[Any],
    dsn: str,
    target: Target,
    sink_id: str,
    version: int,
    parts: Iterator[RowsWritten],
) -> tuple[int, int]:
    """Put what tasks sent along into a stage, in the transaction that will send it."""
    names = target.schema.names
    stage_id = run(connection, calls.create_stage(sink_id, version, names), dsn)
    count = 0
    with (
        connection.cursor() as cursor,
        cursor.copy(calls.copy_into_stage(stage_id, names)) as copy,
    ):
        for part in parts:
            for batch in pa.ipc.open_stream(part.carried):
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    copy.write_row(row)
                    count += 1
    return stage_id, count


def _conformed(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield conform(batch, schema)


def _for_server(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The same with JSON as JSON, which the server parses when the rows arrive."""
    json = [name in JSON_COLUMNS for name in schema.names]
    wanted = pa.schema(
        [
            pa.field(field.name, _JSON) if is_json else field
            for field, is_json in zip(schema, json, strict=True)
        ]
    )

    def converted() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [
                pa.ExtensionArray.from_storage(_JSON, column) if is_json else column
                for column, is_json in zip(batch.columns, json, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)

    return wanted, converted()


def as_messages(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, now: datetime
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The same as rows of a queue's table: each with the time when it becomes visible.

    What is visible at once is so since `now`, by the server's clock and before the transaction of the rows begins: that
    makes it ready and not deferred.
    """
    kind = pa.timestamp("us", "UTC")
    kept = [field for field in schema if field.name not in ("vt", "delay")]
    wanted = pa.schema([*kept, pa.field("vt", kind)])

    def converted() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if "vt" in schema.names:
                vt = pc.fill_null(batch.column("vt"), pa.scalar(now, kind))
            elif "delay" in schema.names:
                delay_us = pc.multiply(
                    pc.fill_null(batch.column("delay"), 0).cast("int64"), 1_000_000
                )
                vt = pc.add(pa.scalar(now, kind), delay_us.cast(pa.duration("us")))
            else:
                vt = pa.repeat(pa.scalar(now, kind), batch.num_rows)
            yield pa.RecordBatch.from_arrays(
                [*(batch.column(field.name) for field in kept), vt], schema=wanted
            )

    return _for_server(converted(), wanted)


def _ask(target: Target, call: Call[Result]) -> Result:
    return _in_transaction(
        target, lambda connection, dsn: run(connection, call, dsn), deadline_s=_ASK_DEADLINE_S
    )


def _in_transaction(
    target: Target, work: Callable[[psycopg.Connection[Any], str], Result], *, deadline_s: float
) -> Result:
    """Do work in one transaction; retry a transient error, with all of the work, until the deadline."""
    dsn = target.access.conninfo()

    def attempt() -> Result:
        # The connection commits at the end of its block.
        with scrubbed(dsn), driver_connection(target.access) as connection:
            return work(connection, dsn)

    return Backoff(deadline_s=deadline_s).retry(attempt)
