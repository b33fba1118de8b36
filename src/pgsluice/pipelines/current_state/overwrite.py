"""Replace all rows and columns of a current-state table in one commit, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from pgsluice.lake.current_tables import Tables
from pgsluice.lake.names import TableName
from pgsluice.pipelines.current_state.table import CurrentTable

Rows = Callable[[CurrentTable], Iterator[pa.RecordBatch]]


def overwrite(
    table: CurrentTable, schema: pa.Schema, rows: Rows, versions: Mapping[str, int] | None = None
) -> CurrentTable:
    """Replace the rows and columns of a table in one commit, with retries after concurrent compactions.

    Args:
        table: The table.
        schema: Its new columns.
        rows: Returns its new rows, with this schema; called at each attempt, with the table at its newest version.
        versions: Versions of applications that the commit records.

    Returns:
        The table after the commit.

    Raises:
        SluiceError: An error of `rows`, or all attempts conflicted with other commits.
    """
    table.stored.overwrite(
        schema, lambda newest: rows(replace(table, stored=newest)), versions or {}
    )
    return table.again()


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
            overwrite(table, columns_of(table), lambda _: iter(()))
        table = CurrentTable.create(
            lake,
            name,
            model.key,
            model.kinds,
            bucket_count=model.bucket_count,
            properties=properties,
        )
    if new is not None:
        source = new
        overwrite(table, columns_of(new), lambda _: rows_in(source), new.applied(app_id))


def _are_alike(table: CurrentTable, new: CurrentTable, properties: Mapping[str, str]) -> bool:
    kept = table.stored.properties
    return (
        table.key == new.key
        and table.bucket_count == new.bucket_count
        and properties.items() <= kept.items()
    )


def columns_of(table: CurrentTable) -> pa.Schema:
    """Return the columns of a table, with the column of its buckets."""
    return table.stored.columns


def rows_in(table: CurrentTable) -> Iterator[pa.RecordBatch]:
    """Return the rows of a table with these columns."""
    schema = columns_of(table)
    return (
        pa.RecordBatch.from_arrays(
            [batch.column(field.name).cast(field.type) for field in schema], schema=schema
        )
        for batch in table.stored.rows()
    )
