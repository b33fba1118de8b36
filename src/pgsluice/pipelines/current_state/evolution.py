"""Type changes of captured columns: widen the lake table, or refuse the change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from deltalake.exceptions import CommitFailedError

from pgsluice.errors import ChangeError, SluiceError
from pgsluice.lake.columns import plain
from pgsluice.lake.current_tables import BUCKET, lake_column
from pgsluice.lake.delta.commits import commit_durably, rewriting
from pgsluice.lake.delta.opening import dataset_of
from pgsluice.pipelines.current_state.table import CurrentTable


def wider_types(table: CurrentTable, kinds: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Return the columns of a table that need a wider type, with that type.

    Args:
        table: A current-state table.
        kinds: The lake types of the columns in PostgreSQL now.

    Raises:
        ChangeError: The type of a column changed otherwise: PostgreSQL may have changed its values without events.
    """
    wider = {}
    for column, kind in table.kinds.items():
        now = kinds.get(column, kind)
        if now == kind or pa.types.is_string(kind):
            continue
        if not _widens(kind, now):
            raise ChangeError(
                f"column {table.name}.{column} is {kind} in the lake, and its type in PostgreSQL is stored as {now} "
                "now; rebuild the table"
            )
        wider[column] = now
    return wider


def widen(table: CurrentTable, wider: Mapping[str, pa.DataType]) -> CurrentTable:
    """Rewrite a table with wider types of some columns, in one commit; return it after the commit.

    Raises:
        SluiceError: Another commit was first; a retry reads the table again.
    """
    kinds = {lake_column(column): kind for column, kind in wider.items()}
    schema = pa.schema(
        [(f.name, kinds.get(f.name, f.type)) for f in pa.schema(table.delta.schema().to_arrow())]
    )
    schema = plain(schema)
    rows = dataset_of(table.delta, table.folder)

    def cast() -> Iterator[pa.RecordBatch]:
        for batch in rows.to_batches():
            columns = [batch.column(field.name).cast(field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    try:
        with commit_durably(table.delta, table.folder):
            write_deltalake(
                table.delta,
                pa.RecordBatchReader.from_batches(schema, cast()),
                mode="overwrite",
                schema_mode="overwrite",
                partition_by=[BUCKET] if table.bucket_count else None,
                commit_properties=CommitProperties(app_transactions=[rewriting(table.delta)]),
            )
    except CommitFailedError as error:
        raise SluiceError(
            f"the current-state table of {table.name} refused a commit: {error}; run the pipeline again"
        ) from error
    return table.again()


def _widens(before: pa.DataType, now: pa.DataType) -> bool:
    if pa.types.is_float32(before):
        return bool(pa.types.is_float64(now))
    if pa.types.is_decimal(before) and pa.types.is_decimal(now):
        integral_digits = before.precision - before.scale
        return bool(now.scale >= before.scale and now.precision - now.scale >= integral_digits)
    return False
