"""Rows of a DataFrame, or of a stream, into a work queue or an event log: format `pgsluice`.

    rows.write.format("pgsluice").mode("append").option("queue", "orders").save()
    rows.writeStream.format("pgsluice").option("log", "orders").option("checkpointLocation", …).start()

Options beside `dsn`, `dsnFile` and `dsnEnv` of `source`:
    queue, log          Where to write. Without either, each row says it in a column of that name.
    delivery            `staged` (default): a micro-batch of a stream is written once, whatever dies; what is no
                        stream is written whole or not at all. `direct`: each task commits its own rows, and a task
                        that runs again writes them again: at least once, a tenth to a fifth faster.
    txnAppId,           For what is no stream: who writes, and a number that rises with each of its writes to this
    txnVersion          queue or log. A write whose number is not above the last one adds nothing.

Columns for a queue: `message` and `headers`, JSON as text; `delay` in seconds or `vt`, a time, for when the
message becomes visible; `key`, by which messages are kept in order (the header x-pgmq-group);
`deduplication_key`, which `sluice.send` explains; `queue`. For a log: `ev_type`, `ev_data`, `ev_extra1` to
`ev_extra4`; `log`.

The rows of a task come in its order, those of a write in the order of the tasks. One write is one transaction: a
thousand tasks are about the most that the server has locks for by default.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError
from pgsluice.spark.micro_batch import MicroBatch, reported
from pgsluice.spark.options import transaction
from pgsluice.spark.sink_rows import RowsWritten, commit, drop, is_committed, send, stage
from pgsluice.spark.sink_target import Target

# A write without a name is not repeated by anybody but its own driver, who asks again within a minute.
_KEEP_NAMELESS = timedelta(days=1)


class RowStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Write each micro-batch of a query."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.target = Target.of(options, schema)
        self.is_direct = _is_direct(options)
        if options.get("txnAppId") or options.get("txnVersion"):
            raise ConfigurationError(
                "txnAppId and txnVersion are for writes that are no stream; a stream has its own"
            )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsWritten:
        task = TaskContext.get()
        if self.is_direct:
            return RowsWritten(task.partitionId(), send(self.target, iterator))
        micro_batch = MicroBatch.of(task)
        app_id, version = micro_batch.app_id, micro_batch.batch_id
        written = stage(self.target, app_id, version, iterator, part=task.partitionId())
        return replace(written, micro_batch=micro_batch)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self.is_direct:
            return
        told = _told(messages)
        micro_batch = reported((message.micro_batch for message in told), batchId)
        if micro_batch is not None:
            commit(self.target, micro_batch.app_id, batchId, told)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        # Spark also calls this when commit() died after the rows were sent: nothing may be undone. What is staged
        # is dropped by the next commit.
        pass


class RowBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Write the rows of a DataFrame."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.target = Target.of(options, schema)
        self.is_direct = _is_direct(options)
        app_id, version = transaction(options)
        if app_id is not None and self.is_direct:
            raise ConfigurationError(
                "txnAppId is given with delivery=direct, which cannot keep it; leave delivery out"
            )
        self.keep = _KEEP_NAMELESS if app_id is None else None
        self.sink_id = f"{app_id}:{self.target}" if app_id else f"pgsluice:write:{uuid.uuid4()}"
        self.version = version or 0
        # Known already, nothing needs to be staged. This is not what keeps it from being written twice.
        self.is_done = app_id is not None and is_committed(self.target, self.sink_id, self.version)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsWritten:
        part = TaskContext.get().partitionId()
        if self.is_done:
            return RowsWritten(part, 0)
        if self.is_direct:
            return RowsWritten(part, send(self.target, iterator))
        return stage(self.target, self.sink_id, self.version, iterator, part=part)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if not self.is_direct:
            commit(self.target, self.sink_id, self.version, _told(messages), keep=self.keep)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # As for a stream, what was sent stays; of what was staged nothing is needed any more.
        if any(message.stage_id is not None for message in _told(messages)):
            drop(self.target, self.sink_id, self.version)


def refuse_overwrite(overwrite: bool) -> None:
    """Raise ConfigurationError when a write is to replace what is there."""
    if overwrite:
        raise ConfigurationError(
            "the format pgsluice only appends; use mode('append'), or empty the queue with purge_queue first"
        )


def _is_direct(options: Mapping[str, str]) -> bool:
    delivery = options.get("delivery", "staged")
    if delivery not in ("staged", "direct"):
        raise ConfigurationError(f"delivery is {delivery!r}; use staged or direct")
    return delivery == "direct"


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[RowsWritten]:
    return [message for message in messages if isinstance(message, RowsWritten)]
