"""Rows into an Iceberg table, each micro-batch once.

Tasks write Parquet files into the table's folder. Then the driver makes one snapshot with pyiceberg that
names the files. The same commit sets the table's property `pgsluice.txn.<app>` to the micro-batch's number,
and the snapshot carries both in its summary, `pgsluice.app-id` and `pgsluice.version`. The property and not
the summary decides whether a micro-batch is there: snapshots expire.

A commit is made on the snapshot that it has seen, or fails. Left alone, pyiceberg would move a commit that
came second onto the first one and try again, and a driver that was thought dead would add its rows twice.
So our tables have `commit.retry.num-retries` 0, and the loop that tries again is here: it looks at the number
first.

The warehouse is a folder that the driver and all executors share; only the driver talks to the catalogue.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from pgsluice.errors import ConfigurationError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.columns import nullable, plain
from pgsluice.lake.files import LakeFile, check_partition_columns
from pgsluice.lake.iceberg.catalog import (
    columns_of,
    load_table,
    local_folder,
    opened_catalog,
    partition_columns,
    retry_conflicts,
    sync_newest,
)
from pgsluice.lake.iceberg.features import require_iceberg
from pgsluice.lake.reservation import claim
from pgsluice.lake.table import LakeTable

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_TXN = "pgsluice.txn."
_NO_RETRIES = {"commit.retry.num-retries": "0"}
# A stream commits every second: without merging, a table would have a manifest for each.
_PROPERTIES = {**_NO_RETRIES, "commit.manifest-merge.enabled": "true"}


@dataclass(frozen=True)
class IcebergLakeTable(LakeTable):
    """An Iceberg table in a catalogue.

    Attributes:
        address: Where it is.
        location: Its folder as Iceberg has it; `path` is the folder of data inside.
    """

    address: IcebergAddress = field(kw_only=True)
    location: str = field(kw_only=True)

    format_name: ClassVar[str] = "pgsluice-iceberg"
    # Readers of Iceberg look for all columns in the files.
    keeps_partition_columns: ClassVar[bool] = True

    @classmethod
    def at(
        cls, address: IcebergAddress, schema: pa.Schema, *, partition_by: Sequence[str] = ()
    ) -> IcebergLakeTable:
        """Return the table at an address; nothing is created or changed.

        Args:
            address: Where it is; it may not exist yet.
            schema: The columns of what will be written.
            partition_by: For a table that does not exist yet; one that exists has its own.

        Raises:
            ConfigurationError: There is no such catalogue, or the table cannot be partitioned so.
        """
        columns = _widened(nullable(schema))
        check_partition_columns(columns, partition_by)
        with opened_catalog(address.catalog) as catalog:
            there = load_table(catalog, address)
            if there is None:
                location = _new_location(catalog, address)
            else:
                location = there.location()
                partition_by = partition_by or partition_columns(there, address)
        return cls(
            f"{local_folder(location, address)}/data",
            columns,
            tuple(partition_by),
            address=address,
            location=location,
        )

    def exists(self) -> bool:
        with opened_catalog(self.address.catalog) as catalog:
            return load_table(catalog, self.address) is not None

    def create(self) -> None:
        with opened_catalog(self.address.catalog) as catalog:
            self._create(catalog)

    def commit(self, files: Sequence[LakeFile], *, app_id: str | None, version: int | None) -> bool:
        return retry_conflicts(
            lambda: self._commit(files, app_id, version), self.address, "the write"
        )

    def last_version(self, app_id: str) -> int | None:
        with opened_catalog(self.address.catalog) as catalog:
            table = load_table(catalog, self.address)
            return None if table is None else _last_version(table, app_id)

    def row_count(self) -> int:
        with opened_catalog(self.address.catalog) as catalog:
            table = load_table(catalog, self.address)
            return 0 if table is None else table.scan().count()

    def _commit(self, files: Sequence[LakeFile], app_id: str | None, version: int | None) -> bool:
        with opened_catalog(self.address.catalog) as catalog:
            table = self._create(catalog)
            if not files:
                return True
            if app_id is not None and version is not None:
                last = _last_version(table, app_id)
                # Not `last or -1`: the first micro-batch has the number 0.
                if last is not None and last >= version:
                    return False
            claim(Path(self.path), files)
            self._add(table, files, app_id, version)
            sync_newest(table)
            return True

    def _add(
        self, table: Table, files: Sequence[LakeFile], app_id: str | None, version: int | None
    ) -> None:
        summary, properties = {}, {}
        if app_id is not None and version is not None:
            summary = {"pgsluice.app-id": app_id, "pgsluice.version": str(version)}
            properties = {_TXN + app_id: str(version)}
        with table.transaction() as transaction:
            transaction.add_files(
                [f"{self.location}/data/{file.path}" for file in files],
                snapshot_properties=summary,
                check_duplicate_files=False,  # would read all of the table's metadata; our names are UUIDs
            )
            if properties:
                transaction.set_properties(properties)

    def _create(self, catalog: Catalog) -> Table:
        table = load_table(catalog, self.address) or self._made(catalog)
        there, wanted = columns_of(table), plain(self.arrow_schema)
        if not there.equals(wanted):
            raise ConfigurationError(
                f"the lake table {self.address} has the columns {', '.join(there.names)}, not "
                f"{', '.join(wanted.names)}, or other types; use another table"
            )
        if partition_columns(table, self.address) != self.partition_by:
            raise ConfigurationError(
                f"the lake table {self.address} is partitioned by "
                f"{', '.join(partition_columns(table, self.address)) or 'no column'}, not by "
                f"{', '.join(self.partition_by) or 'no column'}; leave partitionBy out, or use another table"
            )
        if not _NO_RETRIES.items() <= table.properties.items():
            with table.transaction() as transaction:
                transaction.set_properties(_NO_RETRIES)
        return table

    def _made(self, catalog: Catalog) -> Table:
        from pyiceberg.exceptions import (
            CommitFailedException,
            NamespaceAlreadyExistsError,
            TableAlreadyExistsError,
        )
        from sqlalchemy.exc import IntegrityError

        namespace = self.address.identifier.rpartition(".")[0]
        # Somebody may be making it at this moment: then theirs is taken.
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
    """The id of an Iceberg table's newest snapshot; None when there is none, or no table."""
    with opened_catalog(address.catalog) as catalog:
        table = load_table(catalog, address)
        newest = None if table is None else table.current_snapshot()
        return None if newest is None else int(newest.snapshot_id)


def _last_version(table: Table, app_id: str) -> int | None:
    version = table.properties.get(_TXN + app_id)
    return None if version is None else int(version)


def _widened(schema: pa.Schema) -> pa.Schema:
    """The schema with types that Iceberg has: its smallest whole number has 32 bits."""
    small = (pa.int8(), pa.int16())
    return pa.schema(
        [field.with_type(pa.int32()) if field.type in small else field for field in schema]
    )


def _new_location(catalog: Catalog, address: IcebergAddress) -> str:
    warehouse = catalog.properties.get("warehouse")
    if not warehouse:
        raise ConfigurationError(
            f"the catalogue {address.catalog!r} has no warehouse; set "
            f"PYICEBERG_CATALOG__{address.catalog.upper()}__WAREHOUSE to a folder that Spark's driver and "
            "executors share"
        )
    return f"{warehouse.rstrip('/')}/{address.identifier.replace('.', '/')}"
