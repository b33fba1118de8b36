"""The current-state table: a Delta table with the columns of a captured table, and one row for each of its rows.

Each row also has `_seq`, the id of the event that wrote it; `_changed_at`, the time of that event; and `_deleted`. A
deleted row stays for a while as a tombstone with its key, so that an older change that arrives later cannot restore
it. Readers must filter out `_deleted` rows, as `live` does.

The table properties `pgsluice.log` and `pgsluice.source`, and the description, tell its origin and completeness.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError

from pgsluice.errors import ChangeError, ConfigurationError, SluiceError
from pgsluice.lake.current_tables import (
    BUCKET,
    CHANGED_AT,
    DELETED,
    OWN_COLUMNS,
    ROW,
    SEQ,
    captured_column,
    lake_column,
    table_folder,
)
from pgsluice.lake.delta.commits import commit_once, is_committed
from pgsluice.lake.delta.files import paths_of
from pgsluice.lake.delta.opening import Use, is_delta, open_delta, require_delta
from pgsluice.lake.nested import is_nested
from pgsluice.lake.storage import Folder, folder_at, folders_in, retry_unanswered
from pgsluice.pipelines.current_state.collapse import NEVER, another_key
from pgsluice.pipelines.current_state.columns import TIMESTAMP, array_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OWN = {SEQ: pa.int64(), CHANGED_AT: TIMESTAMP, DELETED: pa.bool_()}
_KEY_PROPERTY, _BUCKETS_PROPERTY = "pgsluice.key", "pgsluice.buckets"
# `emptied_at` is stored as the transaction version of this application id, so it is part of the commit that sets it,
# and concurrent commits conflict with it.
_EMPTIED = "pgsluice:emptied"


@dataclass(frozen=True)
class CurrentTable:
    """The current-state table of one captured table.

    Attributes:
        name: `schema.table`, as in PostgreSQL.
        folder: Its folder in the lake.
        delta: The Delta table, at some version.
        key: Columns of its key in PostgreSQL; empty if it has none.
        bucket_count: Number of buckets by key hash; 0 for none.
    """

    name: str
    folder: Folder
    delta: DeltaTable
    key: tuple[str, ...]
    bucket_count: int

    @classmethod
    def open(cls, lake: Folder, name: str) -> CurrentTable | None:
        """Return the table of this name in a lake; None if it does not exist, or was created and never changed."""
        folder = table_folder(lake, name)
        if not is_delta(folder):
            return None
        delta = open_delta(folder, Use.MERGE)
        # Created again, as the first changes may not have fitted its columns.
        if any(commit["operation"].startswith("CREATE") for commit in delta.history(1)):
            return None
        kept = delta.metadata().configuration
        if not {_KEY_PROPERTY, _BUCKETS_PROPERTY} <= kept.keys():
            raise ConfigurationError(
                f"the lake table in {folder} is not a current-state table of {name}; use another lake"
            )
        key, bucket_count = tuple(json.loads(kept[_KEY_PROPERTY])), int(kept[_BUCKETS_PROPERTY])
        if bucket_count:
            require_delta(delta, folder, Use.REPLACE)
        return cls(name, folder, delta, key, bucket_count)

    @classmethod
    def create(
        cls,
        lake: Folder,
        name: str,
        key: tuple[str, ...],
        kinds: Mapping[str, pa.DataType],
        *,
        bucket_count: int = 0,
        properties: Mapping[str, str] | None = None,
        description: str | None = None,
    ) -> CurrentTable:
        """Create the table, in place of one of this name.

        Args:
            lake: Folder of all current-state tables.
            name: `schema.table`.
            key: Columns of its key; empty if it has none.
            kinds: Its columns and their types.
            bucket_count: 2 or more to divide it by key hash; 0 for no buckets.
            properties: Additional table properties.
            description: See `describe`.

        Raises:
            ChangeError: It has columns that the lake cannot distinguish, an array or struct in its key, or no key for
                buckets.
        """
        _require_names(name, kinds)
        if bucket_count and not key:
            raise ChangeError(
                f"{name} has no key for buckets; remove it from buckets, and rebuild the table"
            )
        nested = [column for column in key if is_nested(kinds[column])]
        if nested:
            raise ChangeError(
                f"column {name}.{nested[0]} is part of the key and cannot be stored as {kinds[nested[0]]}; remove it "
                "from column_types"
            )
        columns = {lake_column(column): kind for column, kind in kinds.items()} | _OWN
        if not key:
            columns[ROW] = pa.string()
        if bucket_count:
            columns[BUCKET] = pa.int32()
        folder = table_folder(lake, name)
        schema = DeltaSchema.from_arrow(pa.schema(list(columns.items())))

        def make() -> DeltaTable:
            return DeltaTable.create(
                str(folder),
                schema,
                mode="overwrite",
                partition_by=[BUCKET] if bucket_count else None,
                name=name,
                description=description,
                configuration={
                    _KEY_PROPERTY: json.dumps(list(key)),
                    _BUCKETS_PROPERTY: str(bucket_count),
                    **(properties or {}),
                },
                raise_if_key_not_exists=False,
            )

        delta = retry_unanswered(folder, make)
        return cls(name, folder, delta, key, bucket_count)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of its key in the lake."""
        return tuple(map(lake_column, self.key))

    @property
    def schema(self) -> pa.Schema:
        """The columns of its files, in order."""
        schema = pa.schema(self.delta.schema().to_arrow())
        return pa.schema([(field.name, field.type) for field in schema if field.name != BUCKET])

    @property
    def kinds(self) -> dict[str, pa.DataType]:
        """The columns of the table in PostgreSQL and their types in the lake."""
        return {captured_column(f.name): f.type for f in self.schema if f.name not in OWN_COLUMNS}

    @property
    def files(self) -> list[str]:
        """Its Parquet files, relative to its folder."""
        return list(paths_of(self.delta))

    @property
    def emptied_at(self) -> int:
        """Rows with a lower seq are removed; `NEVER` if none."""
        version = self.delta.transaction_version(_EMPTIED)
        return NEVER if version is None else version

    def has_applied(self, app_id: str, version: int) -> bool:
        """True if this or a later version of an application is committed."""
        return is_committed(self.delta, app_id, version)

    def last_applied(self, app_id: str) -> int:
        """Return the last version of an application that is committed; -1 if none."""
        version = self.delta.transaction_version(app_id)
        return -1 if version is None else version

    def applied(self, app_id: str) -> list[Transaction]:
        """Return the transactions with the last applied version of an application, and `emptied_at`."""
        found = [(app_id, self.last_applied(app_id)), (_EMPTIED, self.emptied_at)]
        return [Transaction(app, version) for app, version in found if version >= 0]

    def commit_once(
        self, commit: Callable[[CurrentTable], None], *, app_id: str, version: int
    ) -> CurrentTable | None:
        """Commit a version of an app idempotently; see `pgsluice.lake.delta.commits.commit_once`.

        Returns:
            The table after the commit; None if this or a later version was already committed.

        Raises:
            SluiceError: All attempts conflicted with other commits.
        """
        try:
            delta = commit_once(
                self.delta,
                lambda newest: commit(replace(self, delta=newest)),
                reopen=lambda: self.again().delta,
                app_id=app_id,
                version=version,
            )
        except CommitFailedError as error:
            raise SluiceError(
                f"the current-state table of {self.name} refused a commit: {error}; run the pipeline again"
            ) from error
        return delta and replace(self, delta=delta)

    def require_key(self, key: tuple[str, ...]) -> None:
        """Raise if changes have another key.

        Raises:
            ChangeError: The keys differ.
        """
        if key != self.key:
            raise another_key(self.name, self.key, key)

    def add_columns(self, kinds: Mapping[str, pa.DataType]) -> None:
        """Add columns, null in existing rows.

        Raises:
            ChangeError: The lake cannot distinguish them from others.
        """
        _require_names(self.name, {**self.kinds, **kinds})
        columns = [(lake_column(column), kind) for column, kind in kinds.items()]
        added = DeltaSchema.from_arrow(pa.schema(columns))
        self.delta.alter.add_columns([Field(f.name, f.type) for f in added.fields])

    def describe(self, description: str) -> None:
        """Set the description of the Delta table, in a commit if it differs."""
        # Not a table property: delta-rs 1.6.6 adds the feature variantType to a table with timestamps without a zone
        # when it sets properties of an existing table.
        if self.delta.metadata().description != description:
            self.delta.alter.set_table_description(description)

    def again(self) -> CurrentTable:
        """Return the table at its newest version."""
        use = Use.REPLACE if self.bucket_count else Use.MERGE
        return replace(self, delta=open_delta(self.folder, use))

    def commit_properties(
        self, app_id: str, version: int, emptied_at: int, *others: Transaction
    ) -> CommitProperties:
        """Return the properties that mark a commit as this version of an application, and set `emptied_at`.

        A concurrent commit of the same application makes this one fail.
        """
        transactions = [Transaction(app_id, version), *others]
        if emptied_at > self.emptied_at:
            transactions.append(Transaction(_EMPTIED, emptied_at))
        return CommitProperties(app_transactions=transactions)


