"""Spark formats `pgsluice-delta` and `pgsluice-iceberg`: read and write lake tables, without extra jars.

Options of `write` and `writeStream`:
    path                Folder of a Delta table, or `iceberg:catalogue/namespace.table`: the argument of `save`, `start`
                        and `load`. A write creates the table if it does not exist.
    partitionBy         Comma-separated partition columns of a new table.
    mergeSchema         Add columns of the rows that the table lacks, all nullable (false). Types never change.
    partitionOverwriteMode
                        For `mode("overwrite")`: `static` (default) replaces all rows, `dynamic` only those of the
                        partitions that the rows have.
    txnAppId,           For batch writes: id of the writing app, and a version that increases with each of its writes to
    txnVersion          this table. A write whose version is not above the last one changes nothing.

Columns are matched by name: columns that the rows lack are null, unknown columns are refused.

Options of `read`:
    path                As above.
    versionAsOf         Version of a Delta table, by default the newest.
    timestampAsOf       Instead: the newest version at a time, in milliseconds since 1970 or as text with UTC offset.
    snapshot-id         Snapshot of an Iceberg table, by default the newest.
    as-of-timestamp     Instead: the newest snapshot at a time, as for `timestampAsOf`.
    pushdown            Skip files by Spark's filters, with their partition values and statistics (false). Requires
                        Spark's setting `spark.sql.python.filterPushdown.enabled`, which `spark_session` enables.

Options of `readStream`:
    path                As above.
    startingVersion     Start a new query with the commit of this version, or with `latest` after the newest one. By
                        default it first reads all rows of the table. A version of an Iceberg table is the sequence
                        number of a snapshot.
    startingTimestamp   Instead: the oldest version since a time, as for `timestampAsOf`.
    maxFilesPerTrigger  Maximum files per micro-batch (1000).
    ignoreDeletes       Ignore commits that only remove rows (false).
    skipChangeCommits   Ignore commits that remove or change rows, with the rows they add (false). Without these two,
                        such a commit stops the stream. Compactions change no rows and are always skipped.
    failOnDataLoss      Fail if commits or files that are not read yet were removed (true), or skip them, with a line on
                        standard error.

A commit that adds columns stops the stream; restart it to read them.

`.schema("id bigint, total double")` reads only these columns.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError
from pgsluice.lake.address import IcebergAddress, parse
from pgsluice.lake.delta.log import DeltaLog
from pgsluice.lake.delta.table import DeltaLakeTable
from pgsluice.lake.iceberg.log import IcebergLog
from pgsluice.lake.iceberg.table import IcebergLakeTable
from pgsluice.lake.storage import Folder
from pgsluice.lake.table import LakeTable
from pgsluice.spark.features import require_filters, stream_reader
from pgsluice.spark.lake_batch import (
    DeltaReader,
    IcebergReader,
    LakeReader,
    SkippingReader,
    open_delta_version,
    open_iceberg_snapshot,
)
from pgsluice.spark.lake_sink import LakeBatchWriter, LakeStreamWriter, checkpoint_of
from pgsluice.spark.lake_stream import LakeStreamReader
from pgsluice.spark.lake_tables import delta_table, iceberg_table
from pgsluice.spark.options import require_known, truth


class _LakeSource(DataSource):  # type: ignore[misc]
    """Format of lake tables."""

    format_name: ClassVar[str]

    def __init__(self, options: MutableMapping[str, str]) -> None:
        require_known(options, self.format_name)
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return cls.format_name

    def writer(self, schema: StructType, overwrite: bool) -> LakeBatchWriter:
        return LakeBatchWriter(self._table(schema), self.options, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeStreamWriter:
        if overwrite:
            raise ConfigurationError(
                f"a stream with the format {self.format_name} only appends; use outputMode('append'), or overwrite the "
                "table in foreachBatch"
            )
        return LakeStreamWriter(self._table(schema), checkpoint_of(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        chosen = self._reader(schema)
        if truth(self.options, "pushdown", default=False):
            require_filters()
            return SkippingReader(chosen)
        return chosen

    def _reader(self, schema: StructType) -> LakeReader:
        raise NotImplementedError

    def _table(self, schema: StructType) -> LakeTable:
        """Return the table to write rows with these columns to."""
        raise NotImplementedError

    def _partition_by(self) -> tuple[str, ...]:
        names = self.options.get("partitionBy", "").split(",")
        return tuple(name.strip() for name in names if name.strip())

    def _merge_schema(self) -> bool:
        return truth(self.options, "mergeSchema", default=False)


class DeltaSource(_LakeSource):
    """The format `pgsluice-delta`."""

    format_name = "pgsluice-delta"

    def schema(self) -> StructType:
        return open_delta_version(self._folder(), self.options)[1]

    def _reader(self, schema: StructType) -> DeltaReader:
        folder = self._folder()
        version, table_schema = open_delta_version(folder, self.options)
        return DeltaReader(folder, version, table_schema, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        folder = self._folder()
        _, table_schema = open_delta_version(folder, {})
        return stream_reader(LakeStreamReader(DeltaLog(folder), table_schema, schema, self.options))

    def _table(self, schema: StructType) -> DeltaLakeTable:
        return delta_table(
            self._folder(),
            schema,
            partition_by=self._partition_by(),
            merge_schema=self._merge_schema(),
        )

    def _folder(self) -> Folder:
        path = self.options.get("path")
        place = parse(path) if path else None
        if place is None:
            raise ConfigurationError(
                "the format pgsluice-delta needs the table's folder: start(path), save(path) or load(path)"
            )
        if isinstance(place, IcebergAddress):
            raise ConfigurationError(
                f"{place} is an Iceberg table; use the format pgsluice-iceberg"
            )
        return place


class IcebergSource(_LakeSource):
    """The format `pgsluice-iceberg`."""

    format_name = "pgsluice-iceberg"

    def schema(self) -> StructType:
        return open_iceberg_snapshot(self._address(), self.options)[1]

    def _reader(self, schema: StructType) -> IcebergReader:
        address = self._address()
        snapshot_id, table_schema = open_iceberg_snapshot(address, self.options)
        return IcebergReader(address, snapshot_id, table_schema, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        address = self._address()
        _, table_schema = open_iceberg_snapshot(address, {})
        return stream_reader(
            LakeStreamReader(IcebergLog(address), table_schema, schema, self.options)
        )

    def _table(self, schema: StructType) -> IcebergLakeTable:
        return iceberg_table(
            self._address(),
            schema,
            partition_by=self._partition_by(),
            merge_schema=self._merge_schema(),
        )

    def _address(self) -> IcebergAddress:
        path = self.options.get("path") or ""
        address = parse(path) if path else None
        if not isinstance(address, IcebergAddress):
            raise ConfigurationError(
                f"the format pgsluice-iceberg has the path {path!r}; give iceberg:catalogue/namespace.table"
            )
        return address
