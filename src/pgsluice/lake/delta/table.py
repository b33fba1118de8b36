"""Rows into a Delta table, each micro-batch once.

Tasks write Parquet files beside the table. Then the driver makes one commit that names the files and
carries, in Delta's own `txn` action, the query's id and the micro-batch's number. Three things follow:

  - nobody sees a file before the commit, and everybody after it: any reader of Delta, not only Spark;
  - after a crash between this commit and Spark's, Spark replays the micro-batch. The table already holds
    its number, and nothing is added. The replay's files are left for `vacuum`, as are those of failed tasks;
  - a driver that was thought dead and commits late finds its number there, or fails: Delta refuses two
    commits of one query that did not see each other.

The table is a folder that the driver and all executors share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import CommitProperties, Transaction

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.delta.commits import commit_files, is_committed
from pgsluice.lake.delta.files import row_count
from pgsluice.lake.delta.opening import Use, is_delta, open_delta
from pgsluice.lake.files import LakeFile, check_partition_columns
from pgsluice.lake.table import LakeTable


@dataclass(frozen=True)
class DeltaLakeTable(LakeTable):
    """A Delta table in a folder.

    Attributes:
        schema_json: Its columns as Delta, and Spark, write a schema.
    """

    schema_json: str = field(kw_only=True)

    format_name: ClassVar[str] = "pgsluice-delta"

    @classmethod
    def in_folder(
        cls, path: Path, schema: pa.Schema, schema_json: str, *, partition_by: Sequence[str] = ()
    ) -> DeltaLakeTable:
        """Return the table in a folder; nothing is created or changed.

        Args:
            path: The folder; it may not exist yet.
            schema: The columns of what will be written; each may be null.
            schema_json: The same as Delta writes a schema: Arrow has no place for a column's metadata.
            partition_by: For a table that does not exist yet; one that exists has its own.

        Raises:
            ConfigurationError: The table cannot be partitioned so.
        """
        check_partition_columns(schema, partition_by)
        wanted = cls(str(path), schema, tuple(partition_by), schema_json=schema_json)
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
        try:
            commit_files(table, files, properties=properties)
        except CommitFailedError as error:
            again = open_delta(self.path, Use.APPEND)
            if app_id is not None and version is not None and is_committed(again, app_id, version):
                return False  # by a driver that was thought dead
            raise SluiceError(
                f"the lake table in {self.path} refused a commit: {error}; run the write again"
            ) from error
        return True

    def last_version(self, app_id: str) -> int | None:
        table = self.open()
        return None if table is None else table.transaction_version(app_id)

    def row_count(self) -> int:
        table = self.open()
        return 0 if table is None else row_count(table)


def _partition_columns(table: DeltaTable) -> tuple[str, ...]:
    return tuple(table.metadata().partition_columns)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "no column"
