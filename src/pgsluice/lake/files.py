"""Write Parquet files for a lake table: durable, written by tasks and not yet committed.

A partitioned table has a folder per value: `kind=order/part-00000-….zstd.parquet`. Folder names are escaped as in Hive
and Spark, so that Spark can read the values from the names.
"""

from __future__ import annotations

import posixpath
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.columns import conform
from pgsluice.lake.stats import Stats
from pgsluice.lake.storage import Folder, NewFile, remove

# Rows are buffered up to this size and written as one row group; readers are efficient from 16 MiB.
_ROW_GROUP_BYTES = 64 << 20
# At this limit a task closes the least recently used file; a later row of its partition opens a new file.
_OPEN_FILES_MAX = 100
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
# Characters that Hive escapes. Others must not be escaped: Spark decodes each %XX as one character, not as UTF-8.
_ESCAPED = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{}\[\]^]""")
_ROW = "__row"

Partition = Mapping[str, str | None]


@dataclass(frozen=True)
class LakeFile:
    """Written, uncommitted Parquet file.

    Attributes:
        path: Relative to the folder of the table.
        size_bytes: File size.
        stats: Delta's statistics as JSON: numRecords, minValues, maxValues, nullCount.
        row_count: Number of rows.
        written_s: Time before the first byte was written, in seconds since 1970.
        partition: Value of each partition column as text; None for null.
    """

    path: str
    size_bytes: int
    stats: str
    row_count: int
    written_s: float
    partition: Partition = field(default_factory=dict)


def check_partition_columns(schema: pa.Schema, partition_by: Sequence[str]) -> None:
    """Validate partition columns.

    Raises:
        ConfigurationError: A column does not exist, is repeated or has an unsupported type, or no other column remains.
    """
    for name in partition_by:
        if name not in schema.names:
            raise ConfigurationError(
                f"partitionBy column {name!r} does not exist; the rows have {', '.join(schema.names)}"
            )
        kind = schema.field(name).type
        if not (
            pa.types.is_string(kind)
            or pa.types.is_integer(kind)
            or pa.types.is_date(kind)
            or pa.types.is_boolean(kind)
        ):
            raise ConfigurationError(
                f"partitionBy column {name!r} has the unsupported type {kind}; use a string, integer, date or "
                "boolean column, or derive a date column from a timestamp"
            )
    if len(set(partition_by)) != len(partition_by):
        raise ConfigurationError(f"partitionBy names a column twice: {', '.join(partition_by)}")
    if len(partition_by) == len(schema):
        raise ConfigurationError("partitionBy names every column; leave one for the files")


def write_files(
    folder: Folder,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    part: int,
    partition_by: Sequence[str] = (),
    keep_partition_columns: bool = False,
) -> tuple[LakeFile, ...]:
    """Write record batches to new, durable files; without rows, write no file.

    A call that fails removes its files.

    Args:
        folder: Folder of the table; created if it does not exist.
        schema: Schema of the table.
        batches: In any schema that can be cast to the table's.
        part: Number of the Spark partition, for the file names.
        partition_by: Partition columns of the table.
        keep_partition_columns: Write the partition columns into the files, too.
    """
    task = _Task(folder, schema, part, tuple(partition_by), keep_partition_columns)
    try:
        for batch in batches:
            if batch.num_rows:
                task.add(conform(batch, schema))
        return task.close()
    except BaseException:
        task.discard()
        raise


def write_partition(folder: Folder, rows: pa.Table, partition: Partition, *, part: int) -> LakeFile:
    """Write the rows of one partition to a new, durable file; a call that fails removes the file.

    Args:
        folder: Folder of the table.
        rows: Rows with the columns of the file; they must fit into memory, and become one row group.
        partition: Value of each partition column as text.
        part: Number for the file name.
    """
    file = _OpenFile(folder, rows.schema, partition, part)
    try:
        for batch in rows.to_batches():
            file.add(batch)
        return file.close()
    except BaseException:
        file.discard()
        raise


class _Task:
    """Files of one task, one open file per partition."""

    def __init__(
        self,
        folder: Folder,
        schema: pa.Schema,
        part: int,
        partition_by: tuple[str, ...],
        keep_partition_columns: bool,
    ) -> None:
        self._folder, self._part, self._partition_by = folder, part, partition_by
        left_out = set() if keep_partition_columns else set(partition_by)
        self._schema = pa.schema([column for column in schema if column.name not in left_out])
        # By partition values, least recently used first.
        self._open: dict[tuple[Any, ...], _OpenFile] = {}
        self._closed: list[LakeFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        for values, rows in self._split(batch):
            file = self._open.pop(values, None) or self._new(values)
            self._open[values] = file
            file.add(rows.select(self._schema.names))
        while sum(file.held_bytes for file in self._open.values()) >= _ROW_GROUP_BYTES:
            max(self._open.values(), key=lambda file: file.held_bytes).flush()

    def close(self) -> tuple[LakeFile, ...]:
        while self._open:
            self._close_first()
        return tuple(self._closed)

    def discard(self) -> None:
        for file in self._open.values():
            file.discard()
        for done in self._closed:
            remove(self._folder, done.path)

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
        if not self._partition_by:
            yield (), batch
            return
        keys = pa.table({name: batch.column(name) for name in self._partition_by})
        groups = (
            keys.append_column(_ROW, pa.array(range(batch.num_rows), pa.int64()))
            .group_by(list(self._partition_by), use_threads=False)
            .aggregate([(_ROW, "list")])
        )
        for group in groups.to_batches():
            rows = group.column(f"{_ROW}_list")
            for index in range(group.num_rows):
                values = tuple(group.column(name)[index].as_py() for name in self._partition_by)
                yield values, batch.take(rows[index].values)

    def _new(self, values: tuple[Any, ...]) -> _OpenFile:
        if len(self._open) >= _OPEN_FILES_MAX:
            self._close_first()
        partition = {
            name: _as_text(name, value)
            for name, value in zip(self._partition_by, values, strict=True)
        }
        return _OpenFile(self._folder, self._schema, partition, self._part)

    def _close_first(self) -> None:
        values, file = next(iter(self._open.items()))
        self._closed.append(file.close())
        del self._open[values]


class _OpenFile:
    """File that is being written."""

    def __init__(self, folder: Folder, schema: pa.Schema, partition: Partition, part: int) -> None:
        self.held_bytes = 0
        self._held: list[pa.RecordBatch] = []
        self._schema, self._partition = schema, partition
        folders = [_folder_name(*item) for item in partition.items()]
        self._name = posixpath.join(*folders, f"part-{part:05d}-{uuid.uuid4()}.zstd.parquet")
        self._stats = Stats(schema)
        self._written_s = time.time()
        self._file = NewFile(folder, self._name)
        self._writer = pq.ParquetWriter(self._file.stream, schema, compression="zstd")

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self.held_bytes += batch.nbytes

    def flush(self) -> None:
        rows = pa.Table.from_batches(self._held, self._schema)
        self._held, self.held_bytes = [], 0
        self._stats.add(rows)
        self._writer.write_table(rows, row_group_size=rows.num_rows)

    def close(self) -> LakeFile:
        if self._held:
            self.flush()
        self._writer.close()
        return LakeFile(
            self._name,
            self._file.close(),
            self._stats.to_json(),
            self._stats.row_count,
            self._written_s,
            self._partition,
        )

    def discard(self) -> None:
        # Closing fails again when the disk is full.
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._file.discard()


def _folder_name(name: str, value: str | None) -> str:
    return f"{_escaped(name)}={_NULL_FOLDER if value is None else _escaped(value)}"


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _as_text(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if value in ("", _NULL_FOLDER):
        raise SluiceError(
            f"a row has the value {value!r} in the partition column {name!r}; a folder name cannot distinguish it "
            "from null; write another value"
        )
    return str(value)
