"""Replace all rows and columns of a current-state table in one commit, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from pgsluice.lake.current_tables import Tables
from pgsluice.lake.mutable import MutableTable
from pgsluice.lake.names import TableName
from pgsluice.pipelines.current_state.table import CurrentTable


def replace_table(
    lake: Tables,
    name: TableName,
    new: CurrentTable | None,
    *,
    app_id: str,
    properties: Mapping[str, str],
) -> None:
    """Replace the rows and columns of a table by those of another.

    Readers see the former rows until one commit replaces them. If the table also gets another key, number of buckets
    or source, which its properties tell, two commits before that empty it.

    Args:
        lake: The current-state tables of the lake.
        name: The table; it is created if missing.
        new: The other table; None for no rows, then columns and key of the next changes.
        app_id: Id of the application whose applied versions the table takes over.
        properties: Additional table properties.
    """
    table = CurrentTable.open(lake, name)
    model = new or table
    if model is None:
        return
    if table is None or new is None or not _are_alike(table, new, properties):
        if table is not None:
            # Created over rows, it could keep those that a concurrent compaction has just written.
            table.stored.overwrite(table.stored.columns, lambda _: iter(()), {})
        table = CurrentTable.create(
            lake,
            name,
            model.key,
            model.kinds,
            bucket_count=model.bucket_count,
            properties=properties,
        )
    if new is not None:
        rows, versions = new.stored, new.applied(app_id)
        table.stored.overwrite(rows.columns, lambda _: rows_in(rows), versions)


def _are_alike(table: CurrentTable, new: CurrentTable, properties: Mapping[str, str]) -> bool:
    kept = table.stored.properties
    return (
        table.key == new.key
        and table.bucket_count == new.bucket_count
        and properties.items() <= kept.items()
    )


def rows_in(table: MutableTable) -> Iterator[pa.RecordBatch]:
    """Return the rows of a table with its columns."""
    schema = table.columns
    return (
        pa.RecordBatch.from_arrays(
            [batch.column(field.name).cast(field.type) for field in schema], schema=schema
        )
        for batch in table.rows()
    )
