"""Spark's formats `pgsluice-delta` and `pgsluice-iceberg`: rows into a table of the lake, without any jar.

Tasks write files of the table, on any machine; the driver commits them once for each micro-batch of a query.
`pgsluice.lake.delta.table` and `pgsluice.lake.iceberg.table` describe the commits. The table's folder is one that the
driver and all executors share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError
from pgsluice.lake.address import IcebergAddress, parse
from pgsluice.lake.delta.table import DeltaLakeTable
from pgsluice.lake.files import LakeFile
from pgsluice.lake.iceberg.table import IcebergLakeTable
from pgsluice.lake.table import LakeTable
from pgsluice.spark.lake_tables import delta_table, iceberg_table
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


class _LakeSink(DataSource):  # type: ignore[misc]
    """A format that appends rows to a table of the lake."""

    def writer(self, schema: StructType, overwrite: bool) -> LakeBatchWriter:
        return LakeBatchWriter(self._table(schema, overwrite), self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeStreamWriter:
        return LakeStreamWriter(self._table(schema, overwrite))

    def _table(self, schema: StructType, overwrite: bool) -> LakeTable:
        raise NotImplementedError


class DeltaSink(_LakeSink):
    """The format `pgsluice-delta`.

    Options: `path`, the table's folder, made when it is not there; `partitionBy`, names of columns separated by
    commas, for a table that is made: one that is there keeps its own. For a write that is no stream also
    `txnAppId` and `txnVersion`: a write whose version is not above the last one of that name adds nothing.
    """

    @classmethod
    def name(cls) -> str:
        return "pgsluice-delta"

    def _table(self, schema: StructType, overwrite: bool) -> DeltaLakeTable:
        _refuse_overwrite(self.name(), overwrite)
        partition_by = _names_of(self.options.get("partitionBy"))
        path = self.options.get("path")
        place = parse(path) if path else None
        if isinstance(place, IcebergAddress):
            raise ConfigurationError(
                f"{place} is an Iceberg table; use the format pgsluice-iceberg"
            )
        return delta_table(place, schema, partition_by=partition_by)


class IcebergSink(_LakeSink):
    """The format `pgsluice-iceberg`.

    Options: `path`, `iceberg:catalogue/namespace.table`; the table is made when it is not there. `partitionBy`,
    `txnAppId` and `txnVersion` as those of `pgsluice-delta`.
    """

    @classmethod
    def name(cls) -> str:
        return "pgsluice-iceberg"

    def _table(self, schema: StructType, overwrite: bool) -> IcebergLakeTable:
        _refuse_overwrite(self.name(), overwrite)
        path = self.options.get("path") or ""
        address = parse(path) if path else None
        if not isinstance(address, IcebergAddress):
            raise ConfigurationError(
                f"the format pgsluice-iceberg has the path {path!r}; give iceberg:catalogue/namespace.table"
            )
        partition_by = _names_of(self.options.get("partitionBy"))
        return iceberg_table(address, schema, partition_by=partition_by)


def _refuse_overwrite(name: str, overwrite: bool) -> None:
    """Refuse to replace rows: a format of ours only appends."""
    if overwrite:
        raise ConfigurationError(
            f"the format {name} only appends; use mode('append'), or remove the table first"
        )


def _names_of(option: str | None) -> tuple[str, ...]:
    """The column names in an option such as `partitionBy`, separated by commas."""
    return tuple(name.strip() for name in (option or "").split(",") if name.strip())


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[FilesWritten]:
    return [message for message in messages if isinstance(message, FilesWritten)]


def _files(told: Sequence[FilesWritten]) -> list[LakeFile]:
    return [file for message in told for file in message.files]
