"""Apply changes to current-state tables by rewriting their files, in parallel tasks with bounded memory.

A table with buckets is partitioned by the hash of the key. One task per changed bucket reads it, merges its changes
and writes a new file; the driver then replaces the files in one commit. The cost depends on the changed buckets
instead of the size of the table.

Other tables are rewritten if the driver cannot hold the changes. Tasks first divide the rows of the files that may
have to change into parts by the same hash; then each part is merged and written as a bucket is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq

from pgsluice.lake.copy_on_write import numbered, without
from pgsluice.lake.current_tables import BUCKET, CHANGED_AT, DELETED, ROW, SEQ
from pgsluice.lake.files import LakeFile, write_partition
from pgsluice.lake.mutable import RowFile
from pgsluice.lake.names import TableName
from pgsluice.lake.storage import Folder, dataset, open_path
from pgsluice.pipelines.current_state.bad_values import RejectedValue, nulled, store_rejects
from pgsluice.pipelines.current_state.collapse import (
    NEVER,
    emptied,
    last_changes,
    replayed,
    text_of_identity,
)
from pgsluice.pipelines.current_state.columns import identities_of
from pgsluice.pipelines.current_state.failures import errors_of
from pgsluice.pipelines.current_state.merge import gone
from pgsluice.pipelines.current_state.pieces import (
    PART_ROWS,
    Piece,
    PieceBatch,
    Update,
    effects,
    parts_of,
    row_groups,
    write_parts,
)
from pgsluice.pipelines.current_state.table import CurrentTable, matched_by, rows_of

# No column of a table has a name with a space.
_OLD, _NEW, _OF_NEW = "old at", "new at", " of new"


def combine(
    existing: pa.Table, rows: pa.Table, key: tuple[str, ...], emptied_at: int = NEVER
) -> pa.Table:
    """Return the rows of a current-state table after changes.

    Args:
        existing: Rows before, one per key.
        rows: Changes, one per key; one that is not newer than the existing row is ignored.
        key: Columns that identify a row.
        emptied_at: Rows with a lower seq are removed.
    """
    existing = existing.filter(pc.field(SEQ) >= emptied_at)
    rows = rows.filter(pc.field(SEQ) >= emptied_at)
    names = [*key, SEQ]
    both = numbered(existing.select(names), key, _OLD).join(
        numbered(rows.select(names), key, _NEW),
        keys=list(key),
        join_type="inner",
        right_suffix=_OF_NEW,
    )
    is_newer = pc.greater(both[SEQ + _OF_NEW], both[SEQ])
    old, new = both[_OLD].filter(is_newer), both[_NEW].filter(pc.invert(is_newer))
    return pa.concat_tables(
        [without(existing, old.combine_chunks()), without(rows, new.combine_chunks())]
    )


@dataclass(frozen=True)
class TablePart:
    """Part of a table to rewrite.

    Attributes:
        number: Its number; the bucket in a table with buckets.
        changes: The changes of this part.
        files: Its files, relative to the folder of the table, in a table with buckets.
        rows: Its rows, in a table without buckets.
    """

    number: int
    changes: tuple[PieceBatch, ...]
    files: tuple[str, ...] = ()
    rows: tuple[PieceBatch, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rewriting:
    """The parameters of a task that rewrites parts of a table.

    Attributes:
        name, folder, schema, bucket_count: Properties of the table.
        keeps_bucket: True if its files contain the column of the bucket.
        key: Columns of its key in the lake.
        part_count: Number of parts, in a table without buckets.
        divides_changes: True if the table has more parts than its changes.
        emptied_at: Rows with a lower seq are removed.
        forget_before_us: Tombstones from before this time are removed.
        scratch: Folder for the rows of parts.
        nulls: True to replace values that do not fit by null.
    """

    name: TableName
    folder: Folder
    schema: pa.Schema
    key: tuple[str, ...]
    bucket_count: int
    keeps_bucket: bool
    part_count: int
    divides_changes: bool
    emptied_at: int
    forget_before_us: int
    scratch: Folder
    nulls: bool

    def divide(self, row_group: tuple[Folder, int]) -> dict[int, PieceBatch]:
        """Divide the rows in one row group of a file into parts."""
        with errors_of(self.name):
            return self._divided(row_group)

    def _divided(self, row_group: tuple[Folder, int]) -> dict[int, PieceBatch]:
        path, number = row_group
        with pq.ParquetFile(open_path(path)) as file:
            batches = [pa.Table.from_batches([b]) for b in file.iter_batches(row_groups=[number])]
        if not batches:
            return {}
        rows = pa.concat_tables(batches)
        for field in self.schema:
            if field.name not in rows.column_names:  # added later
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        rows = rows.select(self.schema.names).cast(self.schema)
        if not self.key:
            return write_parts(self.scratch, rows, self.part_count)
        ends = rows[ROW].to_pylist() if ROW in rows.column_names else [""] * rows.num_rows
        known_by = map(text_of_identity, identities_of(rows, self.key, ends))
        return write_parts(self.scratch, rows, self.part_count, list(known_by))

    def rewrite(self, part: TablePart) -> tuple[list[LakeFile], list[RejectedValue]]:
        """Rewrite a part with its changes; return its file, none if no row is left, and the values that do not fit."""
        with errors_of(self.name):
            return self._rewritten(part)

    def _rewritten(self, part: TablePart) -> tuple[list[LakeFile], list[RejectedValue]]:
        changes = [batch.read() for batch in part.changes]
        if self.divides_changes:
            parted = (parts_of(rows, self.part_count).get(part.number) for rows in changes)
            changes = [rows for rows in parted if rows is not None]
        existing = self.schema.empty_table()
        if part.files:
            # Columns of the schema that a file lacks are null.
            existing = dataset(self.folder, part.files, self.schema).to_table()
        elif part.rows:
            existing = pa.concat_tables(batch.read() for batch in part.rows).select(
                self.schema.names
            )
        rejects: list[RejectedValue] = []
        combined = self._combined(existing, changes, rejects) if changes else self._left(existing)
        forget_before = pa.scalar(self.forget_before_us, self.schema.field(CHANGED_AT).type)
        combined = combined.filter(~(pc.field(DELETED) & (pc.field(CHANGED_AT) < forget_before)))
        if not combined.num_rows:
            return [], rejects
        partition = {BUCKET: str(part.number)} if self.bucket_count else {}
        if self.keeps_bucket:
            bucket = pa.repeat(pa.scalar(part.number, pa.int32()), combined.num_rows)
            combined = combined.append_column(BUCKET, bucket)
        file = write_partition(self.folder, combined, partition, part=part.number)
        return [file], rejects

    def _combined(
        self, existing: pa.Table, changes: Sequence[pa.Table], rejects: list[RejectedValue]
    ) -> pa.Table:
        if self.key:
            rows = self._rows(last_changes(changes, self.emptied_at), rejects)
            return combine(existing, rows, matched_by(self.key, self.schema), self.emptied_at)
        left, taken = replayed(changes, self.emptied_at)
        existing = self._left(existing)
        removed = pa.array(gone(existing, taken, self.emptied_at), pa.int64())
        existing = existing.filter(pc.invert(pc.is_in(existing[SEQ], removed)))
        return pa.concat_tables([existing, self._rows(left, rejects)])

    def _rows(self, changes: pa.Table, rejects: list[RejectedValue]) -> pa.Table:
        if self.nulls:
            changes, found = nulled(changes, self.name, self.key, self.schema)
            rejects += found
        return rows_of(self.name, self.schema, changes, self.key)

    def _left(self, existing: pa.Table) -> pa.Table:
        return existing.filter(pc.field(SEQ) >= self.emptied_at)


def rewrite(table: CurrentTable, pieces: Sequence[Piece], update: Update) -> None:
    """Rewrite the changed parts of a table, and replace their files in one commit.

    Args:
        table: Must have all columns of the changes.
        pieces: The changes, divided into its buckets if it has any.
        update: The update.

    Raises:
        ChangeError: A value does not fit its column.
    """
    emptied_at = emptied(effects(pieces))
    draws_line = emptied_at > table.emptied_at
    line = max(emptied_at, table.emptied_at)
    changes: dict[int, list[PieceBatch]] = {}
    for piece in pieces:
        for number, batch in piece.batches.items():
            changes.setdefault(number, []).append(batch)
    if not changes and not draws_line:
        return
    touched = [
        file
        for file in _files(table)
        if draws_line
        or (file.bucket in changes if table.bucket_count else _overlaps(file, table.key, pieces))
    ]
    # Skip files whose rows are all removed by the truncation.
    kept = [file for file in touched if file.last_seq >= line]
    row_count = sum(file.row_count for file in kept)
    of_changes = max(piece.part_count for piece in pieces)
    part_count = of_changes * (1 + row_count // (of_changes * PART_ROWS))
    forget_before = datetime.now(UTC) - timedelta(hours=update.deleted_kept_h)
    how = Rewriting(
        name=table.name,
        folder=table.folder,
        schema=table.schema,
        key=table.key_columns,
        bucket_count=table.bucket_count,
        keeps_bucket=bool(table.bucket_count) and table.stored.keeps_partition_columns,
        part_count=part_count,
        divides_changes=part_count > of_changes and not table.bucket_count,
        emptied_at=line,
        forget_before_us=int(forget_before.timestamp() * 1_000_000),
        scratch=update.scratch,
        nulls=update.rejects is not None,
    )
    files: dict[int, list[str]] = {}
    rows: dict[int, list[PieceBatch]] = {}
    if table.bucket_count:
        for file in kept:
            files.setdefault(file.bucket, []).append(file.file.path)
        numbers = changes.keys() | files.keys()
    else:
        paths = [table.folder / file.file.path for file in kept]
        for divided in update.tasks(how.divide, row_groups(paths)):
            for number, batch in divided.items():
                rows.setdefault(number, []).append(batch)
        numbers = rows.keys() | {n for n in range(part_count) if n % of_changes in changes}
    parts = [
        TablePart(
            number,
            tuple(changes.get(number if table.bucket_count else number % of_changes, ())),
            tuple(files.get(number, ())),
            tuple(rows.get(number, ())),
        )
        for number in sorted(numbers)
    ]
    rewritten = update.tasks(how.rewrite, parts)
    found = [reject for _, rejects_of_part in rewritten for reject in rejects_of_part]
    if update.rejects is not None:
        store_rejects(
            update.rejects, table.name, found, app_id=update.app_id, version=update.version
        )
    table.stored.replace(
        [file for files_of_part, _ in rewritten for file in files_of_part],
        [file.file for file in touched],
        table.versions(update.app_id, update.version, emptied_at),
    )


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a current-state table.

    Attributes:
        file: The file.
        bucket: Its bucket; 0 without buckets.
        row_count: Number of rows; 0 if not recorded.
        last_seq: Its highest seq.
        key_range: Lowest and highest value of the first column of the key; None if not recorded.
    """

    file: RowFile
    bucket: int
    row_count: int
    last_seq: int
    key_range: tuple[Any, Any] | None


def _files(table: CurrentTable) -> list[_File]:
    key = table.key_columns[:1]
    found = []
    for file in table.stored.files([SEQ, *key]):
        keys = file.ranges[key[0]] if key else None
        last_seq = file.ranges[SEQ].high
        found.append(
            _File(
                file,
                int(file.partition.get(BUCKET) or 0),
                file.row_count,
                2**63 - 1 if last_seq is None else last_seq,
                None
                if keys is None or keys.low is None or keys.high is None
                else (keys.low, keys.high),
            )
        )
    return found


def _overlaps(file: _File, key: tuple[str, ...], pieces: Iterable[Piece]) -> bool:
    """False if no change can be of a row in the file."""
    if not key:
        return any(piece.takes for piece in pieces)
    if file.key_range is None or not isinstance(file.key_range[0], int):
        return True
    lowest, highest = file.key_range
    return any(
        piece.key_range is None or (piece.key_range[0] <= highest and piece.key_range[1] >= lowest)
        for piece in pieces
        if piece.row_count
    )
