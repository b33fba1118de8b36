"""Resolve lake addresses to tables for rows with a Spark schema."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError
from pgsluice.lake.address import IcebergAddress, parse
from pgsluice.lake.delta.table import DeltaLakeTable
from pgsluice.lake.iceberg.table import IcebergLakeTable
from pgsluice.lake.storage import Folder
from pgsluice.lake.table import LakeTable
from pgsluice.spark.schemas import arrow_schema, nullable


def table_at(
    address: str | Folder | IcebergAddress,
    schema: StructType,
    *,
    partition_by: Sequence[str] = (),
    merge_schema: bool = False,
) -> LakeTable:
    """Return the table at an address; nothing is created or changed.

    Args:
        address: Folder of a Delta table, or `iceberg:catalog/namespace.table`; the table need not exist.
        schema: Columns of the rows to write.
        partition_by: Partition columns of a new table; an existing table has its own.
        merge_schema: Add columns of the rows that an existing table lacks.

    Raises:
        ConfigurationError: The address is invalid, the partition columns are invalid, or the rows do not fit
            an existing table.
    """
    place = parse(address)
    if isinstance(place, IcebergAddress):
        return iceberg_table(place, schema, partition_by=partition_by, merge_schema=merge_schema)
    return delta_table(place, schema, partition_by=partition_by, merge_schema=merge_schema)


def delta_table(
    folder: Folder,
    schema: StructType,
    *,
    partition_by: Sequence[str] = (),
    merge_schema: bool = False,
) -> DeltaLakeTable:
    """Return the Delta table in a folder, as `table_at` does."""
    _refuse_unsupported(schema)
    columns = nullable(schema)
    return DeltaLakeTable.in_folder(
        folder,
        arrow_schema(columns),
        columns.json(),
        partition_by=partition_by,
        merge_schema=merge_schema,
    )


def iceberg_table(
    address: IcebergAddress,
    schema: StructType,
    *,
    partition_by: Sequence[str] = (),
    merge_schema: bool = False,
) -> IcebergLakeTable:
    """Return the Iceberg table at an address, as `table_at` does."""
    _refuse_unsupported(schema)
    return IcebergLakeTable.at(
        address, arrow_schema(schema), partition_by=partition_by, merge_schema=merge_schema
    )


def _refuse_unsupported(schema: StructType) -> None:
    # In Arrow, a variant is a struct of two binary columns, and a table would store it as a struct. An interval has no
    # type in the lake, and Delta would declare it as an integer.
    hints = {"variant": "convert it to text with to_json", "interval": "cast it to string"}
    for column in schema:
        for kind, hint in hints.items():
            if column.dataType.typeName().endswith(kind):
                raise ConfigurationError(
                    f"column {column.name!r} has the type {column.dataType.simpleString()}, which lake tables do not "
                    f"support; {hint}"
                )
