"""Arrow schemas of lake tables, and casts of record batches to exactly these schemas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.errors import ConfigurationError, SluiceError

Values = TypeVar("Values", pa.Array, pa.ChunkedArray)
Cast = Callable[[pa.Array, pa.DataType], pa.Array]

# Microseconds since 1970.
_FIRST_MOMENT = -62_135_596_800_000_000  # 0001-01-01
_AFTER_LAST_MOMENT = 253_402_300_800_000_000  # 10000-01-01


def cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a column to a type.

    Raises:
        pyarrow.ArrowException: The column holds a value outside the range of the type.
    """
    if pa.types.is_timestamp(column.type):
        _refuse_endless(column)
    return column.cast(kind)


def conform(batch: pa.RecordBatch, schema: pa.Schema, *, cast: Cast = cast) -> pa.RecordBatch:
    """Select the columns of a schema by name, in its order, and cast them to its types.

    Spark requires an exact match of types, nullability and time zones.

    Args:
        batch: May have additional columns.
        schema: Schema of the result.
        cast: Casts a column to a type; raises `pyarrow.ArrowException` on failure.

    Raises:
        SluiceError: A column is missing, holds a value outside the range of its type, or null where that is not
            allowed.
    """
    columns = []
    for field in schema:
        try:
            column = cast(batch.column(field.name), field.type)
        except KeyError:
            raise SluiceError(
                f"column {field.name!r} does not exist; the rows have {', '.join(batch.schema.names)}"
            ) from None
        except pa.ArrowException as error:
            raise SluiceError(
                f"column {field.name!r} cannot be read as {field.type}: {error}; choose another type in "
                "the schema"
            ) from None
        if column.null_count and not field.nullable:
            raise SluiceError(
                f"column {field.name!r} holds null, which the table does not allow; replace it"
            )
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def without_negative_zero(values: Values) -> Values:
    """Return values with 0 for -0, which PostgreSQL and Delta's MERGE hold as equal, and Arrow's joins do not."""
    return (
        pc.add(values, pa.scalar(0, values.type)) if pa.types.is_floating(values.type) else values
    )


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return the schema with all columns nullable."""
    return pa.schema([field.with_nullable(True) for field in schema])


def with_nulls(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Append the columns of a schema that a batch lacks, as nulls."""
    for field in schema:
        if field.name not in batch.schema.names:
            batch = batch.append_column(field.name, pa.nulls(batch.num_rows, field.type))
    return batch


def columns_to_add(rows: pa.Schema, existing: pa.Schema, *, may_add: bool, table: str) -> list[str]:
    """Match the columns of rows with those of a table, by name.

    Args:
        rows: Columns of the rows, nullable.
        existing: Columns of the table, with its types as in its files.
        may_add: Return unknown columns instead of refusing them.
        table: The table, for errors: `the lake table in /lake/orders`.

    Returns:
        The columns that the table lacks, in the order of the rows.

    Raises:
        ConfigurationError: A column is unknown, repeated, of another type or in another case, or the rows lack a column
            that must not be null.
    """
    in_any_case = {name.lower(): name for name in existing.names}
    unknown = []
    for at, field in enumerate(plain(rows)):
        name = in_any_case.get(field.name.lower())
        if field.name.lower() in (other.lower() for other in rows.names[:at]):
            raise ConfigurationError(f"the rows have the column {field.name!r} twice; rename one")
        if name is None:
            unknown.append(field.name)
        elif name != field.name:
            raise ConfigurationError(
                f"the column {field.name!r} of the rows differs from {name!r} of {table} only in case; rename it"
            )
        elif field.type != existing.field(name).type:
            raise ConfigurationError(
                f"the column {name!r} is {field.type} in the rows and {existing.field(name).type} in {table}; cast it "
                "to the type of the table"
            )
    missing = [f.name for f in existing if not f.nullable and f.name not in rows.names]
    if missing:
        raise ConfigurationError(
            f"the rows lack the column {', '.join(map(repr, missing))} of {table}, which does not allow null; add it"
        )
    if unknown and not may_add:
        raise ConfigurationError(
            f"{table} has no column {', '.join(map(repr, unknown))}, only {', '.join(existing.names)}; drop it from "
            "the rows, or set mergeSchema to true to add it to the table"
        )
    return unknown


def merged(rows: pa.Schema, existing: pa.Schema) -> pa.Schema:
    """Return the columns of a table, followed by those of the rows that it lacks."""
    return pa.schema([*existing, *(field for field in rows if field.name not in existing.names)])


def plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the types in the files, without pyiceberg's 64-bit offsets and metadata."""
    return pa.schema([_plain_field(field) for field in schema])


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _plain_type(field.type), field.nullable)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(kind.field(at)) for at in range(kind.num_fields)])
    return kind


def _refuse_endless(column: pa.Array) -> None:
    """Refuse timestamps outside Spark's range.

    Arrow cannot parse the text `infinity`. ADBC adds the difference of the epochs to PostgreSQL's infinity, the largest
    integer; the sum overflows to a timestamp before year 1.
    """
    ends = pc.min_max(column.cast(pa.int64()))
    first, last = ends["min"].as_py(), ends["max"].as_py()
    if first is not None and not _FIRST_MOMENT <= first <= last < _AFTER_LAST_MOMENT:
        raise pa.ArrowInvalid("it holds a timestamp outside the years 1 to 9999, such as infinity")
