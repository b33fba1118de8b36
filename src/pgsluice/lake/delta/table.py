"""Exactly-once writes of micro-batches to a Delta table.

Tasks write Parquet files into the folder of the table. Then the driver makes one commit that adds the files and
records the query id and the micro-batch id in Delta's `txn` action:

  - Files are visible to all Delta readers, not only Spark, from the commit on and not before.
  - If the driver crashes between this commit and Spark's, Spark replays the micro-batch. The table already has its id,
    so the replay adds nothing. `vacuum` removes the files of the replay and of failed tasks.
  - A stale driver that commits late finds its micro-batch id in the table, or its commit fails: Delta refuses
    concurrent transactions of one query.

The driver and all executors must share the folder of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import CommitProperties, Transaction

from pgsluice.errors import ConfigurationError, StoreError
from pgsluice.lake.columns import columns_to_add, merged, plain
from pgsluice.lake.delta.commits import (
    COMMITS_MAX,
    commit_files,
    commit_once,
    rewriting,
    sync_delta_log,
)
from pgsluice.lake.delta.files import TableFile, files_of, paths_of, row_count
from pgsluice.lake.delta.opening import Use, is_delta, open_delta
from pgsluice.lake.files import LakeFile, check_partition_columns
from pgsluice.lake.storage import Folder, retry_unanswered
from pgsluice.lake.table import LakeTable, Replace


@dataclass(frozen=True)
class DeltaLakeTable(LakeTable):
    """Delta table in a folder.

    Attributes:
        schema_json: Columns of the rows as a schema in Delta's and Spark's JSON format.
    """

    schema_json: str = field(kw_only=True)

    format_name: ClassVar[str] = "pgsluice-delta"

    @classmethod
    def in_folder(
        cls,
        folder: Folder,
        schema: pa.Schema,
        schema_json: str,
        *,
        partition_by: Sequence[str] = (),
        merge_schema: bool = False,
    ) -> DeltaLakeTable:
        """Return the table in a folder; nothing is created or changed.

        Args:
            folder: The folder; need not exist.
            schema: Columns of the rows to write, all nullable.
            schema_json: The same in Delta's JSON format, which includes column metadata that Arrow drops.
            partition_by: Partition columns of a new table; an existing table has its own.
            merge_schema: Add columns of the rows that the table lacks.

        Raises:
            ConfigurationError: The partition columns are invalid, or the rows do not fit an existing table.
        """
        requested = cls(
            str(folder), schema, schema, tuple(partition_by), merge_schema, schema_json=schema_json
        )
        existing = requested.open()
        if existing is None:
            check_partition_columns(schema, partition_by)
            return requested
        requested._columns_to_add(existing)
        return replace(
            requested,
            arrow_schema=merged(schema, _columns(existing)),
            partition_by=tuple(partition_by) or _partition_columns(existing),
        )

    @property
    def place(self) -> str:
        return self.path

    def open(self) -> DeltaTable | None:
        """Open the newest version of the table; None if it does not exist."""
        return open_delta(self.folder, Use.READ) if is_delta(self.folder) else None

    def exists(self) -> bool:
        return is_delta(self.folder)

    def create(self) -> DeltaTable:
        """Create the table if it does not exist, and open it; for errors see `LakeTable`."""
        return self._created(Use.APPEND)

    def _created(self, use: Use) -> DeltaTable:
        return retry_unanswered(self.folder, lambda: self._create(use))

    def _create(self, use: Use) -> DeltaTable:
        if not is_delta(self.folder):
            # A concurrent writer may create it first. With retries, delta-rs would then commit this table, with another
            # id, as the next version.
            with suppress(CommitFailedError):
                DeltaTable.create(
                    self.path,
                    Schema.from_json(self.schema_json),
                    mode="ignore",
                    partition_by=list(self.partition_by) or None,
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
        table = open_delta(self.folder, use)
        if _partition_columns(table) != self.partition_by:
            raise ConfigurationError(
                f"{self} is partitioned by {_listed(_partition_columns(table))}, not by "
                f"{_listed(self.partition_by)}; leave partitionBy out, or use another folder"
            )
        for _ in range(COMMITS_MAX):
            missing = self._columns_to_add(table)
            if not missing:
                return table
            with suppress(CommitFailedError):  # a concurrent writer changed the table
                self._add_columns(table, missing)
            table = open_delta(self.folder, use)
        raise StoreError(
            f"{self} refused {COMMITS_MAX} commits that add columns; run the write again"
        )

    def commit(
        self,
        files: Sequence[LakeFile],
        *,
        app_id: str | None,
        version: int | None,
        replace: Replace | None = None,
    ) -> bool:
        use = Use.APPEND if replace is None else Use.REPLACE
        first = self._created(use)
        removed = _replaced(first, files, replace)

        def change(table: DeltaTable) -> None:
            if not files and not removed:
                return
            if table is not first and {file.path for file in files} & paths_of(table):
                return  # the unanswered attempt made this commit
            if removed and {file.path for file in removed} - paths_of(table):
                raise StoreError(
                    f"{self} was not overwritten: a concurrent commit replaced its files; run the write again"
                )
            transactions = [rewriting(table)] if removed else []
            if app_id is not None and version is not None:
                transactions.append(Transaction(app_id, version))
            properties = CommitProperties(app_transactions=transactions) if transactions else None
            commit_files(table, files, removed, properties=properties)

        try:
            done = commit_once(
                first,
                change,
                reopen=lambda: self._created(use),
                app_id=app_id,
                version=version,
            )
        except CommitFailedError as error:
            raise StoreError(f"{self} refused a commit: {error}; run the write again") from error
        return done is not None

    def last_version(self, app_id: str) -> int | None:
        table = self.open()
        return None if table is None else table.transaction_version(app_id)

    def row_count(self) -> int:
        table = self.open()
        return 0 if table is None else row_count(table)

    def __str__(self) -> str:
        return f"the lake table in {self.path}"

    def _columns_to_add(self, table: DeltaTable) -> list[str]:
        return columns_to_add(
            self.rows_schema, _columns(table), may_add=self.merge_schema, table=str(self)
        )

    def _add_columns(self, table: DeltaTable, names: Sequence[str]) -> None:
        new = [field for field in Schema.from_json(self.schema_json).fields if field.name in names]
        before = table.version()
        table.alter.add_columns(new)
        sync_delta_log(self.folder, before + 1, table.version())


def _replaced(
    table: DeltaTable, files: Sequence[LakeFile], replace: Replace | None
) -> list[TableFile]:
    """Return the files of the table that a commit of files replaces."""
    if replace is None:
        return []
    existing = files_of(table)
    if replace is Replace.TABLE:
        return existing
    partitions = [dict(file.partition) for file in files]
    return [file for file in existing if dict(file.partition) in partitions]


def _columns(table: DeltaTable) -> pa.Schema:
    """Return the columns of a table with the types in its files."""
    return plain(pa.schema(table.schema().to_arrow()))


def _partition_columns(table: DeltaTable) -> tuple[str, ...]:
    return tuple(table.metadata().partition_columns)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "no column"
