"""Exactly-once writes of micro-batches to an Iceberg table.

Tasks write Parquet files into the folder of the table. Then the driver adds the files in one snapshot with pyiceberg.
The same commit sets the table property `pgsluice.txn.<app>` to the micro-batch id. The snapshot summary has both as
`pgsluice.app-id` and `pgsluice.version`, but the property identifies committed micro-batches, as snapshots expire.

A commit must fail if the snapshot it is based on is no longer the newest. By default, pyiceberg rebases such a commit
and retries, and a stale driver would add its rows twice. So our tables set `commit.retry.num-retries` to 0, and the
retry loop here checks the micro-batch id before each attempt.

The driver and all executors must share the warehouse; only the driver connects to the catalogue.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from pgsluice.errors import ConfigurationError, StoreError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.columns import columns_to_add, merged, nullable, plain
from pgsluice.lake.files import LakeFile, check_partition_columns
from pgsluice.lake.iceberg.catalog import (
    folder_of,
    load_table,
    new_location,
    opened_catalog,
    partition_columns,
    plain_files,
    retry_conflicts,
    sync_newest,
)
from pgsluice.lake.iceberg.features import require_iceberg
from pgsluice.lake.reservation import claim
from pgsluice.lake.storage import Folder, retry_unanswered
from pgsluice.lake.table import LakeTable, Replace

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction

TXN = "pgsluice.txn."
# The files have no field ids; pyiceberg's `add_files` sets this property.
NAME_MAPPING = "schema.name-mapping.default"
_NO_RETRIES = {"commit.retry.num-retries": "0"}
# Without merging, a stream that commits every second would add a manifest every second.
_PROPERTIES = {**_NO_RETRIES, "commit.manifest-merge.enabled": "true"}


@dataclass(frozen=True)
class IcebergLakeTable(LakeTable):
    """Iceberg table in a catalogue.

    Attributes:
        address: Address of the table.
        location: Iceberg's location of the table; `path` is its `data` folder.
    """

    address: IcebergAddress = field(kw_only=True)
    location: str = field(kw_only=True)

    format_name: ClassVar[str] = "pgsluice-iceberg"
    # Iceberg readers expect all columns in the files.
    keeps_partition_columns: ClassVar[bool] = True

    @classmethod
    def at(
        cls,
        address: IcebergAddress,
        schema: pa.Schema,
        *,
        partition_by: Sequence[str] = (),
        merge_schema: bool = False,
    ) -> IcebergLakeTable:
        """Return the table at an address; nothing is created or changed.

        Args:
            address: Address of the table, which need not exist.
            schema: Columns of the rows to write.
            partition_by: Partition columns of a new table; an existing table has its own.
            merge_schema: Add columns of the rows that the table lacks.

        Raises:
            ConfigurationError: The catalogue does not exist, the partition columns are invalid, or the rows do not fit
                an existing table.
        """
        rows = _widened(nullable(schema))
        columns = rows
        with opened_catalog(address.catalog) as catalog:
            existing = load_table(catalog, address)
            if existing is None:
                check_partition_columns(rows, partition_by)
                location = new_location(catalog, address)
            else:
                location = existing.location()
                partition_by = partition_by or partition_columns(existing, address)
                columns = merged(rows, _columns(existing))
        requested = cls(
            f"{folder_of(location, address)}/data",
            rows,
            columns,
            tuple(partition_by),
            merge_schema,
            address=address,
            location=location,
        )
        if existing is not None:
            requested._columns_to_add(existing)
        return requested

    @property
    def place(self) -> str:
        return str(self.address)

    @property
    def folder(self) -> Folder:
        return folder_of(self.path, self.address)

    def exists(self) -> bool:
        with opened_catalog(self.address.catalog) as catalog:
            return load_table(catalog, self.address) is not None

    def create(self) -> None:
        def attempt() -> None:
            with opened_catalog(self.address.catalog) as catalog:
                self._create(catalog)

        retry_conflicts(attempt, self.address, "the write")

    def commit(
        self,
        files: Sequence[LakeFile],
        *,
        app_id: str | None,
        version: int | None,
        replace: Replace | None = None,
    ) -> bool:
        removed: list[DataFile] | None = None

        def attempt() -> bool:
            nonlocal removed
            with opened_catalog(self.address.catalog) as catalog:
                table = self._create(catalog)
                last = None if app_id is None else committed_version(table, app_id)
                # Not `last or -1`: the id of the first micro-batch is 0.
                if last is not None and version is not None and last >= version:
                    return False
                if removed is None:
                    removed = self._replaced(table, files, replace)
                if files or removed:
                    claim(self.folder, files)
                    self._change(table, files, removed, app_id, version)
                    sync_newest(table)
                return True

        return retry_unanswered(
            self.folder, lambda: retry_conflicts(attempt, self.address, "the write")
        )

    def last_version(self, app_id: str) -> int | None:
        with opened_catalog(self.address.catalog) as catalog:
            table = load_table(catalog, self.address)
            return None if table is None else committed_version(table, app_id)

    def row_count(self) -> int:
        with opened_catalog(self.address.catalog) as catalog:
            table = load_table(catalog, self.address)
            return 0 if table is None else table.scan().count()

    def __str__(self) -> str:
        return f"the lake table {self.address}"

    def _change(
        self,
        table: Table,
        files: Sequence[LakeFile],
        removed: Sequence[DataFile],
        app_id: str | None,
        version: int | None,
    ) -> None:
        summary, properties = {}, {}
        if app_id is not None and version is not None:
            summary = {"pgsluice.app-id": app_id, "pgsluice.version": str(version)}
            properties = {TXN + app_id: str(version)}
        with table.transaction() as transaction:
            if removed:
                self._replace(transaction, files, removed, summary)
            else:
                transaction.add_files(
                    self._locations(files),
                    snapshot_properties=summary,
                    check_duplicate_files=False,  # reads all metadata of the table; our file names are UUIDs
                )
            if properties:
                transaction.set_properties(properties)

    def _create(self, catalog: Catalog) -> Table:
        table = load_table(catalog, self.address) or self._made(catalog)
        missing = self._columns_to_add(table)
        if partition_columns(table, self.address) != self.partition_by:
            raise ConfigurationError(
                f"the lake table {self.address} is partitioned by "
                f"{', '.join(partition_columns(table, self.address)) or 'no column'}, not by "
                f"{', '.join(self.partition_by) or 'no column'}; leave partitionBy out, or use another table"
            )
        if not _NO_RETRIES.items() <= table.properties.items():
            with table.transaction() as transaction:
                transaction.set_properties(_NO_RETRIES)
        if missing:
            with table.update_schema() as update:
                # Only new columns: for others, this would widen types.
                update.union_by_name(
                    pa.schema([field for field in self.rows_schema if field.name in missing])
                )
            sync_newest(table)
        return table

    def _columns_to_add(self, table: Table) -> list[str]:
        return columns_to_add(
            self.rows_schema, _columns(table), may_add=self.merge_schema, table=str(self)
        )

    def _replace(
        self,
        transaction: Transaction,
        files: Sequence[LakeFile],
        removed: Sequence[DataFile],
        summary: dict[str, str],
    ) -> None:
        from pyiceberg.exceptions import ValidationException

        from pgsluice.lake.iceberg.overwriting import replace_files

        metadata = transaction.table_metadata
        if metadata.name_mapping() is None:
            mapping = metadata.schema().name_mapping.model_dump_json()
            transaction.set_properties({NAME_MAPPING: mapping})
        try:
            replace_files(transaction, removed, files, summary)
        except ValidationException as error:
            raise StoreError(
                f"{self} was not overwritten: a concurrent commit replaced its files; run the write again"
            ) from error

    def _replaced(
        self, table: Table, files: Sequence[LakeFile], replace: Replace | None
    ) -> list[DataFile]:
        """Return the files of the table that a commit of files replaces."""
        if replace is None:
            return []
        existing = plain_files(table, self.address)
        if replace is Replace.TABLE:
            return existing
        if any(file.spec_id != table.spec().spec_id for file in existing):
            raise ConfigurationError(
                f"{self} has files with other partition columns; overwrite all of it, without partitionOverwriteMode"
            )
        from pyiceberg.io.pyarrow import parquet_file_to_data_file

        partitions = {
            parquet_file_to_data_file(table.io, table.metadata, path).partition
            for path in self._locations(files)
        }
        return [file for file in existing if file.partition in partitions]

    def _locations(self, files: Sequence[LakeFile]) -> list[str]:
        return [f"{self.location}/data/{file.path}" for file in files]

    def _made(self, catalog: Catalog) -> Table:
        from pyiceberg.exceptions import (
            CommitFailedException,
            NamespaceAlreadyExistsError,
            TableAlreadyExistsError,
        )
        from sqlalchemy.exc import IntegrityError

        namespace = self.address.identifier.rpartition(".")[0]
        # A concurrent writer may create the namespace or table first.
        if not catalog.namespace_exists(namespace):
            with suppress(NamespaceAlreadyExistsError, IntegrityError):
                catalog.create_namespace(namespace)
        making = catalog.create_table_transaction(
            self.address.identifier,
            schema=self.arrow_schema,
            location=self.location,
            properties=_PROPERTIES,
        )
        with (
            suppress(TableAlreadyExistsError, CommitFailedException),
            making,
            making.update_spec() as spec,
        ):
            for name in self.partition_by:
                spec.add_identity(name)
        return require_iceberg(catalog.load_table(self.address.identifier), str(self.address))


def newest_snapshot(address: IcebergAddress) -> int | None:
    """Return the id of an Iceberg table's newest snapshot; None without a snapshot or table."""
    with opened_catalog(address.catalog) as catalog:
        table = load_table(catalog, address)
        newest = None if table is None else table.current_snapshot()
        return None if newest is None else int(newest.snapshot_id)


def committed_version(table: Table, app_id: str) -> int | None:
    """Return the last version that an app committed; None without a commit."""
    version = table.properties.get(TXN + app_id)
    return None if version is None else int(version)


def _columns(table: Table) -> pa.Schema:
    """Return the columns of a table with the types in its files."""
    return plain(table.schema().as_arrow())


def _widened(schema: pa.Schema) -> pa.Schema:
    """Widen integers to Iceberg's smallest integer type, 32 bits."""
    small = (pa.int8(), pa.int16())
    return pa.schema(
        [field.with_type(pa.int32()) if field.type in small else field for field in schema]
    )
