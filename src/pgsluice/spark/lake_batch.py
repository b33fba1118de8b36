"""Batch reads of lake tables: tasks read files with pyarrow, without a jar; see `lake_source` for the options."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    InputPartition,
)
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    IntegralType,
    StringType,
    StructType,
    TimestampType,
)

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.changes import DataFile
from pgsluice.lake.compaction import rows_of
from pgsluice.lake.delta.files import files_of
from pgsluice.lake.delta.opening import Use, open_delta, version_at
from pgsluice.lake.iceberg.catalog import (
    folder_of,
    load_table,
    name_of,
    opened_catalog,
    plain_files,
)
from pgsluice.lake.skipping import Condition
from pgsluice.lake.storage import Folder
from pgsluice.spark.filters import TESTS, WITH_VALUES, WITHOUT_VALUE
from pgsluice.spark.offsets import moment
from pgsluice.spark.options import whole_number_or_zero
from pgsluice.spark.schemas import arrow_schema, conform, nullable

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

# Zstandard files expand about five times, so a task reads some 150 MB.
_TASK_BYTES = 32 << 20
# Opening a file takes as long as reading this many bytes.
_OPEN_BYTES = 1 << 20


@dataclass(frozen=True)
class FilesPartition(InputPartition):  # type: ignore[misc]
    """Files of one task."""

    files: tuple[DataFile, ...]


def tasks_of(files: Iterable[DataFile]) -> list[FilesPartition]:
    """Distribute files to tasks of about the same size, in the order of the files."""
    tasks: list[list[DataFile]] = []
    held_bytes = 0
    for file in files:
        cost = file.size_bytes + _OPEN_BYTES
        if not tasks or held_bytes + cost > _TASK_BYTES:
            tasks.append([])
            held_bytes = 0
        tasks[-1].append(file)
        held_bytes += cost
    return [FilesPartition(tuple(task)) for task in tasks]


def read_file(file: DataFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read one file; columns that it lacks are null.

    Raises:
        FileNotFoundError: It was removed.
        SluiceError: A value does not fit the schema.
    """
    for batch in rows_of(file.folder, [file.path], schema, file.partition, may_drop=True):
        yield conform(batch, schema)


class LakeReader(DataSourceReader):  # type: ignore[misc]
    """Read one version of a lake table.

    Args:
        table_schema: All columns of the table.
        schema: The columns to read.
    """

    def __init__(self, table_schema: StructType, schema: StructType) -> None:
        require_columns(table_schema, schema)
        self.schema = arrow_schema(schema)
        # With another type chosen by the caller, a comparison may differ.
        self.filterable = {
            field.name: field.dataType
            for field in schema
            if field.dataType == table_schema[field.name].dataType
        }
        self.conditions: list[Condition] = []

    @abstractmethod
    def files(self) -> list[DataFile]:
        """Return the files that may contain matching rows."""

    def partitions(self) -> Sequence[FilesPartition]:
        return tasks_of(sorted(self.files(), key=lambda file: file.path))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # If there are no partitions, Spark passes a default one.
        if not isinstance(partition, FilesPartition):
            return
        for file in partition.files:
            try:
                yield from read_file(file, self.schema)
            except FileNotFoundError:
                raise SluiceError(
                    f"the file {file.path} in {file.folder} no longer exists; it was removed during the read, for "
                    "example by a vacuum; read the newest version"
                ) from None


class DeltaReader(LakeReader):
    """Read a version of a Delta table."""

    def __init__(
        self, folder: Folder, version: int, table_schema: StructType, schema: StructType
    ) -> None:
        super().__init__(table_schema, schema)
        self.folder, self.version = folder, version

    def files(self) -> list[DataFile]:
        table = open_delta(self.folder, Use.READ, version=self.version)
        return [
            DataFile(self.folder, file.path, file.size_bytes, file.partition)
            for file in files_of(table, self.conditions)
        ]


class IcebergReader(LakeReader):
    """Read a snapshot of an Iceberg table."""

    def __init__(
        self,
        address: IcebergAddress,
        snapshot_id: int | None,
        table_schema: StructType,
        schema: StructType,
    ) -> None:
        super().__init__(table_schema, schema)
        self.address, self.snapshot_id = address, snapshot_id

    def files(self) -> list[DataFile]:
        if self.snapshot_id is None:
            return []
        with opened_catalog(self.address.catalog) as catalog:
            table = load_table(catalog, self.address)
            if table is None:
                raise _missing(self.address)
            found = plain_files(
                table, self.address, snapshot_id=self.snapshot_id, conditions=self.conditions
            )
            folder = folder_of(table.location(), self.address)
            return [
                DataFile(folder, name_of(folder, file), file.file_size_in_bytes, {})
                for file in found
            ]


