"""Exactly-once writes to a work queue or an event log: tasks stage rows, the driver sends them in one transaction.

If each task sent its rows itself, a retried task, or a driver crash before Spark records the micro-batch, would send
them twice. So each task writes its rows into a stage, a separate unlogged table. When all tasks are done, the driver
moves the rows in one transaction, which also records the sink and its version in a ledger. A replay finds the version
in the ledger and moves nothing.

  - A version is a micro-batch id, or the writer's txnVersion. It does not depend on the number of tasks or the
    distribution of rows to tasks, which may change in a replay.
  - Unlogged tables are truncated in a server crash, so the driver passes the expected row count of each stage.
  - A failed attempt leaves its stage behind. The driver sends only stages of successful tasks; the next commit or
    `sluice.maintain()` drops the others.
  - If the outcome of a commit is unknown, the driver retries it; the ledger makes it idempotent.

Few rows need no stage: the task sends them to the driver in its commit message.
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
from pgsluice.spark.sink_target import JSON_COLUMNS, SinkTarget

Result = TypeVar("Result")

# Maximum bytes per task sent to the driver; a stage costs a task two connections and a table, 10 ms.
CARRIED_BYTES_MAX = 128 << 10
# Covers a server restart.
_COMMIT_DEADLINE_S = 60.0
# Spark retries a failed task immediately and only a few times, so a task waits for the server to restart.
_ASK_DEADLINE_S = 20.0
_JSON = pa.json_(pa.string())


@dataclass(frozen=True)
class RowsWritten(WriterCommitMessage):  # type: ignore[misc]
    """Commit message of one task: the location of its rows.

    Attributes:
        part: Partition number.
        row_count: Number of rows.
        stage_id: Stage that contains the rows, or None.
        carried: The rows as an Arrow IPC stream if there is no stage; None without rows.
        micro_batch: Micro-batch of the rows, for a stream.
    """

    part: int
    row_count: int
    stage_id: int | None = None
    carried: bytes | None = None
    micro_batch: MicroBatch | None = None


def stage(
    target: SinkTarget, sink_id: str, version: int, batches: Iterator[pa.RecordBatch], *, part: int
) -> RowsWritten:
    """Stage the rows of one task, or return them if they are few.

    Args:
        target: Queue or log to write to.
        sink_id: Id of the sink.
        version: Version of the write.
        batches: The rows, in any schema that can be cast to the target's.
        part: Partition number; rows are sent in this order.

    Raises:
        SluiceError: A value is invalid for the target, or the server refused it or is unreachable.
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
    target: SinkTarget,
    sink_id: str,
    version: int,
    reports: Sequence[RowsWritten],
    *,
    keep: timedelta | None = None,
) -> bool:
    """Send staged rows in one transaction, idempotent by sink and version.

    Args:
        target: Queue or log to write to.
        sink_id: Id of the sink.
        version: Version of the write; increases with each write, and the first may be 0.
        reports: Commit messages of the tasks.
        keep: Retention of the ledger entry; None for ever.

    Returns:
        False if this or a later version is already committed; nothing is sent.

    Raises:
        SluiceError: Nothing was sent; write the rows again.
    """
    parts = sorted((part for part in reports if part.row_count), key=lambda part: part.part)
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


def drop(target: SinkTarget, sink_id: str, version: int) -> None:
    """Drop the stages of an aborted write; on errors leave it to maintenance."""
    with suppress(SluiceError):
        _ask(target, calls.drop_stages(sink_id, version))


def is_committed(target: SinkTarget, sink_id: str, version: int) -> bool:
    """True if this or a later version of a sink is committed."""
    position = _ask(target, calls.sink_position(sink_id))
    return position is not None and position[0] >= version


def send(target: SinkTarget, batches: Iterator[pa.RecordBatch]) -> int:
    """Send the rows of one task in one transaction, at least once: a retry sends them twice.

    Returns:
        The number of rows.

    Raises:
        SluiceError: As for `stage`. Nothing was sent, unless the connection was lost during the commit.
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


def _send(target: SinkTarget, stages: Sequence[tuple[int, int]]) -> Any:
    if target.kind == "queue":
        return calls.send_staged(target.name, stages)
    return calls.insert_staged(target.name, stages)


def _stage_carried(
    connection: psycopg.Connection[Any],
    dsn: str,
    target: SinkTarget,
    sink_id: str,
    version: int,
    parts: Iterator[RowsWritten],
) -> tuple[int, int]:
    """Copy rows from commit messages into a stage, in the transaction that will send it."""
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
    """Convert JSON columns from text to the Arrow JSON type, so that the server parses them on arrival."""
    json = [name in JSON_COLUMNS for name in schema.names]
    server_schema = pa.schema(
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
            yield pa.RecordBatch.from_arrays(columns, schema=server_schema)

    return server_schema, converted()


def as_messages(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, now: datetime
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Convert rows to rows of a queue's table by adding their visibility time.

    Messages without delay get `now`, which is server time before the transaction that inserts them begins, and so are
    ready rather than deferred.
    """
    kind = pa.timestamp("us", "UTC")
    kept = [field for field in schema if field.name not in ("vt", "delay")]
    server_schema = pa.schema([*kept, pa.field("vt", kind)])

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
                [*(batch.column(field.name) for field in kept), vt], schema=server_schema
            )

    return _for_server(converted(), server_schema)


def _ask(target: SinkTarget, call: Call[Result]) -> Result:
    return _in_transaction(
        target, lambda connection, dsn: run(connection, call, dsn), deadline_s=_ASK_DEADLINE_S
    )


def _in_transaction(
    target: SinkTarget, work: Callable[[psycopg.Connection[Any], str], Result], *, deadline_s: float
) -> Result:
    """Run work in one transaction; retry all of it after transient errors until the deadline."""
    dsn = target.access.conninfo()

    def attempt() -> Result:
        # The connection commits at the end of its block.
        with scrubbed(dsn), driver_connection(target.access) as connection:
            return work(connection, dsn)

    return Backoff(deadline_s=deadline_s).retry(attempt)
