"""Schemas of Spark and of Arrow, and batches that match them to the last detail."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import is_variant, to_arrow_schema
from pyspark.sql.types import StructType, VariantVal

from pgsluice.errors import SluiceError

# Microseconds since 1970.
_FIRST_MOMENT = -62_135_596_800_000_000  # 0001-01-01
_AFTER_LAST_MOMENT = 253_402_300_800_000_000  # 10000-01-01


def struct(**columns: str) -> StructType:
    """A schema of Spark's, column by column; unlike Spark's own text form it needs no session."""
    schema = StructType()
    for name, kind in columns.items():
        schema = schema.add(name, kind)
    return schema


def nullable(schema: StructType) -> StructType:
    """The schema with columns that may all be null."""
    return StructType.fromJson(
        {**schema.jsonValue(), "fields": [{**f.jsonValue(), "nullable": True} for f in schema]}
    )


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects for its own schema, to the last detail."""
    return to_arrow_schema(schema, timezone="UTC")


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly this schema: columns by name, in its order, cast to its types.

    Spark compares schemas to the last detail: types, nullability and time zone.

    Raises:
        SluiceError: A column is not there, or holds a value that its type cannot take.
    """
    columns = []
    for field in schema:
        try:
            columns.append(_cast(batch.column(field.name), field.type))
        except KeyError:
            raise SluiceError(
                f"the rows have no column {field.name!r}, only {', '.join(batch.schema.names)}"
            ) from None
        except (pa.ArrowException, PySparkException) as error:
            raise SluiceError(
                f"column {field.name!r} cannot be read as {field.type}: {error}; choose another type in "
                "the schema"
            ) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        _refuse_endless(column)
    if not (pa.types.is_struct(kind) and is_variant(kind)):
        return column.cast(kind)
    variants = [None if text is None else VariantVal.parseJson(text) for text in column.to_pylist()]
    return pa.array(
        [
            variant and {"value": variant.value, "metadata": variant.metadata}
            for variant in variants
        ],
        kind,
    )


def _refuse_endless(column: pa.Array) -> None:
    """Refuse moments that Spark has no value for.

    As text, `infinity` is no time for Arrow. ADBC adds the years between its epoch and PostgreSQL's to the
    largest number, and what comes out lies before anything.
    """
    ends = pc.min_max(column.cast(pa.int64()))
    first, last = ends["min"].as_py(), ends["max"].as_py()
    if first is not None and not _FIRST_MOMENT <= first <= last < _AFTER_LAST_MOMENT:
        raise pa.ArrowInvalid("it holds a moment outside of the years 1 to 9999, as infinity is")
