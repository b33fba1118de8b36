"""Open, create and drop lake tables by their addresses, whatever their format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
from deltalake import Schema

from pgsluice.lake.address import IcebergAddress, IcebergNamespace, parse_lake
from pgsluice.lake.current_tables import Tables, TableState
from pgsluice.lake.delta.mutable import DeltaMutableTable
from pgsluice.lake.delta.opening import Use, is_delta, open_delta
from pgsluice.lake.delta.table import DeltaLakeTable
from pgsluice.lake.file_errors import UnusableTableError
from pgsluice.lake.iceberg.catalog import folder_of, load_table, location_of, opened_catalog
from pgsluice.lake.iceberg.mutable import NAME, IcebergMutableTable, drop
from pgsluice.lake.iceberg.table import IcebergLakeTable
from pgsluice.lake.mutable import MutableTable, NewTable
from pgsluice.lake.names import TableName
from pgsluice.lake.storage import Folder, folders_in, remove_folder
from pgsluice.lake.table import LakeTable

Place = Folder | IcebergAddress
_STATE_FOLDER = "_pgsluice"


def tables_in(lake: str | Path) -> Tables:
    """Return the current-state tables of a lake, a folder or `iceberg:catalogue/namespace`; nothing need exist.

    Raises:
        ConfigurationError: The address is invalid, or the catalogue is not configured.
    """
    place = parse_lake(lake)
    if isinstance(place, Folder):
        return Tables(place, place / "current")
    with opened_catalog(place.catalog) as catalog:
        location = location_of(catalog, place.name)
    return Tables(place, folder_of(f"{location}/{_STATE_FOLDER}", place / _STATE_FOLDER))


def exists(place: Place) -> bool:
    """Return True if there is a table at an address, even if it cannot be read."""
    if isinstance(place, IcebergAddress):
        with opened_catalog(place.catalog) as catalog:
            try:
                return load_table(catalog, place) is not None
            except UnusableTableError:
                return True
    return is_delta(place)


def last_version(place: Place, app_id: str) -> int | None:
    """Return the last version that an app committed to an existing table; None without a commit."""
    if isinstance(place, IcebergAddress):
        table = IcebergMutableTable.open(place)
        return None if table is None else table.last_version(app_id)
    version: int | None = open_delta(place, Use.READ).transaction_version(app_id)
    return version


def missing(current: Tables, states: Mapping[TableName, TableState]) -> list[TableName]:
    """Return the names of current-state tables that were created and do not exist."""
    return [
        name
        for name, state in states.items()
        if state.is_created and not exists(current.place_of(name))
    ]


def names_in(current: Tables) -> list[TableName]:
    """Return the names of the current-state tables that exist, in order."""
    found: dict[Place, str]
    if isinstance(current.lake, IcebergNamespace):
        found = dict(_in_namespace(current, current.lake).items())
    else:
        folders = [current.folder / name for name in folders_in(current.folder)]
        found = {
            folder: str(open_delta(folder, Use.READ).metadata().name)
            for folder in folders
            if is_delta(folder)
        }
    named = ((place, TableName.parse(text)) for place, text in found.items())
    return sorted(name for place, name in named if place == current.place_of(name))


def places_in(current: Tables) -> list[Place]:
    """Return the addresses that tables of a lake may have."""
    if isinstance(current.lake, IcebergNamespace):
        found: Iterable[Place] = _in_namespace(current, current.lake)
    else:
        found = (current.folder / name for name in folders_in(current.folder))
    return [current.events, current.rejects, *found]


def open_mutable(place: Place) -> MutableTable | None:
    """Return the table at an address; None if it does not exist, or was created and never changed.

    Raises:
        ConfigurationError: It uses a feature not supported for changes.
    """
    if isinstance(place, IcebergAddress):
        return IcebergMutableTable.open(place)
    return DeltaMutableTable.open(place)


def create_mutable(place: Place, new: NewTable) -> MutableTable:
    """Create a table without rows, in place of one at this address."""
    if isinstance(place, IcebergAddress):
        return IcebergMutableTable.create(place, new)
    return DeltaMutableTable.create(place, new)


def lake_table(place: Place, schema: pa.Schema) -> LakeTable:
    """Return the table at an address, for appending rows; nothing is created or changed."""
    if isinstance(place, IcebergAddress):
        return IcebergLakeTable.at(place, schema)
    return DeltaLakeTable.in_folder(place, schema, Schema.from_arrow(schema).to_json())


def drop_staged(current: Tables, name: TableName) -> None:
    """Remove the table that a rebuild fills, if it exists."""
    place = current.staged().place_of(name)
    if isinstance(place, IcebergAddress):
        drop(place)
    else:
        remove_folder(place)


def drop_all_staged(current: Tables) -> None:
    """Remove all tables that rebuilds fill."""
    tables = current.staged()
    if isinstance(tables.lake, IcebergNamespace):
        for address in _in_namespace(tables, tables.lake):
            drop(address)
    else:
        remove_folder(tables.folder)


def _in_namespace(current: Tables, namespace: IcebergNamespace) -> dict[IcebergAddress, str]:
    """Return the current-state tables in a namespace with their names, without other tables and unreadable ones."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    found = {}
    with opened_catalog(namespace.catalog) as catalog:
        try:
            names = sorted(identifier[-1] for identifier in catalog.list_tables(namespace.name))
        except NoSuchNamespaceError:
            return {}
        for name in names:
            if not name.startswith(current.prefix):
                continue
            try:
                table = load_table(catalog, namespace / name)
            except UnusableTableError:
                continue
            own_name = None if table is None else table.properties.get(NAME)
            if own_name is not None:
                found[namespace / name] = own_name
    return found
