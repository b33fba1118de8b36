"""The table at an address of the lake, whatever its format."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import StructType

from pgsluice.spark.lake.address import IcebergAddress, parse
from pgsluice.spark.lake.delta import DeltaLakeTable
from pgsluice.spark.lake.iceberg import IcebergLakeTable
from pgsluice.spark.lake.table import LakeTable


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
        return IcebergLakeTable.at(place, schema, partition_by=partition_by)
    return DeltaLakeTable.in_folder(place, schema, partition_by=partition_by)
