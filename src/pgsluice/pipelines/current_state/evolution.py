"""Rewrite a current-state table for other names and wider types of its columns, or refuse a type."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from pgsluice.errors import ChangeError, SchemaChangeError
from pgsluice.lake.current_tables import OWN_COLUMNS, captured_column
from pgsluice.lake.mutable import MutableTable
from pgsluice.lake.names import ColumnName, TableName
from pgsluice.lake.nested import is_nested
from pgsluice.pipelines.current_state.overwrite import rows_in
from pgsluice.pipelines.current_state.table import CurrentTable, require_names


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
    name: TableName,
    existing: Mapping[str, pa.DataType],
    key: Collection[str],
    kinds: Mapping[str, pa.DataType],
    *,
    numeric: Collection[str] = (),
    rewritten: Collection[str] = (),
) -> dict[str, pa.DataType]:
    """Return the columns of a table that need a wider type, with that type.

    Args:
        name: The table.
        existing: Its columns in the lake, by their names in PostgreSQL now.
        key: Columns of its key.
        kinds: The lake types of the columns in PostgreSQL now.
        numeric: The columns that have the type numeric without precision now.
        rewritten: The columns whose values have another text now.

    Raises:
        SchemaChangeError: The lake cannot hold values of the new type together with those of the former.
    """
    wider = {}
    for column, kind in existing.items():
        now = kinds.get(column, kind)
        is_text = pa.types.is_string(kind) or is_nested(kind)
        if is_text and column in rewritten:
            raise SchemaChangeError(
                f"column {ColumnName(name, column)} is stored as {kind}, and existing values are written differently "
                "in its new type; rebuild the table"
            )
        # Text and nested types hold the values of many types; others do not parse, and park the table.
        if now == kind or is_text:
            continue
        rules = (*_RULES, _TO_NUMERIC) if column in numeric else _RULES
        if not any(
            rule.applies(kind, now)
            and (rule.for_keys or column not in key)
            and (bool(key) or rule.keeps_text(kind, now))
            for rule in rules
        ):
            raise SchemaChangeError(
                f"column {ColumnName(name, column)} is {kind} in the lake, and its type in PostgreSQL is stored as "
                f"{now} now; rebuild the table"
            )
        wider[column] = now
    return wider


def reshape(
    table: CurrentTable,
    columns: Mapping[str, tuple[str, pa.DataType]],
    versions: Mapping[str, int],
) -> CurrentTable:
    """Rewrite a table with other columns in one commit; return it after the commit.

    Args:
        table: The table.
        columns: Of each captured column that stays, the name in the lake and type that it gets.
        versions: Versions of applications that the commit records.

    Raises:
        ChangeError: A stored value does not fit its type, or the lake cannot distinguish the names.
        SluiceError: All attempts conflicted with other commits.
    """
    require_names(table.name, [captured_column(name) for name, _ in columns.values()])
    fields = []
    for field in table.stored.columns:
        name = captured_column(field.name)
        if field.name in OWN_COLUMNS:
            fields.append((field.name, field.name, field.type))
        elif name in columns:
            fields.append((field.name, *columns[name]))
    schema = pa.schema([(name, kind) for _, name, kind in fields])

    def cast(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            _cast(table, batch.column(was), field)
            for (was, _, _), field in zip(fields, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def rows(newest: MutableTable) -> Iterator[pa.RecordBatch]:
        return map(cast, rows_in(newest))

    table.stored.overwrite(schema, rows, versions)
    return table.again()


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