class SkippingReader(DataSourceReader):  # type: ignore[misc]
    """Reader that skips files by Spark's filters; a separate class as `batch.FilteringReader` is."""

    def __init__(self, inner: LakeReader) -> None:
        self.inner = inner

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for found in filters:
            condition = condition_of(found, self.inner.filterable)
            if condition is not None:
                self.inner.conditions.append(condition)
            yield found  # files have other rows, too

    def partitions(self) -> Sequence[FilesPartition]:
        return self.inner.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self.inner.read(partition)


def open_delta_version(folder: Folder, options: Mapping[str, str]) -> tuple[int, StructType]:
    """Return the version of a Delta table that `versionAsOf` or `timestampAsOf` selects, and its columns.

    Raises:
        ConfigurationError: Both options are given, one is invalid, or the version cannot be read.
    """
    version, time = whole_number_or_zero(options, "versionAsOf"), options.get("timestampAsOf")
    if time:
        if version is not None:
            raise _exclusive("versionAsOf", "timestampAsOf")
        version = version_at(folder, moment("timestampAsOf", time))
    table = open_delta(folder, Use.READ, version=version)
    columns = StructType.fromJson(json.loads(table.schema().to_json()))
    return int(table.version()), nullable(columns)


def open_iceberg_snapshot(
    address: IcebergAddress, options: Mapping[str, str]
) -> tuple[int | None, StructType]:
    """Return the snapshot of an Iceberg table that `snapshot-id` or `as-of-timestamp` selects, and its columns.

    Returns:
        The snapshot's id, or None for a table without a snapshot.

    Raises:
        ConfigurationError: Both options are given, one is invalid, or the snapshot cannot be read.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    snapshot_id, time = whole_number_or_zero(options, "snapshot-id"), options.get("as-of-timestamp")
    if time and snapshot_id is not None:
        raise _exclusive("snapshot-id", "as-of-timestamp")
    with opened_catalog(address.catalog) as catalog:
        table = load_table(catalog, address)
        if table is None:
            raise _missing(address)
        found = table.current_snapshot()
        if time:
            at = moment("as-of-timestamp", time)
            found = table.snapshot_as_of_timestamp(int(at.timestamp() * 1000))
        elif snapshot_id is not None:
            found = table.snapshot_by_id(snapshot_id)
        if found is None and (time or snapshot_id is not None):
            raise ConfigurationError(
                f"the lake table {address} has no snapshot {snapshot_id or f'of {time}'}, or it has expired; choose "
                f"one that `pgsluice lake show {address}` lists"
            )
        schemas = table.schemas()
        schema = table.schema()
        if found is not None and found.schema_id is not None:
            schema = schemas[found.schema_id]
        columns = nullable(from_arrow_schema(schema.as_arrow()))
        return None if found is None else int(found.snapshot_id), columns


def require_columns(table_schema: StructType, schema: StructType) -> None:
    """Refuse columns that a table does not have."""
    unknown = [name for name in schema.names if name not in table_schema.names]
    if unknown:
        raise ConfigurationError(
            f"column {unknown[0]!r} does not exist; choose from {', '.join(table_schema.names)}"
        )


def condition_of(found: Filter, columns: Mapping[str, DataType]) -> Condition | None:
    """Translate one of Spark's filters; None if it cannot exclude files.

    Args:
        found: A filter of Spark.
        columns: Columns that are read without a change of type.
    """
    test = TESTS.get(type(found).__name__)
    if test is None or test == "contains":
        return None
    (name, *deeper) = found.attribute
    kind = columns.get(name)
    if deeper or kind is None or "." in name:  # statistics of nested columns have such names
        return None
    if test in WITHOUT_VALUE:
        return Condition(name, test)
    values = tuple(found.value) if test in WITH_VALUES else (found.value,)
    if not all(_is_of(value, kind) for value in values):
        return None
    return Condition(name, test, values if test in WITH_VALUES else values[0])


def _is_of(value: Any, kind: DataType) -> bool:
    """True if a value has the type of a column and sorts in Python as in the column's statistics."""
    if isinstance(kind, IntegralType):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(kind, DateType):
        return isinstance(value, date) and not isinstance(value, datetime)
    if isinstance(kind, TimestampType):
        return isinstance(value, datetime) and value.tzinfo is not None
    if isinstance(kind, BooleanType):
        return isinstance(value, bool)
    return isinstance(kind, StringType) and isinstance(value, str)


def _exclusive(first: str, second: str) -> ConfigurationError:
    return ConfigurationError(
        f"the options {first} and {second} are mutually exclusive; set only one"
    )


def _missing(address: IcebergAddress) -> ConfigurationError:
    return ConfigurationError(f"there is no lake table {address}; write to it first")
