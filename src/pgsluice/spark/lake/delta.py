"""Spark's format `pgsluice-delta`: rows into a Delta table, each micro-batch once, without any jar.

Executors write Parquet files beside the table. Then the driver makes one commit that names the files and
carries, in Delta's own `txn` action, the query's id and the micro-batch's number. Three things follow:

  - nobody sees a file before the commit, and everybody after it: any reader of Delta, not only Spark;
  - after a crash between this commit and Spark's, Spark replays the micro-batch. The table already holds
    its number, and nothing is added. The replay's files are left for `vacuum`, as are those of failed tasks;
  - a driver that was thought dead and commits late finds its number there, or fails: Delta refuses two
    commits of one query that did not see each other.

The table is a folder that the driver and all executors share.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties, Transaction
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.spark.lake.address import IcebergAddress, parse
from pgsluice.spark.lake.disk import sync_delta_log
from pgsluice.spark.lake.files import LakeFile, check_partition_columns
from pgsluice.spark.lake.reading import read_table, row_count
from pgsluice.spark.lake.sink import LakeBatchWriter, LakeStreamWriter, names_of, refuse_overwrite
from pgsluice.spark.lake.table import LakeTable
from pgsluice.spark.lake.taking import claim
from pgsluice.spark.schemas import arrow_schema, nullable
from pgsluice.table_formats.delta import Use, is_delta, open_delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DeltaSink(DataSource):  # type: ignore[misc]
    """The format `pgsluice-delta`.

    Options: `path`, the table's folder, made when it is not there; `partitionBy`, names of columns separated by
    commas, for a table that is made: one that is there keeps its own. For a write that is no stream also
    `txnAppId` and `txnVersion`: a write whose version is not above the last one of that name adds nothing.
    """

    @classmethod
    def name(cls) -> str:
        return "pgsluice-delta"

    def writer(self, schema: StructType, overwrite: bool) -> LakeBatchWriter:
        return LakeBatchWriter(self._table(schema, overwrite), self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeStreamWriter:
        return LakeStreamWriter(self._table(schema, overwrite))

    def _table(self, schema: StructType, overwrite: bool) -> DeltaLakeTable:
        refuse_overwrite(self.name(), overwrite)
        partition_by = names_of(self.options.get("partitionBy"))
        path = self.options.get("path")
        place = parse(path) if path else None
        if isinstance(place, IcebergAddress):
            raise ConfigurationError(
                f"{place} is an Iceberg table; use the format pgsluice-iceberg"
            )
        return DeltaLakeTable.in_folder(place, schema, partition_by=partition_by)


@dataclass(frozen=True)
class DeltaLakeTable(LakeTable):
    """A Delta table in a folder."""

    format_name: ClassVar[str] = "pgsluice-delta"

    @classmethod
    def in_folder(
        cls, path: Path | None, schema: StructType, *, partition_by: Sequence[str] = ()
    ) -> DeltaLakeTable:
        """The table in a folder, as `table_at` says it."""
        if path is None:
            raise ConfigurationError(
                "the format pgsluice-delta needs the table's folder: start(path) or save(path)"
            )
        check_partition_columns(arrow_schema(schema), partition_by)
        wanted = cls(str(path), nullable(schema).json(), tuple(partition_by))
        if not partition_by and (there := wanted.open()) is not None:
            return replace(wanted, partition_by=_partition_columns(there))
        return wanted

    def open(self) -> DeltaTable | None:
        """The table as it is now; None when it is not there."""
        return open_delta(self.path, Use.READ) if is_delta(self.path) else None

    def exists(self) -> bool:
        return is_delta(self.path)

    def create(self) -> DeltaTable:
        """Make the table if it is not there, and open it. Errors as `LakeTable` says."""
        wanted = Schema.from_json(self.schema_json)
        if not is_delta(self.path):
            # Somebody may be making it at this moment: then theirs is taken.
            DeltaTable.create(
                self.path, wanted, mode="ignore", partition_by=list(self.partition_by) or None
            )
        table = open_delta(self.path, Use.APPEND)
        there = [(field.name, field.type) for field in table.schema().fields]
        if there != [(field.name, field.type) for field in wanted.fields]:
            raise ConfigurationError(
                f"the lake table in {self.path} has the columns {', '.join(n for n, _ in there)}, not "
                f"{', '.join(field.name for field in wanted.fields)}, or other types; use another folder"
            )
        if _partition_columns(table) != self.partition_by:
            raise ConfigurationError(
                f"the lake table in {self.path} is partitioned by {_listed(_partition_columns(table))}, not by "
                f"{_listed(self.partition_by)}; leave partitionBy out, or use another folder"
            )
        return table

    def commit(self, files: Sequence[LakeFile], *, app_id: str | None, version: int | None) -> bool:
        table = self.create()
        if not files:
            return True
        properties = None
        if app_id is not None and version is not None:
            if is_committed(table, app_id, version):
                return False
            properties = CommitProperties(app_transactions=[Transaction(app_id, version)])
        claim(Path(self.path), files)
        now_ms = int(time.time() * 1000)
        actions = [
            AddAction(f.path, f.size_bytes, dict(f.partition), now_ms, True, f.stats) for f in files
        ]
        before = table.version()
        try:
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                partition_by=list(self.partition_by) or None,
                commit_properties=properties,
            )
        except CommitFailedError as error:
            again = open_delta(self.path, Use.APPEND)
            if app_id is not None and version is not None and is_committed(again, app_id, version):
                return False  # by a driver that was thought dead
            raise SluiceError(
                f"the lake table in {self.path} refused a commit: {error}; run the write again"
            ) from error
        table.update_incremental()
        sync_delta_log(Path(self.path), before + 1, table.version())
        return True

    def last_version(self, app_id: str) -> int | None:
        table = self.open()
        return None if table is None else table.transaction_version(app_id)

    def read(self, spark: SparkSession) -> DataFrame:
        return read_table(spark, self.path)

    def row_count(self) -> int:
        table = self.open()
        return 0 if table is None else row_count(table)


def is_committed(table: DeltaTable, app_id: str, version: int) -> bool:
    """Whether this version of an app, or a later one, is in the table."""
    last = table.transaction_version(app_id)
    # Not `last or -1`: the first micro-batch has the number 0.
    return last is not None and last >= version


def _partition_columns(table: DeltaTable) -> tuple[str, ...]:
    return tuple(table.metadata().partition_columns)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "no column"
