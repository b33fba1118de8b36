"""Write a DataFrame, or a stream, to a work queue or an event log: format `pgsluice`.

    rows.write.format("pgsluice").mode("append").option("queue", "orders").save()
    rows.writeStream.format("pgsluice").option("log", "orders").option("checkpointLocation", …).start()

Options in addition to `dsn`, `dsnFile` and `dsnEnv` of `source`:
    queue, log          Target. Without either, each row names it in a column `queue` or `log`.
    delivery            `staged` (default): exactly-once effect of each micro-batch of a stream; a batch write is
                        atomic. `direct`: each task commits its own rows, and a retried task writes them again: at least
                        once, 10 to 20 % faster.
    txnAppId,           For batch writes: id of the writing app, and a version that increases with each of its writes to
    txnVersion          this queue or log. A write whose version is not above the last one adds nothing.

Columns for a queue: `message` and `headers`, JSON as text; `delay` in seconds or `vt`, a timestamp, for delayed
delivery; `key`, the key for ordered delivery (header x-pgmq-group); `deduplication_key`, see `sluice.send`; `queue`.
For a log: `ev_type`, `ev_data`, `ev_extra1` to `ev_extra4`; `log`.

Rows keep their order within a task, and tasks their order within a write. Each write is one transaction; default server
settings have locks for about a thousand tasks.
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
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError
from pgsluice.spark.features import DataSourceStreamArrowWriter
from pgsluice.spark.micro_batch import MicroBatch, reported
from pgsluice.spark.options import transaction
from pgsluice.spark.sink_rows import RowsWritten, commit, drop, is_committed, send, stage
from pgsluice.spark.sink_target import SinkTarget

# Only the driver itself retries a write without txnAppId, within a minute.
_KEEP_NAMELESS = timedelta(days=1)


class RowStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Write each micro-batch of a query."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.target = SinkTarget.of(options, schema)
        self.is_direct = _is_direct(options)
        if options.get("txnAppId") or options.get("txnVersion"):
            raise ConfigurationError(
                "txnAppId and txnVersion are for batch writes; a stream sets them itself"
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
        reports = _reports(messages)
        micro_batch = reported((message.micro_batch for message in reports), batchId)
        if micro_batch is not None:
            commit(self.target, micro_batch.app_id, batchId, reports)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        # Spark also calls this if commit() failed after the rows were sent, so nothing may be undone. The next commit
        # drops the stages.
        pass


class RowBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Write the rows of a DataFrame."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.target = SinkTarget.of(options, schema)
        self.is_direct = _is_direct(options)
        app_id, version = transaction(options)
        if app_id is not None and self.is_direct:
            raise ConfigurationError(
                "txnAppId cannot be combined with delivery=direct; omit delivery"
            )
        self.keep = _KEEP_NAMELESS if app_id is None else None
        self.sink_id = f"{app_id}:{self.target}" if app_id else f"pgsluice:write:{uuid.uuid4()}"
        self.version = version or 0
        # Only an optimisation: skips staging if already committed. The commit itself is idempotent.
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
            commit(self.target, self.sink_id, self.version, _reports(messages), keep=self.keep)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # As for a stream, sent rows stay; the stages are no longer needed.
        if any(message.stage_id is not None for message in _reports(messages)):
            drop(self.target, self.sink_id, self.version)


def refuse_overwrite(overwrite: bool) -> None:
    """Raise ConfigurationError for overwrite mode."""
    if overwrite:
        raise ConfigurationError(
            "the format pgsluice only appends; use mode('append'), or empty the queue with purge_queue first"
        )


def _is_direct(options: Mapping[str, str]) -> bool:
    delivery = options.get("delivery", "staged")
    if delivery not in ("staged", "direct"):
        raise ConfigurationError(f"delivery is {delivery!r}; use staged or direct")
    return delivery == "direct"


def _reports(messages: Sequence[WriterCommitMessage | None]) -> list[RowsWritten]:
    return [message for message in messages if isinstance(message, RowsWritten)]
