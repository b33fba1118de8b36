"""Spark's writers into a table of the lake: tasks write its files, the driver commits them once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pgsluice.errors import ConfigurationError
from pgsluice.spark.lake.files import LakeFile
from pgsluice.spark.lake.table import LakeTable
from pgsluice.spark.micro_batch import MicroBatch, reported
from pgsluice.spark.options import transaction


@dataclass(frozen=True)
class FilesWritten(WriterCommitMessage):  # type: ignore[misc]
    """What one task tells the driver: its files, and for a stream which micro-batch they are of."""

    files: tuple[LakeFile, ...]
    micro_batch: MicroBatch | None = None


class LakeStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Write each micro-batch of a query once."""

    def __init__(self, table: LakeTable) -> None:
        self.table = table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesWritten:
        task = TaskContext.get()
        micro_batch = MicroBatch.of(task)
        return FilesWritten(self.table.write(iterator, part=task.partitionId()), micro_batch)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        told = _told(messages)
        micro_batch = reported((message.micro_batch for message in told), batchId)
        app_id = None if micro_batch is None else micro_batch.app_id
        self.table.commit(_files(told), app_id=app_id, version=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        # Spark also calls this when commit() died after the table took the files: nothing may be undone.
        pass


class LakeBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Append rows once."""

    def __init__(self, table: LakeTable, options: Mapping[str, str]) -> None:
        self.table = table
        self.app_id, self.version = transaction(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesWritten:
        task = TaskContext.get()
        return FilesWritten(self.table.write(iterator, part=task.partitionId()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.table.commit(_files(_told(messages)), app_id=self.app_id, version=self.version)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # As for a stream: the commit may have gone through.
        pass


def refuse_overwrite(name: str, overwrite: bool) -> None:
    """Refuse to replace rows: a format of ours only appends."""
    if overwrite:
        raise ConfigurationError(
            f"the format {name} only appends; use mode('append'), or remove the table first"
        )


def names_of(option: str | None) -> tuple[str, ...]:
    """The column names in an option such as `partitionBy`, separated by commas."""
    return tuple(name.strip() for name in (option or "").split(",") if name.strip())


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[FilesWritten]:
    return [message for message in messages if isinstance(message, FilesWritten)]


def _files(told: Sequence[FilesWritten]) -> list[LakeFile]:
    return [file for message in told for file in message.files]
