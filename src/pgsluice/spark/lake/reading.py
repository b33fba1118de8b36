"""A table of the lake as Spark reads it, without any jar."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.table_formats.delta import Use, folder_of, local_path, open_delta

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_FILE_NAME = "__file_name"


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file that belongs to a table.

    Attributes:
        path: Relative to the table's folder, as on the disk.
        size_bytes: Its size.
        partition: The value of each partition column as text; None for null.
    """

    path: str
    size_bytes: int
    partition: Mapping[str, str | None]


def read_table(spark: SparkSession, lake: str | Path, *, version: int | None = None) -> DataFrame:
    """Read a table of the lake as one of its versions has it.

    Args:
        spark: A session.
        lake: The table's folder.
        version: The newest when None.

    Raises:
        ConfigurationError: There is no such table, or it uses what cannot be read as plain files.
    """
    table = open_delta(lake, Use.READ, version=version)
    return read_files(spark, Path(lake).absolute(), schema_of(table), files_of(table))


def schema_of(table: DeltaTable) -> StructType:
    """Its columns as Spark has them."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(table.schema().to_json()))


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


def paths_of(table: DeltaTable) -> set[str]:
    """The paths of a Delta table's files, relative to its folder, as on the disk."""
    paths = table.get_add_actions().column("path").to_pylist()
    return {local_path(path, table.table_uri) for path in paths}


def files_of(table: DeltaTable) -> list[TableFile]:
    """The files of a Delta table, in no order."""
    actions = table.get_add_actions(flatten=True)
    columns = table.metadata().partition_columns
    values = [
        [_as_text(value) for value in actions.column(f"partition.{name}").to_pylist()]
        for name in columns
    ]
    paths = [local_path(path, table.table_uri) for path in actions.column("path").to_pylist()]
    sizes = actions.column("size_bytes").to_pylist()
    return [
        TableFile(path, size, {name: of[index] for name, of in zip(columns, values, strict=True)})
        for index, (path, size) in enumerate(zip(paths, sizes, strict=True))
    ]


def row_count(table: DeltaTable) -> int:
    """Count the rows of a Delta table by the statistics of its files; of a file without, by its footer."""
    actions = table.get_add_actions(flatten=True)
    counts = actions.column("num_records").to_pylist()
    if None not in counts:
        return sum(counts)
    import pyarrow.parquet as pq

    folder = folder_of(table)
    paths = [local_path(path, folder) for path in actions.column("path").to_pylist()]
    return sum(
        pq.read_metadata(folder / path).num_rows if count is None else count
        for path, count in zip(paths, counts, strict=True)
    )


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


def _as_text(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
