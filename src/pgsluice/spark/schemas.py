"""Schemas of Spark and of Arrow, and batches that match them to the last detail."""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import is_variant, to_arrow_schema
from pyspark.sql.types import StructType, VariantVal

from pgsluice.lake import columns


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
    """Conform a batch to a schema, as `columns.conform` does, and parse JSON where the schema has a variant."""
    return columns.conform(batch, schema, cast=_cast)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if not (pa.types.is_struct(kind) and is_variant(kind)):
        return columns.cast(column, kind)
    try:
        variants = [
            None if text is None else VariantVal.parseJson(text) for text in column.to_pylist()
        ]
    except PySparkException as error:
        raise pa.ArrowInvalid(str(error)) from error
    return pa.array(
        [
            variant and {"value": variant.value, "metadata": variant.metadata}
            for variant in variants
        ],
        kind,
    )
