"""Columns as Arrow has them: schemas of tables, and batches that match them to the last detail."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.errors import SluiceError

Cast = Callable[[pa.Array, pa.DataType], pa.Array]

# Microseconds since 1970.
_FIRST_MOMENT = -62_135_596_800_000_000  # 0001-01-01
_AFTER_LAST_MOMENT = 253_402_300_800_000_000  # 10000-01-01


def cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a column to a type.

    Raises:
        pyarrow.ArrowException: It holds a value that the type cannot take.
    """
    if pa.types.is_timestamp(column.type):
        _refuse_endless(column)
    return column.cast(kind)


def conform(batch: pa.RecordBatch, schema: pa.Schema, *, cast: Cast = cast) -> pa.RecordBatch:
    """The batch with exactly this schema: columns by name, in its order, cast to its types.

    Spark compares schemas to the last detail: types, nullability and time zone.

    Args:
        batch: May have other columns, too.
        schema: The one to have afterwards.
        cast: Casts a column to a type; raises `pyarrow.ArrowException` where it cannot.

    Raises:
        SluiceError: A column is not there, or holds a value that its type cannot take.
    """
    columns = []
    for field in schema:
        try:
            columns.append(cast(batch.column(field.name), field.type))
        except KeyError:
            raise SluiceError(
                f"the rows have no column {field.name!r}, only {', '.join(batch.schema.names)}"
            ) from None
        except pa.ArrowException as error:
            raise SluiceError(
                f"column {field.name!r} cannot be read as {field.type}: {error}; choose another type in "
                "the schema"
            ) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def nullable(schema: pa.Schema) -> pa.Schema:
    """The schema with columns that may all be null."""
    return pa.schema([field.with_nullable(True) for field in schema])


def plain(schema: pa.Schema) -> pa.Schema:
    """The schema with the types that files have: pyiceberg's have 64-bit offsets, and metadata."""
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
    """Refuse moments that Spark has no value for.

    As text, `infinity` is no time for Arrow. ADBC adds the years between its epoch and PostgreSQL's to the
    largest number, and what comes out lies before anything.
    """
    ends = pc.min_max(column.cast(pa.int64()))
    first, last = ends["min"].as_py(), ends["max"].as_py()
    if first is not None and not _FIRST_MOMENT <= first <= last < _AFTER_LAST_MOMENT:
        raise pa.ArrowInvalid("it holds a moment outside of the years 1 to 9999, as infinity is")
