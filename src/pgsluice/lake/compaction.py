"""What compactions of all formats share: which files become one, and their rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from pgsluice.errors import SluiceError

File = TypeVar("File")


def bins(
    files: Iterable[File],
    *,
    group: Callable[[File], Hashable],
    size_bytes: Callable[[File], int],
    target_bytes: int,
) -> Iterator[list[File]]:
    """Choose small files that make about one of the target's size, two or more, each time of one group."""
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
    paths: Iterable[Path],
    schema: pa.Schema,
    values: Mapping[str, str | None] | None = None,
    *,
    may_drop: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of files, batch by batch, with all columns of the schema.

    Args:
        paths: Parquet files.
        schema: Columns that a file has not got, as they were added later, are null.
        values: Those of partition columns that the files do not hold, as text.
        may_drop: Whether to leave out columns that the schema does not have.

    Raises:
        SluiceError: A file has other columns, and they may not be left out.
    """
    given = values or {}
    for path in paths:
        with pq.ParquetFile(path) as file:
            others = sorted(set(file.schema_arrow.names) - set(schema.names))
            if others and not may_drop:
                raise SluiceError(
                    f"the file {path} has the columns {', '.join(others)}, and its table does not; nothing was "
                    "changed: compact the table with the tool that made it"
                )
            for batch in file.iter_batches():
                names = batch.schema.names
                for column in schema:
                    if column.name not in names:
                        one = pa.array([given.get(column.name)], pa.string()).cast(column.type)
                        batch = batch.append_column(column.name, pa.repeat(one[0], batch.num_rows))
                yield batch
