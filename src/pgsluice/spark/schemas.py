"""Schemas of Spark and of Arrow, and batches that match them to the last detail."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pgsluice.errors import SluiceError


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
            columns.append(batch.column(field.name).cast(field.type))
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
