"""Replace all rows and columns of a current-state table in one commit, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from pgsluice.errors import SluiceError
from pgsluice.lake.columns import plain
from pgsluice.lake.current_tables import BUCKET
from pgsluice.lake.delta.commits import commit_durably, commit_once, rewriting
from pgsluice.lake.delta.opening import dataset_of
from pgsluice.lake.storage import Folder
from pgsluice.pipelines.current_state.table import CurrentTable

Rows = Callable[[CurrentTable], Iterator[pa.RecordBatch]]


def overwrite(
    table: CurrentTable, schema: pa.Schema, rows: Rows, *transactions: Transaction
) -> CurrentTable:
    """Replace the rows and columns of a table in one commit, with retries after concurrent compactions.

    Args:
        table: The table.
        schema: Its new columns.
        rows: Returns its new rows, with this schema; called at each attempt, with the table at its newest version.
        transactions: Application transactions of the commit.

    Returns:
        The table after the commit.

    Raises:
        SluiceError: An error of `rows`, or all attempts conflicted with other commits.
    """
    failures: list[SluiceError] = []  # delta-rs raises an error of its own for them

    def read(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from found
        except SluiceError as error:
            failures.append(error)
            raise

    def commit(delta: DeltaTable) -> None:
        newest = CurrentTable(table.name, table.folder, delta, table.key, table.bucket_count)
        found = rows(newest)  # opens the table, which delta-rs cannot do within its writer
        with commit_durably(delta, table.folder):
            write_deltalake(
                delta,
                pa.RecordBatchReader.from_batches(schema, read(found)),
                mode="overwrite",
                schema_mode="overwrite",
                partition_by=[BUCKET] if table.bucket_count else None,
                commit_properties=CommitProperties(
                    app_transactions=[rewriting(delta), *transactions]
                ),
            )

    try:
        commit_once(
            table.delta, commit, reopen=lambda: table.again().delta, app_id=None, version=None
        )
    except CommitFailedError as error:
        raise SluiceError(
            f"the current-state table of {table.name} refused a commit: {error}; run the pipeline again"
        ) from error
    except DeltaError:
        if failures:
            raise failures[0] from None
        raise
    return table.again()


def replace_table(
    lake: Folder,
    name: str,
    new: CurrentTable | None,
    *,
    app_id: str,
    properties: Mapping[str, str],
) -> None:
    """Replace the rows and columns of a table by those of another.

    Readers see the former rows until one commit replaces them. If the table also gets another key, number of buckets
    or source, which its properties tell, two commits before that empty it.

    Args:
        lake: Folder of the table.
        name: `schema.table`; it is created if missing.
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
        overwrite(table, columns_of(new), lambda _: rows_in(source), *new.applied(app_id))


def _are_alike(table: CurrentTable, new: CurrentTable, properties: Mapping[str, str]) -> bool:
    kept = table.delta.metadata().configuration
    return (
        table.key == new.key
        and table.bucket_count == new.bucket_count
        and properties.items() <= kept.items()
    )


def columns_of(table: CurrentTable) -> pa.Schema:
    """Return the columns of a table, with the column of its buckets."""
    return plain(pa.schema(table.delta.schema().to_arrow()))


def rows_in(table: CurrentTable) -> Iterator[pa.RecordBatch]:
    """Return the rows of a table with these columns."""
    schema = columns_of(table)
    batches = dataset_of(table.delta, table.folder).to_batches()
    return (
        pa.RecordBatch.from_arrays(
            [batch.column(field.name).cast(field.type) for field in schema], schema=schema
        )
        for batch in batches
    )
