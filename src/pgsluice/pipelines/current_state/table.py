"""The current-state table: a lake table with the columns of a captured table, and one row for each of its rows.

Each row also has `_seq`, the id of the event that wrote it; `_changed_at`, the time of that event; and `_deleted`. A
deleted row stays for a while as a tombstone with its key, so that an older change that arrives later cannot restore
it. Readers must filter out `_deleted` rows, as `live` does.

The table properties `pgsluice.log` and `pgsluice.source`, and the description, tell its origin and completeness.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.errors import ChangeError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.columns import without_negative_zero
from pgsluice.lake.current_tables import (
    BUCKET,
    CHANGED_AT,
    DELETED,
    OWN_COLUMNS,
    ROW,
    SEQ,
    Tables,
    captured_column,
    described,
    folded,
    lake_column,
)
from pgsluice.lake.file_errors import UnusableTableError
from pgsluice.lake.mutable import MutableTable, NewTable
from pgsluice.lake.names import ColumnName, TableName, quoted
from pgsluice.lake.nested import is_nested
from pgsluice.lake.storage import Folder
from pgsluice.lake.tables import create_mutable, open_mutable, tables_in
from pgsluice.pipelines.current_state.collapse import NEVER, another_key
from pgsluice.pipelines.current_state.columns import (
    TIMESTAMP,
    array_of,
    ends_in,
    has_ends,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OWN = {SEQ: pa.int64(), CHANGED_AT: TIMESTAMP, DELETED: pa.bool_()}
_KEY_PROPERTY, _BUCKETS_PROPERTY = "pgsluice.key", "pgsluice.buckets"
# `emptied_at` is stored as the version of this application id, so it is part of the commit that sets it,
# and concurrent commits conflict with it.
EMPTIED = "pgsluice:emptied"


@dataclass(frozen=True)
class CurrentTable:
    """The current-state table of one captured table.

    Attributes:
        name: The table in PostgreSQL.
        stored: The lake table, at some version.
        key: Columns of its key in PostgreSQL; empty if it has none.
        bucket_count: Number of buckets by key hash; 0 for none.
    """

    name: TableName
    stored: MutableTable
    key: tuple[str, ...]
    bucket_count: int

    @classmethod
    def open(cls, lake: Tables, name: TableName) -> CurrentTable | None:
        """Return the table of this name in a lake; None if it does not exist, or was created and never changed."""
        place = lake.place_of(name)
        # A table that never changed is created again, as the first changes may not have fitted its columns.
        stored = open_mutable(place)
        if stored is None:
            return None
        kept = stored.properties
        if not {_KEY_PROPERTY, _BUCKETS_PROPERTY} <= kept.keys():
            raise UnusableTableError(
                f"{described(place)} is not a current-state table of {name}; use another lake"
            )
        key, bucket_count = tuple(json.loads(kept[_KEY_PROPERTY])), int(kept[_BUCKETS_PROPERTY])
        return cls(name, stored, key, bucket_count)

    @classmethod
    def create(
        cls,
        lake: Tables,
        name: TableName,
        key: tuple[str, ...],
        kinds: Mapping[str, pa.DataType],
        *,
        bucket_count: int = 0,
        properties: Mapping[str, str] | None = None,
        description: str | None = None,
    ) -> CurrentTable:
        """Create the table, in place of one of this name.

        Args:
            lake: The current-state tables of the lake.
            name: The table in PostgreSQL.
            key: Columns of its key; empty if it has none.
            kinds: Its columns and their types.
            bucket_count: 2 or more to divide it by key hash; 0 for no buckets.
            properties: Additional table properties.
            description: See `describe`.

        Raises:
            ChangeError: It has columns that the lake cannot distinguish, an array or struct in its key, or no key for
                buckets.
        """
        require_names(name, kinds)
        if bucket_count and not key:
            raise ChangeError(
                f"{name} has no key for buckets; remove it from buckets, and rebuild the table"
            )
        nested = [column for column in key if is_nested(kinds[column])]
        if nested:
            raise ChangeError(
                f"column {ColumnName(name, nested[0])} is part of the key and cannot be stored as {kinds[nested[0]]}; "
                "remove it from column_types"
            )
        columns = {lake_column(column): kind for column, kind in kinds.items()} | _OWN
        if not key or any(has_ends(kinds[column]) for column in key):
            columns[ROW] = pa.string()
        if bucket_count:
            columns[BUCKET] = pa.int32()
        new = NewTable(
            pa.schema(list(columns.items())),
            partition_by=[BUCKET] if bucket_count else [],
            name=str(name),
            description=description,
            properties={
                _KEY_PROPERTY: json.dumps(list(key)),
                _BUCKETS_PROPERTY: str(bucket_count),
                **(properties or {}),
            },
        )
        stored = create_mutable(lake.place_of(name), new)
        return cls(name, stored, key, bucket_count)

    @property
    def folder(self) -> Folder:
        """The folder of its files."""
        return self.stored.folder

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of its key in the lake."""
        return tuple(map(lake_column, self.key))

    @property
    def matched_by(self) -> tuple[str, ...]:
        """The columns that identify a row in the lake; empty without a key."""
        return matched_by(self.key_columns, self.schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns of its files, in order."""
        columns = self.stored.columns
        return pa.schema([(field.name, field.type) for field in columns if field.name != BUCKET])

    @property
    def kinds(self) -> dict[str, pa.DataType]:
        """The columns of the table in PostgreSQL and their types in the lake."""
        return {captured_column(f.name): f.type for f in self.schema if f.name not in OWN_COLUMNS}

    @property
    def files(self) -> list[str]:
        """Its Parquet files, relative to its folder."""
        return [file.path for file in self.stored.files()]

    @property
    def emptied_at(self) -> int:
        """Rows with a lower seq are removed; `NEVER` if none."""
        version = self.stored.last_version(EMPTIED)
        return NEVER if version is None else version

    def has_applied(self, app_id: str, version: int) -> bool:
        """True if this or a later version of an application is committed."""
        return self.last_applied(app_id) >= version

    def last_applied(self, app_id: str) -> int:
        """Return the last version of an application that is committed; -1 if none."""
        version = self.stored.last_version(app_id)
        return -1 if version is None else version

    def applied(self, app_id: str) -> dict[str, int]:
        """Return the last applied version of an application, and `emptied_at`, as versions for a commit."""
        found = {app_id: self.last_applied(app_id), EMPTIED: self.emptied_at}
        return {app: version for app, version in found.items() if version >= 0}

    def commit_once(
        self, commit: Callable[[CurrentTable], None], *, app_id: str, version: int
    ) -> CurrentTable | None:
        """Commit a version of an app idempotently; see `MutableTable.commit_once`.

        Returns:
            The table after the commit; None if this or a later version was already committed.

        Raises:
            SluiceError: All attempts conflicted with other commits.
        """
        stored = self.stored.commit_once(
            lambda newest: commit(replace(self, stored=newest)), app_id=app_id, version=version
        )
        return None if stored is None else replace(self, stored=stored)

    def require_key(self, key: tuple[str, ...]) -> None:
        """Raise if changes have another key.

        Raises:
            SchemaChangeError: The keys differ.
        """
        if key != self.key:
            raise another_key(self.name, self.key, key)

    def add_columns(self, kinds: Mapping[str, pa.DataType]) -> None:
        """Add columns, null in existing rows.

        Raises:
            ChangeError: The lake cannot distinguish them from others.
        """
        require_names(self.name, {**self.kinds, **kinds})
        columns = [(lake_column(column), kind) for column, kind in kinds.items()]
        self.stored.add_columns(pa.schema(columns))

    def describe(self, description: str) -> None:
        """Set the description of the lake table, in a commit if it differs."""
        self.stored.describe(description)

    def again(self) -> CurrentTable:
        """Return the table at its newest version."""
        return replace(self, stored=self.stored.newest())

    def versions(self, app_id: str, version: int, emptied_at: int) -> dict[str, int]:
        """Return the versions that mark a commit as this version of an application, and set `emptied_at`.

        A concurrent commit of the same application makes this one fail.
        """
        line = {EMPTIED: emptied_at} if emptied_at > self.emptied_at else {}
        return {app_id: version, **line}


def matched_by(key: tuple[str, ...], schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that identify a row: those of its key, and `ROW` if it tells infinite times in keys."""
    return (*key, ROW) if key and ROW in schema.names else key


def rows_of(
    name: TableName, schema: pa.Schema, changes: pa.Table, key: tuple[str, ...] = ()
) -> pa.Table:
    """Return changes as rows of a current-state table.

    Args:
        name: Table name, for the error.
        schema: Its columns.
        changes: The last changes of some rows, with the columns of `Portion.rows`.
        key: Columns of its key in the lake.

    Raises:
        ChangeError: A value does not fit its column.
    """

    ends = ends_in(changes, {column: schema.field(column).type for column in key})
    if key and ROW not in schema.names and pc.any(pc.not_equal(ends, "")).as_py():
        raise ChangeError(
            f"a key of {name} is infinite, which its lake table cannot distinguish from a date or timestamp; "
            "rebuild the table"
        )

    def column(field: pa.Field) -> pa.ChunkedArray | pa.Array:
        if key and field.name == ROW:
            return ends
        if field.name not in changes.column_names:
            return pa.nulls(changes.num_rows, field.type)
        values = changes[field.name]
        if field.name in OWN_COLUMNS or values.type == field.type:
            return values.cast(field.type)
        of = str(ColumnName(name, captured_column(field.name)))
        stored = array_of(values.to_pylist(), field.type, of)
        return without_negative_zero(stored) if field.name in key else stored

    return pa.table([column(field) for field in schema], schema=schema)


def live(spark: SparkSession, lake: str | Path, name: str) -> DataFrame:
    """Return the current rows of a captured table as a Spark DataFrame.

    Args:
        spark: A session.
        lake: Lake of the pipeline `changes`: a folder, or `iceberg:catalogue/namespace`.
        name: `schema.table`, with double quotes around a part that contains a dot.

    Raises:
        ConfigurationError: The table does not exist in the lake, or the name has another number of parts.
    """
    from pgsluice.spark.lake_reading import read_iceberg, read_table

    place = tables_in(lake).place_of(TableName.parse(name))
    rows = (
        read_iceberg(spark, place)
        if isinstance(place, IcebergAddress)
        else read_table(spark, place)
    )
    live = rows.where(~rows[DELETED]).drop(*OWN_COLUMNS)
    return live.toDF(*map(captured_column, live.columns))


def require_names(table: TableName, names: Iterable[str]) -> None:
    """Raise if the lake cannot distinguish columns.

    Raises:
        ChangeError: Two names are equal in the lake.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(folded(lake_column(name)), name)
        if other != name:
            raise ChangeError(
                f"{table} has the columns {quoted(other)} and {quoted(name)}, which the lake cannot distinguish; "
                "exclude one from the events, and rebuild the table"
            )