def rows_of(name: str, schema: pa.Schema, changes: pa.Table) -> pa.Table:
    """Return changes as rows of a current-state table.

    Args:
        name: Table name, for the error.
        schema: Its columns.
        changes: The last changes of some rows, with the columns of `Portion.rows`.

    Raises:
        ChangeError: A value does not fit its column.
    """

    def column(field: pa.Field) -> pa.ChunkedArray | pa.Array:
        if field.name not in changes.column_names:
            return pa.nulls(changes.num_rows, field.type)
        values = changes[field.name]
        if field.name in OWN_COLUMNS or values.type == field.type:
            return values.cast(field.type)
        return array_of(values.to_pylist(), field.type, f"{name}.{captured_column(field.name)}")

    return pa.table([column(field) for field in schema], schema=schema)


def names_in(lake: Folder) -> list[str]:
    """Return the names of the tables with a current state in this lake, in order."""
    folders = [lake / name for name in folders_in(lake)]
    return [open_delta(folder, Use.READ).metadata().name for folder in folders if is_delta(folder)]


def live(spark: SparkSession, lake: str | Path, name: str) -> DataFrame:
    """Return the current rows of a captured table as a Spark DataFrame.

    Args:
        spark: A session.
        lake: Lake folder of the pipeline `changes`.
        name: `schema.table`.

    Raises:
        ConfigurationError: The table does not exist in the lake.
    """
    from pgsluice.spark.lake_reading import read_table

    rows = read_table(spark, table_folder(folder_at(lake) / "current", name))
    live = rows.where(~rows[DELETED]).drop(*OWN_COLUMNS)
    return live.toDF(*map(captured_column, live.columns))


def _require_names(table: str, names: Mapping[str, pa.DataType]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if seen.setdefault(name.lower(), name) != name:
            raise ChangeError(
                f"{table} has the columns {seen[name.lower()]} and {name}, which the lake cannot distinguish; exclude "
                "one from the events, and rebuild the table"
            )
