"""Read lake tables with Spark, without extra jars."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.errors import ConfigurationError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.delta.files import TableFile, files_of
from pgsluice.lake.delta.opening import Use, open_delta
from pgsluice.lake.storage import Folder, ObjectFolder, folder_at
from pgsluice.spark.checkpoint import local_url

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_FILE_NAME = "__file_name"


def read_table(spark: SparkSession, lake: str | Folder, *, version: int | None = None) -> DataFrame:
    """Read a version of a Delta table.

    Args:
        spark: Spark session.
        lake: Folder of the table, on disk or as a URL.
        version: Table version; None for the newest.

    Raises:
        ConfigurationError: The table does not exist, or it uses a feature not supported for reading.
    """
    folder = folder_at(lake)
    table = open_delta(folder, Use.READ, version=version)
    if isinstance(folder, Path):
        return read_files(spark, folder, _delta_schema(table), files_of(table))
    # Spark reads files of an object store only with a jar.
    reader = spark.read.format("pgsluice-delta").option("versionAsOf", str(table.version()))
    return reader.load(str(folder))


def read_iceberg(
    spark: SparkSession, address: IcebergAddress, *, snapshot_id: int | None = None
) -> DataFrame:
    """Read a snapshot of an Iceberg table.

    Args:
        spark: Spark session.
        address: Address of the table.
        snapshot_id: Snapshot to read; None for the newest.

    Raises:
        ConfigurationError: The table does not exist, the snapshot has expired, or it has deleted rows or changed
            columns that its files do not show.
    """
    # Imported late: the CLI imports this module without pyarrow.
    from pgsluice.lake.iceberg.catalog import (
        folder_of,
        load_table,
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
        folder, snapshot = folder_of(table.location(), address), table.current_snapshot()
        files = [local_url(Path(str(file.file_path).removeprefix("file://"))) for file in found]
    if not files:
        return spark.createDataFrame([], schema)
    if isinstance(folder, ObjectFolder):
        reader = spark.read.format("pgsluice-iceberg")
        reader = reader.option("snapshot-id", str(snapshot_id or snapshot.snapshot_id))
        return reader.load(str(address))
    # The files contain the partition columns; recursiveFileLookup disables inferring them from folder names.
    return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*files)


def read_files(
    spark: SparkSession, folder: Path, schema: StructType, files: list[TableFile]
) -> DataFrame:
    """Read files of one folder with the values of their partition columns.

    Args:
        spark: Spark session.
        folder: Absolute folder of the table.
        schema: All columns; explicit, as Spark would infer a number from a partition value such as 001.
        files: Files of the table; may be empty.
    """
    if not files:
        return spark.createDataFrame([], schema)
    paths = [local_url(folder / file.path) for file in files]
    partitioned = list(files[0].partition)
    if all(_folders_match(file) for file in files):
        # Spark reads the values from folder names and prunes partitions.
        return spark.read.schema(schema).option("basePath", local_url(folder)).parquet(*paths)
    return _read_with_values(spark, schema, paths, files, partitioned)


def _delta_schema(table: DeltaTable) -> StructType:
    """Return the Spark schema of a table."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(table.schema().to_json()))


def _iceberg_schema(table: Table) -> StructType:
    """Return the Spark schema of a table, with all columns nullable."""
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
    """Join each file's rows with its partition values, as some writers escape folder names differently."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    in_files = StructType([field for field in schema if field.name not in partitioned])
    # Disable partition discovery. File names are unique, as they contain a UUID.
    rows = (
        spark.read.schema(in_files)
        .option("recursiveFileLookup", "true")
        .parquet(*paths)
        .select("*", f.col("_metadata.file_name").alias(_FILE_NAME))
    )
    partition_values = [
        (Path(file.path).name, *(file.partition[name] for name in partitioned)) for file in files
    ]
    text = ", ".join(f"`{name}` string" for name in (_FILE_NAME, *partitioned))
    values = spark.createDataFrame(partition_values, text)
    joined = rows.join(f.broadcast(values), _FILE_NAME)
    return joined.select(
        *(
            f.col(f"`{field.name}`").cast(field.dataType).alias(field.name)
            if field.name in partitioned
            else f.col(f"`{field.name}`")
            for field in schema
        )
    )


def _folders_match(file: TableFile) -> bool:
    """True if Spark would read the file's partition values correctly from its folder names."""
    pairs = [part.partition("=") for part in Path(file.path).parts[:-1]]
    return [
        (_unescaped(name), None if value == _NULL_FOLDER else _unescaped(value))
        for name, _, value in pairs
    ] == list(file.partition.items())


def _unescaped(text: str) -> str:
    # Like Spark: each %XX is one character, not one byte of UTF-8.
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)
