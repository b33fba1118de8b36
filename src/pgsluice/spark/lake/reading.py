"""A table of the lake as Spark reads it, without any jar."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.errors import ConfigurationError

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession


def read_table(spark: SparkSession, lake: str | Path, *, version: int | None = None) -> DataFrame:
    """Read a table of the lake as one of its versions has it.

    Args:
        spark: A session.
        lake: The table's folder.
        version: The newest when None.

    Raises:
        ConfigurationError: There is no such table, or it uses what cannot be read as plain files.
    """
    from deltalake import DeltaTable
    from pyspark.sql.types import StructType

    if not DeltaTable.is_deltatable(str(lake)):
        raise ConfigurationError(f"there is no lake table in {lake}; run a pipeline into it first")
    table = DeltaTable(str(lake), version=version)
    features = set(table.protocol().reader_features or ())
    if features & {"deletionVectors", "columnMapping"}:
        raise ConfigurationError(
            f"the lake table in {lake} uses {', '.join(sorted(features))}, which its files alone do not "
            "show; read it with a session that has Delta's own jar"
        )
    # Given, not inferred: a partition's value such as 001 would become a number.
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    files = table.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", table.table_uri).parquet(*files)


def row_count(table: DeltaTable) -> int:
    """How many rows a Delta table holds, from the statistics of its files."""
    actions = table.get_add_actions(flatten=True)
    return sum(actions.column("num_records").to_pylist())
