"""Type changes of captured columns: widen the lake table, or refuse the change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from pgsluice.errors import ChangeError
from pgsluice.lake.current_tables import captured_column, lake_column
from pgsluice.lake.names import ColumnName
from pgsluice.lake.nested import is_nested
from pgsluice.pipelines.current_state.overwrite import columns_of, overwrite, rows_in
from pgsluice.pipelines.current_state.table import CurrentTable


@dataclass(frozen=True, slots=True)
class _Rule:
    """A type change for which `alter column type` keeps every value exactly, or fails.

    Attributes:
        applies: True for these types in the lake, before and after.
        keeps_text: True if PostgreSQL also writes each value as before. A row without a key is found by its text.
        for_keys: True if keys of both types have the same identity, so the same bucket.
    """

    applies: Callable[[pa.DataType, pa.DataType], bool]
    keeps_text: Callable[[pa.DataType, pa.DataType], bool]
    for_keys: bool = False


_RULES = (
    _Rule(lambda was, now: pa.types.is_float32(was) and pa.types.is_float64(now), lambda *_: False),
    _Rule(lambda was, now: pa.types.is_integer(was) and pa.types.is_float64(now), lambda *_: False),
    _Rule(
        lambda was, now: pa.types.is_integer(was) and pa.types.is_decimal(now),
        lambda _, now: not now.scale,
    ),
    _Rule(
        lambda was, now: (
            pa.types.is_decimal(was)
            and pa.types.is_decimal(now)
            and now.scale >= was.scale
            and now.precision - now.scale >= was.precision - was.scale
        ),
        lambda was, now: was.scale == now.scale,
        for_keys=True,
    ),
)
# To numeric without precision, which is text in the lake.
_TO_NUMERIC = _Rule(
    lambda was, now: (
        (pa.types.is_integer(was) or pa.types.is_decimal(was)) and pa.types.is_string(now)
    ),
    lambda *_: True,
)


def wider_types(
    table: CurrentTable, kinds: Mapping[str, pa.DataType], *, numeric: Collection[str] = ()
) -> dict[str, pa.DataType]:
    """Return the columns of a table that need a wider type, with that type.

    Args:
        table: A current-state table.
        kinds: The lake types of the columns in PostgreSQL now.
        numeric: The columns that have the type numeric without precision now.

    Raises:
        ChangeError: The type of a column changed otherwise: PostgreSQL may have changed its values without events.
    """
    wider = {}
    for column, kind in table.kinds.items():
        now = kinds.get(column, kind)
        # Text and nested types hold the values of many types; others do not parse, and park the table.
        if now == kind or pa.types.is_string(kind) or is_nested(kind):
            continue
        rules = (*_RULES, _TO_NUMERIC) if column in numeric else _RULES
        if not any(
            rule.applies(kind, now)
            and (rule.for_keys or column not in table.key)
            and (bool(table.key) or rule.keeps_text(kind, now))
            for rule in rules
        ):
            raise ChangeError(
                f"column {ColumnName(table.name, column)} is {kind} in the lake, and its type in PostgreSQL is stored "
                f"as {now} now; rebuild the table"
            )
        wider[column] = now
    return wider


def widen(table: CurrentTable, wider: Mapping[str, pa.DataType]) -> CurrentTable:
    """Rewrite a table with wider types of some columns, in one commit; return it after the commit.

    Raises:
        ChangeError: A stored value does not fit the type.
        SluiceError: All attempts conflicted with other commits.
    """
    kinds = {lake_column(column): kind for column, kind in wider.items()}
    schema = pa.schema([(f.name, kinds.get(f.name, f.type)) for f in columns_of(table)])

    def cast(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [_cast(table, batch.column(field.name), field) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def rows(newest: CurrentTable) -> Iterator[pa.RecordBatch]:
        return map(cast, rows_in(newest))

    return overwrite(table, schema, rows)


def _cast(table: CurrentTable, values: pa.Array, field: pa.Field) -> pa.Array:
    kind = field.type
    if pa.types.is_decimal(values.type) and pa.types.is_string(kind):
        # Arrow would write small values with an exponent.
        return pa.array([None if v is None else f"{v:f}" for v in values.to_pylist()], kind)
    try:
        if pa.types.is_integer(values.type) and pa.types.is_decimal(kind):
            values = values.cast(
                pa.decimal256(76, kind.scale)
            )  # Arrow requires space for every integer
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise ChangeError(
            f"column {ColumnName(table.name, captured_column(field.name))} has a value in the lake that is no {kind}: "
            f"{error}; "
            "rebuild the table"
        ) from None
