"""Iceberg tables whose rows are changed, by copy-on-write; see `pgsluice.lake.mutable`.

A commit requires that the snapshot it is based on is still the newest, so a concurrent commit or a stale driver makes
it fail. The versions of apps are properties of the table, set in the same commit, as in `pgsluice.lake.iceberg.table`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.errors import StoreError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.compaction import rows_of
from pgsluice.lake.copy_on_write import filtered, merged, written
from pgsluice.lake.file_errors import UnusableTableError
from pgsluice.lake.files import LakeFile
from pgsluice.lake.iceberg.catalog import (
    columns_of,
    folder_of,
    load_table,
    name_in,
    opened_catalog,
    partition_columns,
    plain_files,
    retry_conflicts,
    sync_newest,
)
from pgsluice.lake.iceberg.features import OLDEST_SCHEMA
from pgsluice.lake.iceberg.table import (
    NAME_MAPPING,
    TXN,
    IcebergLakeTable,
    committed_version,
)
from pgsluice.lake.mutable import Changes, MutableTable, NewTable, RowFile, Rows
from pgsluice.lake.reservation import claim
from pgsluice.lake.skipping import Range
from pgsluice.lake.storage import Folder, remove_folder

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction

_COMMENT = "comment"
NAME = "pgsluice.table"
# How pyiceberg returns the bounds of these types, and what they are.
_ARROW = {
    "date": (pa.int32(), pa.date32()),
    "timestamp": (pa.int64(), pa.timestamp("us")),
    "timestamptz": (pa.int64(), pa.timestamp("us", "UTC")),
}


@dataclass(frozen=True)
class IcebergMutableTable(MutableTable):
    """Iceberg table at one version.

    Attributes:
        place: Its address.
        table: The table.
    """

    place: IcebergAddress
    table: Table

    # Iceberg readers expect all columns in the files.
    keeps_partition_columns: ClassVar[bool] = True

    @classmethod
    def open(cls, address: IcebergAddress) -> IcebergMutableTable | None:
        """Return the table at an address; None if it does not exist, or was created and never changed.

        Raises:
            ConfigurationError: It uses a feature not supported for changes.
        """
        with opened_catalog(address.catalog) as catalog:
            table = load_table(catalog, address)
        if table is None or table.current_snapshot() is None:
            return None
        return cls(address, table)

    @classmethod
    def existing(cls, address: IcebergAddress) -> Self:
        """Return the table at an address, also if it was never changed.

        Raises:
            StoreError: It does not exist.
        """
        with opened_catalog(address.catalog) as catalog:
            table = load_table(catalog, address)
        if table is None:
            raise StoreError(
                f"the lake table {address} was dropped meanwhile; run the pipeline again"
            )
        return cls(address, table)

    @classmethod
    def create(cls, address: IcebergAddress, new: NewTable) -> IcebergMutableTable:
        """Create a table without rows, in place of one at this address."""
        drop(address)
        IcebergLakeTable.at(address, new.schema, partition_by=new.partition_by).create()
        with opened_catalog(address.catalog) as catalog:
            table = catalog.load_table(address.identifier)
            mapping = table.schema().name_mapping.model_dump_json()
            own = {NAME: new.name, NAME_MAPPING: mapping, **new.properties}
            if new.description is not None:
                own[_COMMENT] = new.description
            with table.transaction() as transaction:
                transaction.set_properties(own)
            sync_newest(table)
        return cls(address, table)

    @property
    def folder(self) -> Folder:
        return folder_of(f"{self.table.location()}/data", self.place)

    @property
    def columns(self) -> pa.Schema:
        return columns_of(self.table)

    @property
    def partition_by(self) -> Sequence[str]:
        return partition_columns(self.table, self.place)

    @property
    def properties(self) -> Mapping[str, str]:
        return dict(self.table.properties)

    @property
    def description(self) -> str | None:
        return self.properties.get(_COMMENT)

    @property
    def number(self) -> int:
        return int(self.table.metadata.last_sequence_number)

    def last_version(self, app_id: str) -> int | None:
        return committed_version(self.table, app_id)

    def files(self, columns: Sequence[str] = ()) -> list[RowFile]:
        schema, by = self.table.schema(), self.partition_by
        return [
            RowFile(
                self._name(file),
                file.file_size_in_bytes,
                {name: str(value) for name, value in zip(by, file.partition, strict=False)},
                file.record_count,
                {name: _range(file, schema, name) for name in columns},
                file,
            )
            for file in plain_files(self.table, self.place)
        ]

    def rows(self) -> Iterator[pa.RecordBatch]:
        names = [file.path for file in self.files()]
        yield from rows_of(self.folder, names, self.columns, may_drop=True)

    def newest(self) -> Self:
        return self.existing(self.place)

    def commit_once(
        self, commit: Callable[[Self], None], *, app_id: str | None, version: int | None
    ) -> Self | None:
        table, is_first = self, True

        def attempt() -> bool:
            nonlocal table, is_first
            if not is_first:
                table = table.newest()
            is_first = False
            last = None if app_id is None else table.last_version(app_id)
            if last is not None and version is not None and last >= version:
                return False
            commit(table)
            return True

        return table if retry_conflicts(attempt, self.place, "the pipeline") else None

    def merge(self, changes: Changes, versions: Mapping[str, int]) -> None:
        done = merged(self, changes)
        if done.added or done.removed or changes.emptied_at is not None:
            self.replace(done.added, done.removed, versions)

    def replace(
        self, added: Sequence[LakeFile], removed: Sequence[RowFile], versions: Mapping[str, int]
    ) -> None:
        self._commit(added, removed, versions, lambda _: {})

    def forget(self, marked: str, at: str, before: datetime) -> None:
        def commit(newest: Self) -> None:
            files = [
                file
                for file in newest.files([marked, at])
                if file.ranges[marked].high is not False
                and ((low := file.ranges[at].low) is None or low < before)
            ]
            moment = pa.scalar(before, newest.columns.field(at).type)
            done = filtered(newest, ~(pc.field(marked) & (pc.field(at) < moment)), files)
            if done.removed:
                newest.replace(done.added, done.removed, {})

        self.commit_once(commit, app_id=None, version=None)

    def overwrite(self, schema: pa.Schema, rows: Rows, versions: Mapping[str, int]) -> None:
        def commit(newest: Self) -> None:
            added = written(newest, schema, rows(newest))

            def change(transaction: Transaction) -> dict[str, str]:
                if schema == newest.columns:
                    return {}
                _change_columns(transaction, newest.columns, schema)
                return {OLDEST_SCHEMA: str(transaction.table_metadata.current_schema_id)}

            newest._commit(added, newest.files(), versions, change)

        self.commit_once(commit, app_id=None, version=None)

    def add_columns(self, columns: pa.Schema) -> None:
        def commit(newest: Self) -> None:
            with newest._connected(), newest.table.update_schema() as update:
                update.union_by_name(columns)

        self.commit_once(commit, app_id=None, version=None)

    def describe(self, description: str) -> None:
        def commit(newest: Self) -> None:
            if newest.description != description:
                with newest._connected(), newest.table.transaction() as transaction:
                    transaction.set_properties({_COMMENT: description})

        self.commit_once(commit, app_id=None, version=None)

    def _commit(
        self,
        added: Sequence[LakeFile],
        removed: Sequence[RowFile],
        versions: Mapping[str, int],
        change: Callable[[Transaction], dict[str, str]],
    ) -> None:
        from pgsluice.lake.iceberg.overwriting import replace_files

        claim(self.folder, added)
        properties = {f"{TXN}{app_id}": str(version) for app_id, version in versions.items()}
        if self.table.name_mapping() is None:  # our files have no field ids
            properties[NAME_MAPPING] = self.table.schema().name_mapping.model_dump_json()
        with self._connected(), self.table.transaction() as transaction:
            properties |= change(transaction)
            if properties:
                transaction.set_properties(properties)
            replace_files(transaction, [file.origin for file in removed], added)

    def _connected(self) -> AbstractContextManager[None]:
        """Return a context in which the table commits, on its version; it is durable at the end."""
        return _connected(self.place, self.table)

    def _name(self, file: DataFile) -> str:
        name = name_in(self.folder, file.file_path)
        if name is None:
            raise UnusableTableError(
                f"the lake table {self.place} has files outside {self.folder}, such as {file.file_path}; copy its rows "
                "into a new table"
            )
        return name


@contextmanager
def _connected(address: IcebergAddress, table: Table) -> Iterator[None]:
    with opened_catalog(address.catalog) as catalog:
        table.catalog = catalog
        yield
        sync_newest(table)


def drop(address: IcebergAddress) -> None:
    """Drop a table with its files, if it exists."""
    with opened_catalog(address.catalog) as catalog:
        try:
            table = load_table(catalog, address)
        except UnusableTableError:
            catalog.drop_table(
                address.identifier
            )  # its files are left, as only its metadata names them
            return
        if table is not None:
            catalog.drop_table(address.identifier)
            remove_folder(folder_of(table.location(), address))


def _range(file: DataFile, schema: Schema, name: str) -> Range:
    from pyiceberg.conversions import from_bytes

    column = schema.find_field(name)
    kind, number = column.field_type, column.field_id
    rows, nulls = file.record_count, (file.null_value_counts or {}).get(number)

    def bound(bounds: dict[int, bytes] | None) -> Any:
        stored = (bounds or {}).get(number)
        if stored is None or str(kind) in ("float", "double"):  # NaN has no place in their order
            return None
        value: Any = from_bytes(kind, stored)
        arrow = _ARROW.get(str(kind))
        return value if arrow is None else pa.scalar(value, arrow[0]).cast(arrow[1]).as_py()

    return Range(bound(file.lower_bounds), bound(file.upper_bounds), nulls, rows)


def _change_columns(transaction: Transaction, existing: pa.Schema, requested: pa.Schema) -> None:
    """Change the columns of a table whose files are all replaced in the same transaction.

    A column with a type that Iceberg cannot promote becomes another column with its name. Older snapshots then have no
    values in it.
    """
    from pyiceberg.catalog import Catalog

    converted = Catalog._convert_schema_if_needed(requested)  # noqa: SLF001 - has no public counterpart
    types = {field.name: field.field_type for field in converted.fields}
    kept = [name for name in existing.names if name in requested.names]
    kept = [
        name for name in kept if _is_promoted(existing.field(name).type, requested.field(name).type)
    ]
    with transaction.update_schema() as update:
        for name in existing.names:
            if name not in kept:
                update.delete_column((name,))
            elif existing.field(name).type != requested.field(name).type:
                update.update_column((name,), types[name])
    with transaction.update_schema() as update:
        added = [field for field in requested if field.name not in kept]
        update.union_by_name(pa.schema(added))
        if [*kept, *(field.name for field in added)] != requested.names:
            update.move_first((requested.names[0],))
            for before, name in pairwise(requested.names):
                update.move_after((name,), (before,))


def _is_promoted(was: pa.DataType, now: pa.DataType) -> bool:
    """True if Iceberg allows the change of a column's type; pyiceberg 0.12 also allows another scale."""
    if pa.types.is_decimal(was) and pa.types.is_decimal(now):
        return bool(was.scale == now.scale and was.precision <= now.precision)
    return bool(was == now or (pa.types.is_float32(was) and pa.types.is_float64(now)))
