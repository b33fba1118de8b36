"""Refuse Iceberg tables that use unsupported features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgsluice.lake.file_errors import UnusableTableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import FileScanTask, Table

_FORMAT_VERSION_MAX = 2
# Table property: the oldest schema with which a file of the newest snapshot was written.
OLDEST_SCHEMA = "pgsluice.oldest-schema"
_TOOLS = "use the tool that made it, or copy its rows into a new table"


def require_iceberg(table: Table, name: str) -> Table:
    """Return the table if its format version and properties are supported.

    Raises:
        UnusableTableError: Its format version is later than 2, or it is encrypted.
    """
    found = []
    if table.metadata.format_version > _FORMAT_VERSION_MAX:
        found.append(f"format version {table.metadata.format_version}")
    found += sorted(one for one in table.properties if one.startswith("encryption."))
    if found:
        raise UnusableTableError(
            f"the lake table {name} uses {', '.join(found)}: pgsluice cannot read or write it; {_TOOLS}"
        )
    return table


def require_plain(
    table: Table, tasks: Sequence[FileScanTask], name: str, *, snapshot_id: int | None = None
) -> None:
    """Refuse files that cannot be read as plain Parquet, with columns matched by name.

    Args:
        table: The table.
        tasks: The files.
        name: Its address, for the error.
        snapshot_id: Snapshot of the files; None for the newest.

    Raises:
        UnusableTableError: There are delete files, or renamed, replaced or retyped columns; or files are
            encrypted, not Parquet, or lack a partition column.
    """
    found = _hidden(table, tasks, snapshot_id)
    if found:
        raise UnusableTableError(
            f"the lake table {name} has {found}, which its files alone do not show; {_TOOLS}"
        )


def _hidden(table: Table, tasks: Sequence[FileScanTask], snapshot_id: int | None) -> str | None:
    if any(task.delete_files for task in tasks):
        return "deleted rows"
    if any(len(column.names) > 1 for column in (table.name_mapping() or ())):
        return "renamed columns"
    if changed := _changed_columns(table, snapshot_id):
        return f"renamed, replaced or retyped columns ({', '.join(changed)})"
    for task in tasks:
        file: Any = task.file
        if file.file_format.name != "PARQUET":
            return f"files in the format {file.file_format.name}"
        if file.key_metadata:
            return "encrypted files"
        sizes = file.column_sizes or {}
        source = {field.source_id for field in table.specs()[file.spec_id].fields}
        # Tables migrated from Hive have partition values only in folder names.
        if sizes and source - set(sizes):
            return "files without its partition columns"
    return None


def _changed_columns(table: Table, snapshot_id: int | None) -> list[str]:
    """Return the columns whose name, field id or type differs between the schemas that files may have."""
    by_id: dict[int, set[tuple[str, str]]] = {}
    by_name: dict[str, set[int]] = {}
    oldest = _oldest_schema(table, snapshot_id)
    for schema in table.metadata.schemas:
        if schema.schema_id < oldest:
            continue
        for name in schema.column_names:
            field = schema.find_field(name)
            kind = str(field.field_type) if field.field_type.is_primitive else ""
            by_id.setdefault(field.field_id, set()).add((name, kind))
            by_name.setdefault(name, set()).add(field.field_id)
    changed = {name for seen in by_id.values() if len(seen) > 1 for name, _ in seen}
    return sorted(changed | {name for name, numbers in by_name.items() if len(numbers) > 1})


def _oldest_schema(table: Table, snapshot_id: int | None) -> int:
    """Return the id of the oldest schema that a file of a snapshot may have."""
    oldest = int(table.properties.get(OLDEST_SCHEMA, 0))
    snapshot = (
        table.current_snapshot() if snapshot_id is None else table.snapshot_by_id(snapshot_id)
    )
    # An older snapshot, also one that another tool restored, has older files.
    return oldest if snapshot is None or (snapshot.schema_id or 0) >= oldest else 0
