"""Parquet files of a lake table: written by tasks, forced to disk, and not yet in the table.

A partitioned table has a folder for each value: `kind=order/part-00000-….zstd.parquet`. The folders' names are
escaped as Hive and Spark escape them, so that Spark reads the values back from the names alone.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.columns import conform
from pgsluice.lake.disk import sync_folder
from pgsluice.lake.stats import Stats

# Rows are collected up to this size and written as one row group: readers like 16 MiB and more.
_ROW_GROUP_BYTES = 64 << 20
# A task that meets more values than this closes the file that waited the longest; its next row opens another.
_OPEN_FILES_MAX = 100
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
# What Hive escapes in a folder's name. Other characters stay: Spark reads each %XX as one character, not as UTF-8.
_ESCAPED = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{}\[\]^]""")
_ROW = "__row"

Partition = Mapping[str, str | None]


@dataclass(frozen=True)
class LakeFile:
    """A Parquet file that was written and belongs to no commit yet.

    Attributes:
        path: Relative to the table's folder.
        size_bytes: Its size.
        stats: Delta's statistics as JSON: numRecords, minValues, maxValues, nullCount.
        row_count: Its rows.
        partition: The value of each partition column as text; None for null.
    """

    path: str
    size_bytes: int
    stats: str
    row_count: int
    partition: Partition = field(default_factory=dict)


def check_partition_columns(schema: pa.Schema, partition_by: Sequence[str]) -> None:
    """Refuse columns whose values a folder's name cannot carry.

    Raises:
        ConfigurationError: There is no such column, it has such a type, or no other column is left.
    """
    for name in partition_by:
        if name not in schema.names:
            raise ConfigurationError(
                f"partitionBy names {name!r}, and the rows have the columns {', '.join(schema.names)}"
            )
        kind = schema.field(name).type
        if not (
            pa.types.is_string(kind)
            or pa.types.is_integer(kind)
            or pa.types.is_date(kind)
            or pa.types.is_boolean(kind)
        ):
            raise ConfigurationError(
                f"partitionBy names {name!r}, which is a {kind}; use a column of text, whole numbers, dates "
                "or truth values, for a timestamp its date"
            )
    if len(set(partition_by)) != len(partition_by):
        raise ConfigurationError(f"partitionBy names a column twice: {', '.join(partition_by)}")
    if len(partition_by) == len(schema):
        raise ConfigurationError("partitionBy names every column; leave one for the files")


def write_files(
    folder: Path,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    part: int,
    partition_by: Sequence[str] = (),
    keep_partition_columns: bool = False,
) -> tuple[LakeFile, ...]:
    """Write record batches to new files and force them to disk; no rows, no file.

    A call that fails leaves no file.

    Args:
        folder: The table's; made when it is not there.
        schema: The table's.
        batches: In any schema that can be cast to it.
        part: The partition's number, for the names.
        partition_by: Columns whose values get folders of their own.
        keep_partition_columns: Whether the files hold these columns as well.
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


def write_partition(folder: Path, rows: pa.Table, partition: Partition, *, part: int) -> LakeFile:
    """Write the rows of one partition to a new file and force it to disk; a call that fails leaves no file.

    Args:
        folder: The table's.
        rows: In the file's columns; all of them have to fit into memory, and become one row group.
        partition: The value of each partition column as text.
        part: A number for the name.
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
    """The files that one task writes, one open for each partition."""

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        part: int,
        partition_by: tuple[str, ...],
        keep_partition_columns: bool,
    ) -> None:
        self._folder, self._part, self._partition_by = folder, part, partition_by
        left_out = set() if keep_partition_columns else set(partition_by)
        self._schema = pa.schema([column for column in schema if column.name not in left_out])
        # By the values, the one that waited the longest first.
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
            (self._folder / done.path).unlink(missing_ok=True)

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
    """One file that is being written."""

    def __init__(self, folder: Path, schema: pa.Schema, partition: Partition, part: int) -> None:
        self.held_bytes = 0
        self._held: list[pa.RecordBatch] = []
        self._table_folder, self._schema, self._partition = folder, schema, partition
        place = folder.joinpath(*(_folder_name(*item) for item in partition.items()))
        place.mkdir(parents=True, exist_ok=True)
        self._path = place / f"part-{part:05d}-{uuid.uuid4()}.zstd.parquet"
        self._stats = Stats(schema)
        self._file = self._path.open("xb")
        self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")

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
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        for folder in (self._path.parent, *self._path.parent.parents):
            sync_folder(folder)
            if folder == self._table_folder:
                break
        return LakeFile(
            str(self._path.relative_to(self._table_folder)),
            self._path.stat().st_size,
            self._stats.to_json(),
            self._stats.row_count,
            self._partition,
        )

    def discard(self) -> None:
        # The disk may be full, which is the error that brought us here.
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        with suppress(OSError):
            self._file.close()
        self._path.unlink(missing_ok=True)


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
            f"a row has the value {value!r} in column {name!r}, by which the table is partitioned; there it "
            "cannot be told from null: write another value"
        )
    return str(value)
