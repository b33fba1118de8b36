"""Sink of captured changes, for Spark Connect: commit the events, and record the micro-batch for the `Applier`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, WriterCommitMessage
from pyspark.sql.types import StructType

from pgsluice.lake.current_tables import Applied, Tables, read_applied, write_applied
from pgsluice.lake.table import LakeTable
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.current_state.event_files import EventsWritten, Written, write_part
from pgsluice.pipelines.current_state.pending import Pending, pending_folder
from pgsluice.spark.checkpoint import record_written
from pgsluice.spark.features import DataSourceStreamArrowWriter
from pgsluice.spark.lake_tables import table_at
from pgsluice.spark.micro_batch import MicroBatch, reported
from pgsluice.spark.stored_checkpoint import publish_plan


class _Writer(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Write the events of each micro-batch once, and add it to the pending ones."""

    def __init__(self, current: Tables, table: LakeTable, checkpoint: Path) -> None:
        self.current, self.table, self.checkpoint = current, table, checkpoint

    def write(self, iterator: Iterator[pa.RecordBatch]) -> EventsWritten:
        task = TaskContext.get()
        written = write_part(iterator, self.table, task.partitionId())
        return EventsWritten(written, MicroBatch.of(task))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        found = [message for message in messages if isinstance(message, EventsWritten)]
        micro_batch = reported((message.micro_batch for message in found), batchId)
        if micro_batch is None:
            return  # without tasks there are no events
        written, app_id = Written.joined(message.written for message in found), micro_batch.app_id
        publish_plan(self.checkpoint, batchId)
        if read_applied(self.current) is None:
            write_applied(self.current, Applied(app_id, batchId - 1))
        self.table.commit(written.files, app_id=app_id, version=batchId)
        if written.files:
            record_written(self.checkpoint, app_id, batchId)
        # Last: after a crash before this, Spark repeats the micro-batch, and the table skips its commit.
        Pending(pending_folder(self.checkpoint)).add(batchId, written)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass  # vacuum removes the files


class EventSink(DataSource):  # type: ignore[misc]
    """The format of the sink; `path` is the lake of the pipeline."""

    @classmethod
    def name(cls) -> str:
        return "pgsluice-event-sink"

    def streamWriter(self, schema: StructType, overwrite: bool) -> _Writer:  # noqa: ARG002 - Spark's signature
        current = tables_in(self.options["path"])
        checkpoint = Path(self.options["checkpointLocation"].removeprefix("file://"))
        return _Writer(current, table_at(current.events, schema), checkpoint)
