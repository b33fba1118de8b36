"""Compaction of small files, independent of the table format: bin-packing and reading of rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from pgsluice.errors import SluiceError
from pgsluice.lake.columns import with_nulls
from pgsluice.lake.storage import Folder, open_input

File = TypeVar("File")


def bins(
    files: Iterable[File],
    *,
    group: Callable[[File], Hashable],
    size_bytes: Callable[[File], int],
    target_bytes: int,
) -> Iterator[list[File]]:
    """Bin-pack files below the target size: yield two or more files of one group that total up to the target."""
    groups: dict[Hashable, list[File]] = defaultdict(list)
    for file in files:
        if size_bytes(file) < target_bytes:
            groups[group(file)].append(file)
    for small in groups.values():
        chosen: list[File] = []
        for file in small:
            if sum(map(size_bytes, chosen)) + size_bytes(file) > target_bytes:
                if len(chosen) > 1:
                    yield chosen
                chosen = []
            chosen.append(file)
        if len(chosen) > 1:
            yield chosen


def rows_of(
    folder: Folder,
    names: Iterable[str],
    schema: pa.Schema,
    values: Mapping[str, str | None] | None = None,
    *,
    may_drop: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Read files as record batches with all columns of the schema.

    Args:
        folder: Folder of the table.
        names: Parquet files relative to it.
        schema: Columns that a file lacks because they were added later are null.
        values: Values of the partition columns that the files lack, as text.
        may_drop: Read only the columns of the schema.

    Raises:
        SluiceError: A file has a column that is not in the schema, and `may_drop` is false.
    """
    given = values or {}
    for name in names:
        with pq.ParquetFile(open_input(folder, name), coerce_int96_timestamp_unit="us") as file:
            others = sorted(set(file.schema_arrow.names) - set(schema.names))
            if others and not may_drop:
                raise SluiceError(
                    f"the file {name} in {folder} has columns that its table lacks ({', '.join(others)}); nothing was "
                    "changed; compact the table with the tool that made it"
                )
            present = [column for column in file.schema_arrow.names if column in schema.names]
            for batch in file.iter_batches(columns=present):
                for column in schema:
                    if column.name in given and column.name not in present:
                        one = pa.array([given[column.name]], pa.string()).cast(column.type)
                        batch = batch.append_column(column.name, pa.repeat(one[0], batch.num_rows))
                yield with_nulls(batch, schema)
