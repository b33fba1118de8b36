"""The table at an address of the lake, for rows with a schema of Spark's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError
from pgsluice.lake.address import IcebergAddress, parse
from pgsluice.lake.delta.table import DeltaLakeTable
from pgsluice.lake.iceberg.table import IcebergLakeTable
from pgsluice.lake.table import LakeTable
from pgsluice.spark.schemas import arrow_schema, nullable


def table_at(
    address: str | None, schema: StructType, *, partition_by: Sequence[str] = ()
) -> LakeTable:
    """Return the table at an address; nothing is created or changed.

    Args:
        address: A folder, for a Delta table, or `iceberg:catalog/namespace.table`; it may not exist yet.
        schema: The columns of what will be written.
        partition_by: For a table that does not exist yet; one that exists has its own.

    Raises:
        ConfigurationError: There is no address, or it is not valid, or the table cannot be partitioned so.
    """
    place = parse(address) if address else None
    if isinstance(place, IcebergAddress):
        return iceberg_table(place, schema, partition_by=partition_by)
    return delta_table(place, schema, partition_by=partition_by)


def delta_table(
    folder: Path | None, schema: StructType, *, partition_by: Sequence[str] = ()
) -> DeltaLakeTable:
    """Return the Delta table in a folder, as `table_at` does."""
    if folder is None:
        raise ConfigurationError(
            "the format pgsluice-delta needs the table's folder: start(path) or save(path)"
        )
    _refuse_variants(schema)
    columns = nullable(schema)
    return DeltaLakeTable.in_folder(
        folder, arrow_schema(columns), columns.json(), partition_by=partition_by
    )


def iceberg_table(
    address: IcebergAddress, schema: StructType, *, partition_by: Sequence[str] = ()
) -> IcebergLakeTable:
    """Return the Iceberg table at an address, as `table_at` does."""
    _refuse_variants(schema)
    return IcebergLakeTable.at(address, arrow_schema(schema), partition_by=partition_by)


def _refuse_variants(schema: StructType) -> None:
    # Arrow has a variant as two columns of bytes, which a table would take for a struct.
    names = [column.name for column in schema if column.dataType.typeName() == "variant"]
    if names:
        raise ConfigurationError(
            f"column {', '.join(map(repr, names))} is a variant, which no table of the lake takes here; write it "
            "as text, with to_json"
        )
