"""Spark and Arrow schemas, and casts of record batches to exactly these schemas."""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import is_variant
from pyspark.sql.types import StructType, VariantVal

from pgsluice.lake import columns
from pgsluice.spark.features import to_arrow_schema


def struct(**columns: str) -> StructType:
    """Build a Spark schema from column names and types; unlike a DDL string it needs no session."""
    schema = StructType()
    for name, kind in columns.items():
        schema = schema.add(name, kind)
    return schema


def nullable(schema: StructType) -> StructType:
    """Return the schema with all columns nullable."""
    return StructType.fromJson(
        {**schema.jsonValue(), "fields": [{**f.jsonValue(), "nullable": True} for f in schema]}
    )


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark requires for a Spark schema."""
    return to_arrow_schema(schema)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to a schema as `columns.conform` does, and parse JSON for variant columns."""
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
