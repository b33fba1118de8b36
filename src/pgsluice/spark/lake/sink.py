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

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.spark.lake.files import LakeFile
from pgsluice.spark.lake.table import LakeTable
from pgsluice.spark.options import whole_number_or_zero


@dataclass(frozen=True)
class FilesWritten(WriterCommitMessage):  # type: ignore[misc]
    """What one task tells the driver: its files, and which micro-batch of which query they are of."""

    files: tuple[LakeFile, ...]
    query_id: str | None = None
    batch_id: int | None = None


class LakeStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Write each micro-batch of a query once."""

    def __init__(self, table: LakeTable) -> None:
        self.table = table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesWritten:
        # Spark tells a task neither the query nor the micro-batch, except here.
        task = TaskContext.get()
        query_id = task.getLocalProperty("sql.streaming.queryId")
        batch_id = task.getLocalProperty("streaming.sql.batchId")
        if query_id is None or batch_id is None:
            raise SluiceError(
                "Spark does not say which micro-batch of which query this is; use PySpark 4.2 or newer "
                "and start the stream with writeStream"
            )
        files = self.table.write(iterator, part=task.partitionId())
        return FilesWritten(files, query_id, int(batch_id))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        told = [message for message in messages if isinstance(message, FilesWritten)]
        if {message.batch_id for message in told} - {batchId}:
            raise SluiceError(
                f"tasks of another micro-batch reported to micro-batch {batchId}; restart the stream"
            )
        query_ids = {message.query_id for message in told}
        if len(query_ids) > 1:
            raise SluiceError(
                f"tasks of several queries reported to micro-batch {batchId}; restart the stream"
            )
        query_id = query_ids.pop() if query_ids else None
        self.table.commit(_files(told), app_id=query_id and app_id_of(query_id), version=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        # Spark also calls this when commit() died after the table took the files: nothing may be undone.
        pass


class LakeBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Append rows once."""

    def __init__(self, table: LakeTable, options: Mapping[str, str]) -> None:
        self.table = table
        self.app_id = options.get("txnAppId") or None
        self.version = whole_number_or_zero(options, "txnVersion")
        if (self.app_id is None) != (self.version is None):
            raise ConfigurationError(
                "txnAppId and txnVersion belong together: give both or neither"
            )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesWritten:
        task = TaskContext.get()
        return FilesWritten(self.table.write(iterator, part=task.partitionId()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        told = [message for message in messages if isinstance(message, FilesWritten)]
        self.table.commit(_files(told), app_id=self.app_id, version=self.version)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # As for a stream: the commit may have gone through.
        pass


def app_id_of(query_id: str) -> str:
    """The name under which a query's commits stand in the table's log."""
    return f"pgsluice:{query_id}"


def refuse_overwrite(name: str, overwrite: bool) -> None:
    """Refuse to replace rows: a format of ours only appends."""
    if overwrite:
        raise ConfigurationError(
            f"the format {name} only appends; use mode('append'), or remove the table first"
        )


def names_of(option: str | None) -> tuple[str, ...]:
    """The column names in an option such as `partitionBy`, separated by commas."""
    return tuple(name.strip() for name in (option or "").split(",") if name.strip())


def _files(told: Sequence[FilesWritten]) -> list[LakeFile]:
    return [file for message in told for file in message.files]
