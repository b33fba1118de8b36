"""Writers of the Spark formats `pgsluice-delta` and `pgsluice-iceberg`: exactly-once writes to lake tables.

Tasks write files of the table, on any machine; the driver commits them idempotently, once per micro-batch of a query.
`pgsluice.lake.delta.table` and `pgsluice.lake.iceberg.table` describe the commits. The driver and all executors must
share the folder of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    WriterCommitMessage,
)

from pgsluice.lake.files import LakeFile
from pgsluice.lake.table import LakeTable, Replace
from pgsluice.spark.checkpoint import record_written
from pgsluice.spark.features import DataSourceStreamArrowWriter
from pgsluice.spark.micro_batch import MicroBatch, reported
from pgsluice.spark.options import one_of, transaction
from pgsluice.spark.stored_checkpoint import publish_plan


@dataclass(frozen=True)
class FilesWritten(WriterCommitMessage):  # type: ignore[misc]
    """Commit message of one task: its files and, for a stream, their micro-batch."""

    files: tuple[LakeFile, ...]
    micro_batch: MicroBatch | None = None


class LakeStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Write each micro-batch of a query once."""

    def __init__(self, table: LakeTable, checkpoint: Path | None = None) -> None:
        self.table = table
        self.checkpoint = checkpoint

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesWritten:
        task = TaskContext.get()
        micro_batch = MicroBatch.of(task)
        return FilesWritten(self.table.write(iterator, part=task.partitionId()), micro_batch)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        reports = _reports(messages)
        micro_batch = reported((message.micro_batch for message in reports), batchId)
        app_id = None if micro_batch is None else micro_batch.app_id
        if self.checkpoint is not None:
            publish_plan(self.checkpoint, batchId)
        _commit(self.table, reports, app_id, batchId, self.checkpoint)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        # Spark also calls this if commit() failed after the table's commit, so nothing may be undone.
        pass


class LakeBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Write the rows of a DataFrame in one commit, idempotent with `txnAppId` and `txnVersion`."""

    def __init__(self, table: LakeTable, options: Mapping[str, str], *, overwrite: bool) -> None:
        self.table = table
        mode = one_of(options, "partitionOverwriteMode", [mode.value for mode in Replace])
        self.replace = Replace(mode) if overwrite else None
        self.app_id, self.version = transaction(options)
        self.checkpoint = checkpoint_of(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesWritten:
        task = TaskContext.get()
        return FilesWritten(self.table.write(iterator, part=task.partitionId()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(
            self.table, _reports(messages), self.app_id, self.version, self.checkpoint, self.replace
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # As for a stream: the commit may have succeeded.
        pass


def checkpoint_of(options: Mapping[str, str]) -> Path | None:
    """Return the folder of the query's checkpoint; None without one, or if it is not a local path."""
    checkpoint = (options.get("checkpointLocation") or "").removeprefix("file://")
    return Path(checkpoint) if checkpoint and ":" not in checkpoint else None


def _commit(
    table: LakeTable,
    reports: Sequence[FilesWritten],
    app_id: str | None,
    version: int | None,
    checkpoint: Path | None,
    replace: Replace | None = None,
) -> None:
    files = [file for message in reports for file in message.files]
    table.commit(files, app_id=app_id, version=version, replace=replace)
    if files and app_id is not None and version is not None and checkpoint is not None:
        record_written(checkpoint, app_id, version)


def _reports(messages: Sequence[WriterCommitMessage | None]) -> list[FilesWritten]:
    return [message for message in messages if isinstance(message, FilesWritten)]
