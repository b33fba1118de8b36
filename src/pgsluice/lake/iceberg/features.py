"""Refuse Iceberg tables that use unsupported features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgsluice.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import FileScanTask, Table

_FORMAT_VERSION_MAX = 2
_TOOLS = "use the tool that made it, or copy its rows into a new table"


def require_iceberg(table: Table, name: str) -> Table:
    """Return the table if its format version and properties are supported.

    Raises:
        ConfigurationError: Its format version is later than 2, or it is encrypted.
    """
    found = []
    if table.metadata.format_version > _FORMAT_VERSION_MAX:
        found.append(f"format version {table.metadata.format_version}")
    found += sorted(one for one in table.properties if one.startswith("encryption."))
    if found:
        raise ConfigurationError(
            f"the lake table {name} uses {', '.join(found)}: pgsluice cannot read or write it; {_TOOLS}"
        )
    return table


def require_plain(table: Table, tasks: Sequence[FileScanTask], name: str) -> None:
    """Refuse files that cannot be read as plain Parquet, with columns matched by name.

    Raises:
        ConfigurationError: There are delete files, or renamed, replaced or retyped columns; or files are encrypted, not
            Parquet, or lack a partition column.
    """
    found = _hidden(table, tasks)
    if found:
        raise ConfigurationError(
            f"the lake table {name} has {found}, which its files alone do not show; {_TOOLS}"
        )


def _hidden(table: Table, tasks: Sequence[FileScanTask]) -> str | None:
    if any(task.delete_files for task in tasks):
        return "deleted rows"
    if any(len(column.names) > 1 for column in (table.name_mapping() or ())):
        return "renamed columns"
    if changed := _changed_columns(table):
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


def _changed_columns(table: Table) -> list[str]:
    """Return the columns whose name, field id or type differs between the table's schemas, past ones included."""
    by_id: dict[int, set[tuple[str, str]]] = {}
    by_name: dict[str, set[int]] = {}
    for schema in table.metadata.schemas:
        for name in schema.column_names:
            field = schema.find_field(name)
            kind = str(field.field_type) if field.field_type.is_primitive else ""
            by_id.setdefault(field.field_id, set()).add((name, kind))
            by_name.setdefault(name, set()).add(field.field_id)
    changed = {name for seen in by_id.values() if len(seen) > 1 for name, _ in seen}
    return sorted(changed | {name for name, numbers in by_name.items() if len(numbers) > 1})
