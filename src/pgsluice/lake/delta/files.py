"""Files and row count of a Delta table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgsluice.lake.delta.opening import folder_of, local_path
from pgsluice.lake.skipping import Condition, ranges_of
from pgsluice.lake.storage import open_input

if TYPE_CHECKING:
    from deltalake import DeltaTable

_PARTS = ("partition", "min", "max", "null_count")


@dataclass(frozen=True, slots=True)
class TableFile:
    """File of a Delta table.

    Attributes:
        path: Relative to the folder of the table, as on disk.
        size_bytes: File size.
        partition: Value of each partition column as text; None for null.
    """

    path: str
    size_bytes: int
    partition: Mapping[str, str | None]


def paths_of(table: DeltaTable) -> set[str]:
    """Return the paths of a Delta table's files, relative to its folder, as on disk."""
    paths = table.get_add_actions().column("path").to_pylist()
    return {local_path(path, table.table_uri) for path in paths}


def files_of(table: DeltaTable, conditions: Sequence[Condition] = ()) -> list[TableFile]:
    """Return the files of a Delta table that may contain rows that meet all conditions, unordered."""
    actions = table.get_add_actions(flatten=True)
    columns = table.metadata().partition_columns
    values = [
        [_as_text(value) for value in actions.column(f"partition.{name}").to_pylist()]
        for name in columns
    ]
    paths = [local_path(path, table.table_uri) for path in actions.column("path").to_pylist()]
    sizes = actions.column("size_bytes").to_pylist()
    matching = _matching(actions, conditions)
    return [
        TableFile(path, size, {name: of[index] for name, of in zip(columns, values, strict=True)})
        for index, (path, size) in enumerate(zip(paths, sizes, strict=True))
        if matching is None or index in matching
    ]


def _matching(actions: Any, conditions: Sequence[Condition]) -> set[int] | None:
    """Return the indexes of the files that conditions do not exclude; None without conditions."""
    if not conditions:
        return None
    columns = sorted({condition.column for condition in conditions})
    keys = {f"{part}.{name}" for part in _PARTS for name in columns} | {"num_records"}
    known = {key: actions.column(key).to_pylist() for key in actions.schema.names if key in keys}
    found = set()
    for at in range(actions.num_rows):
        ranges = ranges_of(known, at, columns)
        if all(ranges[condition.column].may_hold(condition) for condition in conditions):
            found.add(at)
    return found


def row_count(table: DeltaTable) -> int:
    """Count the rows of a Delta table from file statistics, or from Parquet footers where those are missing."""
    actions = table.get_add_actions(flatten=True)
    counts = actions.column("num_records").to_pylist()
    if None not in counts:
        return sum(counts)
    import pyarrow.parquet as pq

    folder = folder_of(table)
    paths = [local_path(path, folder) for path in actions.column("path").to_pylist()]
    return sum(
        pq.read_metadata(open_input(folder, path)).num_rows if count is None else count
        for path, count in zip(paths, counts, strict=True)
    )


def _as_text(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
