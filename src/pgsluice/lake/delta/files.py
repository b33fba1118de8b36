"""The files of a Delta table, and how many rows they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgsluice.lake.delta.opening import folder_of, local_path

if TYPE_CHECKING:
    from deltalake import DeltaTable


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that belongs to a table.

    Attributes:
        path: Relative to the table's folder, as on the disk.
        size_bytes: Its size.
        partition: The value of each partition column as text; None for null.
    """

    path: str
    size_bytes: int
    partition: Mapping[str, str | None]


def paths_of(table: DeltaTable) -> set[str]:
    """The paths of a Delta table's files, relative to its folder, as on the disk."""
    paths = table.get_add_actions().column("path").to_pylist()
    return {local_path(path, table.table_uri) for path in paths}


def files_of(table: DeltaTable) -> list[TableFile]:
    """The files of a Delta table, in no order."""
    actions = table.get_add_actions(flatten=True)
    columns = table.metadata().partition_columns
    values = [
        [_as_text(value) for value in actions.column(f"partition.{name}").to_pylist()]
        for name in columns
    ]
    paths = [local_path(path, table.table_uri) for path in actions.column("path").to_pylist()]
    sizes = actions.column("size_bytes").to_pylist()
    return [
        TableFile(path, size, {name: of[index] for name, of in zip(columns, values, strict=True)})
        for index, (path, size) in enumerate(zip(paths, sizes, strict=True))
    ]


def row_count(table: DeltaTable) -> int:
    """Count the rows of a Delta table by the statistics of its files; of a file without, by its footer."""
    actions = table.get_add_actions(flatten=True)
    counts = actions.column("num_records").to_pylist()
    if None not in counts:
        return sum(counts)
    import pyarrow.parquet as pq

    folder = folder_of(table)
    paths = [local_path(path, folder) for path in actions.column("path").to_pylist()]
    return sum(
        pq.read_metadata(folder / path).num_rows if count is None else count
        for path, count in zip(paths, counts, strict=True)
    )


def _as_text(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
