"""Changes applied to a current state by Spark's executors: the way for tables that are too large for the driver.

The table is divided into buckets by the hash of the key. A bucket that has changes is read, combined with them and
written to a new file, each by one task; the driver then makes one commit that takes the old files out and the new
ones in. So the cost is that of the buckets that changed, whatever the size of the table.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from pgsluice.lake.delta.commits import commit_files, rewriting
from pgsluice.lake.delta.files import TableFile
from pgsluice.lake.files import LakeFile, write_partition
from pgsluice.pipelines.current_state.collapse import (
    NEVER,
    Collapsed,
    Identity,
    Last,
    another_key,
    collapse,
    identity_for,
    keep_later,
)
from pgsluice.pipelines.current_state.reading import changes_of
from pgsluice.pipelines.current_state.table import (
    BUCKET,
    CHANGED_AT,
    DELETED,
    SEQ,
    CurrentTable,
    rows_of,
)

if TYPE_CHECKING:
    from pyspark import RDD

SUMMARY = -1  # the bucket of what a task says of its changes as a whole
_TASKS_A_CORE = 4  # at the most: buckets are of about one size, and a task has its price

Cell = tuple[int, str]


def bucket_of(known_by: Identity, bucket_count: int) -> int:
    """The bucket of a row; the same in every process."""
    return zlib.crc32(repr([str(part) for part in known_by]).encode()) % bucket_count


def combine(
    there: pa.Table, rows: pa.Table, key: tuple[str, ...], emptied_at: int = NEVER
) -> pa.Table:
    """The rows of a current state after changes.

    Args:
        there: Those before, one for each key.
        rows: The changes, one for each key; one that is not newer than what is there is passed over.
        key: The columns of the key.
        emptied_at: What is below is gone.
    """
    there = there.filter(pc.field(SEQ) >= emptied_at)
    rows = rows.filter(pc.field(SEQ) >= emptied_at)
    names = [*key, SEQ]
    both = (
        there.select(names)
        .append_column("_old", pa.array(range(there.num_rows), pa.int64()))
        .join(
            rows.select(names).append_column("_new", pa.array(range(rows.num_rows), pa.int64())),
            keys=list(key),
            join_type="inner",
            right_suffix="_of_new",
        )
    )
    is_newer = pc.greater(both[f"{SEQ}_of_new"], both[SEQ])
    return pa.concat_tables(
        [
            _without(there, both["_old"].filter(is_newer)),
            _without(rows, both["_new"].filter(pc.invert(is_newer))),
        ]
    )


@dataclass(frozen=True)
class CollapsedByBuckets:
    """The last changes of one table, collapsed in each of Spark's tasks and divided into buckets.

    Attributes:
        cells: The last changes of each bucket, from each task.
        buckets: Those with changes.
        columns: The columns of the rows.
        emptied_at: See `Collapsed`.
        key: The columns of the key; empty when there is no row.
    """

    cells: RDD[Cell]
    buckets: frozenset[int]
    columns: tuple[str, ...]
    emptied_at: int
    key: tuple[str, ...]


@contextmanager
def collapsed_by_buckets(
    events: RDD[Any], name: str, kinds: Mapping[str, pa.DataType], *, bucket_count: int
) -> Iterator[CollapsedByBuckets]:
    """The last changes of a table, kept by the executors within.

    Args:
        events: With the values of `reading.EXPRESSIONS`, of this table only.
        name: `schema.table`.
        kinds: The types in the lake of the columns of its key, at least.
        bucket_count: How many buckets it has.

    Raises:
        SluiceError: A change cannot be read, or tasks have different keys.
    """

    def task(events: Iterable[Any]) -> Iterator[Cell]:
        changes = list(changes_of(events, name.__eq__))
        if changes:
            yield from _cells(collapse(changes, kinds), bucket_count)

    cells = events.mapPartitions(task).persist()
    try:
        summaries = [json.loads(text) for bucket, text in cells.filter(_is_summary).collect()]
        keys = sorted({tuple(summary["key"]) for summary in summaries if summary["key"]})
        if len(keys) > 1:
            raise another_key(name, keys[0], keys[1])
        yield CollapsedByBuckets(
            cells.filter(_is_bucket),
            frozenset(bucket for summary in summaries for bucket in summary["buckets"]),
            tuple(dict.fromkeys(column for summary in summaries for column in summary["columns"])),
            max((summary["emptied_at"] for summary in summaries), default=NEVER),
            keys[0] if keys else (),
        )
    finally:
        cells.unpersist()


@dataclass(frozen=True)
class Rewriting:
    """What a task needs to know to rewrite buckets of a table.

    Attributes:
        name, folder, schema, key: The table's.
        files: The files of each bucket, absolute.
        emptied_at: The line below which everything is gone.
        forget_before_us: Traces of rows deleted before this time may go.
    """

    name: str
    folder: Path
    schema: pa.Schema
    key: tuple[str, ...]
    files: Mapping[int, tuple[str, ...]]
    emptied_at: int
    forget_before_us: int

    def task(self, cell: tuple[int, Iterable[str]]) -> list[LakeFile]:
        """Rewrite a bucket with its changes from all tasks; no file when nothing is left of it."""
        bucket, contents = cell
        identity = identity_for(
            self.name, self.key, {field.name: field.type for field in self.schema}
        )
        rows: dict[Identity, Last] = {}
        for last in _lasts(contents):
            keep_later(rows, identity(last.row), last)
        files = list(self.files.get(bucket, ()))
        # The schema may have columns that a file has not: they are null in it.
        there = pyarrow.dataset.dataset(files, schema=self.schema).to_table() if files else None
        combined = combine(
            self.schema.empty_table() if there is None else there,
            rows_of(self.name, self.schema, rows.values()),
            self.key,
            self.emptied_at,
        )
        forget_before = pa.scalar(self.forget_before_us, self.schema.field(CHANGED_AT).type)
        combined = combined.filter(~(pc.field(DELETED) & (pc.field(CHANGED_AT) < forget_before)))
        if not combined.num_rows:
            return []
        return [write_partition(self.folder, combined, {BUCKET: str(bucket)}, part=bucket)]


def rewrite(
    table: CurrentTable,
    changes: CollapsedByBuckets,
    *,
    app_id: str,
    version: int,
    deleted_kept_h: float,
) -> None:
    """Rewrite the buckets that have changes, and replace their files in one commit.

    Args:
        table: Has all columns of the changes, and buckets.
        changes: The changes.
        app_id, version, deleted_kept_h: As of `apply.apply`.

    Raises:
        SluiceError: A value does not fit its column.
        CommitFailedError: Another commit came first.
    """
    draws_line = changes.emptied_at > table.emptied_at
    line = max(changes.emptied_at, table.emptied_at)
    there = _files(table)
    touched = changes.buckets | (set(there) if draws_line else set())
    if not touched and not draws_line:
        return
    forget_before = datetime.now(UTC) - timedelta(hours=deleted_kept_h)
    how = Rewriting(
        table.name,
        table.folder,
        table.schema,
        table.key,
        # What ends below the line need not even be read.
        {
            bucket: tuple(
                str(table.folder / file.path)
                for file, last_seq in there.get(bucket, ())
                if last_seq >= line
            )
            for bucket in touched
        },
        line,
        int(forget_before.timestamp() * 1_000_000),
    )
    # With the line, a bucket without changes has to be looked at too.
    beside = [(b, "[]") for b in sorted(touched - changes.buckets) if how.files[b]]
    spark = changes.cells.context
    changed = changes.cells.union(spark.parallelize(beside, 1))
    tasks = max(1, min(len(touched), _TASKS_A_CORE * spark.defaultParallelism))
    commit_files(
        table.delta,
        added=changed.groupByKey(tasks).flatMap(how.task).collect(),
        removed=[file for bucket in touched for file, _ in there.get(bucket, ())],
        properties=table.commit_properties(
            app_id, version, changes.emptied_at, rewriting(table.delta)
        ),
    )


def _cells(collapsed: Collapsed, bucket_count: int) -> Iterator[Cell]:
    buckets: dict[int, list[Any]] = {}
    for known_by, last in collapsed.rows.items():
        change = [last.seq, last.at_us, last.deleted, last.row]
        buckets.setdefault(bucket_of(known_by, bucket_count), []).append(change)
    summary = {
        "buckets": sorted(buckets),
        "columns": collapsed.columns,
        "emptied_at": collapsed.emptied_at,
        "key": collapsed.key,
    }
    for bucket, content in {SUMMARY: summary, **buckets}.items():
        yield bucket, json.dumps(content)


def _is_summary(cell: Cell) -> bool:
    return cell[0] == SUMMARY


def _is_bucket(cell: Cell) -> bool:
    return cell[0] != SUMMARY


def _lasts(contents: Iterable[str]) -> Iterator[Last]:
    for content in contents:
        for seq, at_us, deleted, row in json.loads(content):
            yield Last(seq, at_us, deleted, row)


def _files(table: CurrentTable) -> dict[int, list[tuple[TableFile, int]]]:
    """The files of each bucket, each with the highest seq in it."""
    there: dict[int, list[tuple[TableFile, int]]] = {}
    for action in pa.table(table.delta.get_add_actions(flatten=True)).to_pylist():
        bucket, last_seq = action[f"partition.{BUCKET}"], action.get(f"max.{SEQ}")
        file = TableFile(action["path"], action["size_bytes"], {BUCKET: str(bucket)})
        there.setdefault(bucket, []).append((file, 2**63 - 1 if last_seq is None else last_seq))
    return there


def _without(table: pa.Table, positions: pa.ChunkedArray) -> pa.Table:
    """The table without the rows at these positions."""
    if not len(positions):
        return table
    every = pa.array(range(table.num_rows), pa.int64())
    return table.filter(pc.invert(pc.is_in(every, positions.combine_chunks())))
