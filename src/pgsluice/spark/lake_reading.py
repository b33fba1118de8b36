"""Tables of the lake as Spark reads them, without any jar."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.errors import ConfigurationError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.delta.files import TableFile, files_of
from pgsluice.lake.delta.opening import Use, open_delta

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_FILE_NAME = "__file_name"


def read_table(spark: SparkSession, lake: str | Path, *, version: int | None = None) -> DataFrame:
    """Read a Delta table as one of its versions has it.

    Args:
        spark: A session.
        lake: The table's folder.
        version: The newest when None.

    Raises:
        ConfigurationError: There is no such table, or it uses what cannot be read as plain files.
    """
    table = open_delta(lake, Use.READ, version=version)
    return read_files(spark, Path(lake).absolute(), _delta_schema(table), files_of(table))


def read_iceberg(
    spark: SparkSession, address: IcebergAddress, *, snapshot_id: int | None = None
) -> DataFrame:
    """Read an Iceberg table as a snapshot has it, without any jar.

    Args:
        spark: A session.
        address: Where the table is.
        snapshot_id: The newest when None.

    Raises:
        ConfigurationError: There is no such table, or no such snapshot any more; or rows were deleted or columns
            renamed in a way that its files alone do not show.
    """
    # Not above: the command line imports this module where pyarrow may not be installed.
    from pgsluice.lake.iceberg.catalog import (
        load_table,
        local_folder,
        opened_catalog,
        plain_files,
    )

    with opened_catalog(address.catalog) as catalog:
        table = load_table(catalog, address)
        if table is None:
            raise ConfigurationError(
                f"there is no lake table {address}; run a pipeline into it first"
            )
        schema = _iceberg_schema(table)
        found = plain_files(table, address, snapshot_id=snapshot_id)
        files = [str(local_folder(file.file_path, address)) for file in found]
    if not files:
        return spark.createDataFrame([], schema)
    # The values of partitions are in the files, not to be guessed from the folders' names.
    return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*files)


def read_files(
    spark: SparkSession, folder: Path, schema: StructType, files: list[TableFile]
) -> DataFrame:
    """Read files of one folder with the values of their partition columns.

    Args:
        spark: A session.
        folder: The table's, absolute.
        schema: All columns. Given, not inferred: a partition's value such as 001 would become a number.
        files: May be none.
    """
    if not files:
        return spark.createDataFrame([], schema)
    paths = [str(folder / file.path) for file in files]
    partitioned = list(files[0].partition)
    if all(_folders_tell(file) for file in files):
        # Spark takes the values from the folders, and leaves out those that a filter excludes.
        return spark.read.schema(schema).option("basePath", str(folder)).parquet(*paths)
    return _read_with_values(spark, schema, paths, files, partitioned)


def _delta_schema(table: DeltaTable) -> StructType:
    """Its columns as Spark has them."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(table.schema().to_json()))


def _iceberg_schema(table: Table) -> StructType:
    """Its columns as Spark has them; each may be null."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from pgsluice.spark.schemas import nullable

    return nullable(from_arrow_schema(table.schema().as_arrow()))


def _read_with_values(
    spark: SparkSession,
    schema: StructType,
    paths: list[str],
    files: list[TableFile],
    partitioned: list[str],
) -> DataFrame:
    """Join each file's rows with its values: writers differ in how they escape a folder's name."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    in_files = StructType([field for field in schema if field.name not in partitioned])
    # No base path, no partitions: each file stands for itself. A file's name is a UUID.
    rows = (
        spark.read.schema(in_files)
        .option("recursiveFileLookup", "true")
        .parquet(*paths)
        .select("*", f.col("_metadata.file_name").alias(_FILE_NAME))
    )
    told = [
        (Path(file.path).name, *(file.partition[name] for name in partitioned)) for file in files
    ]
    text = ", ".join(f"`{name}` string" for name in (_FILE_NAME, *partitioned))
    values = spark.createDataFrame(told, text)
    joined = rows.join(f.broadcast(values), _FILE_NAME)
    return joined.select(
        *(
            f.col(f"`{field.name}`").cast(field.dataType).alias(field.name)
            if field.name in partitioned
            else f.col(f"`{field.name}`")
            for field in schema
        )
    )


def _folders_tell(file: TableFile) -> bool:
    """Whether Spark would read the file's values from its folders as they are."""
    told = [part.partition("=") for part in Path(file.path).parts[:-1]]
    return [
        (_unescaped(name), None if value == _NULL_FOLDER else _unescaped(value))
        for name, _, value in told
    ] == list(file.partition.items())


def _unescaped(text: str) -> str:
    # As Spark does it: one character for each %XX, not one byte of UTF-8.
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)
