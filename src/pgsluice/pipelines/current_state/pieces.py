"""Collapse the events of a micro-batch in parallel tasks, which hand over their results in files.

The tasks read the Parquet files that the table of events has received anyway, so neither Java nor the driver holds the
events. Each task collapses one row group, and writes for each table a *piece*: an Arrow file with a record batch for
each part of the table, by the hash of the row.
"""

from __future__ import annotations

import gc
import uuid
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pgsluice.errors import ChangeError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.current_tables import DELETED, ROW, lake_column
from pgsluice.lake.names import TableName
from pgsluice.lake.storage import Folder, open_output, open_path
from pgsluice.pipelines.current_state.collapse import (
    Collapsed,
    Portion,
    Taken,
    collapse,
    last_changes,
    portion_of,
    renamed,
    replayed,
    together,
)
from pgsluice.pipelines.current_state.columnar import portion_of_json
from pgsluice.pipelines.current_state.failures import errors_of
from pgsluice.pipelines.current_state.reading import COLUMNS, changes_of, events_in

PART_ROWS = 250_000  # a task that merges a part holds a few times as many rows
# Decoded, they take 100 MB.
_EVENTS_AT_ONCE = 50_000
_CODEC = pa.ipc.IpcWriteOptions(compression="lz4")

Unit = TypeVar("Unit")
Result = TypeVar("Result")
# Calls a function for each unit, in parallel tasks or one after the other; returns the results in order.
Tasks = Callable[[Callable[[Unit], Result], Sequence[Unit]], list[Result]]


@dataclass(frozen=True)
class Update:
    """An update of current-state tables.

    Attributes:
        app_id: Id of the writing application.
        version: Increases with each update of this application; the first may be 0.
        scratch: Folder for the rows of parts, existing, shared by all machines.
        tasks: Runs the tasks.
        deleted_kept_h: Minimum age of tombstones in hours before removal.
        rejects: Address of the table that receives values that do not fit, which become null; None to raise instead.
    """

    app_id: str
    version: int
    scratch: Folder
    tasks: Tasks[Any, Any]
    deleted_kept_h: float
    rejects: Folder | IcebergAddress | None = None


def in_turn(act: Callable[[Unit], Result], units: Sequence[Unit]) -> list[Result]:
    """Run tasks one after the other in this process."""
    return list(map(act, units))


@dataclass(frozen=True, slots=True)
class PieceBatch:
    """A record batch in an Arrow file."""

    path: Folder
    index: int

    def read(self) -> pa.Table:
        """Return its rows."""
        source = open_path(self.path)
        if isinstance(self.path, Path):
            source = pa.memory_map(source)
        with pa.ipc.open_file(source) as file:
            return pa.Table.from_batches([file.get_batch(self.index)])


@dataclass(frozen=True, slots=True)
class Piece:
    """The changes of one table that one task has read.

    Attributes:
        table: The table.
        effect: The effect of the changes, with no rows; None if there is an error.
        batches: The rows by part.
        part_count: Number of parts of the table.
        row_count, size_bytes: Number and uncompressed size of the rows.
        takes: Without a key: True if rows are removed.
        key_range: Lowest and highest value of the first column of the key; None if they are not integers.
        error: Error of changes that cannot be read.
    """

    table: TableName
    effect: Portion | None
    batches: Mapping[int, PieceBatch]
    part_count: int = 1
    row_count: int = 0
    size_bytes: int = 0
    takes: bool = False
    key_range: tuple[int, int] | None = None
    error: ChangeError | None = None


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """Parameters with which tasks read a table's events.

    Attributes:
        kinds: Lake types of the columns, at least of those of the key.
        names: By shape, the names in the lake of the columns whose name differs in events of this shape; None for those
            that the lake does not have.
        documents: Columns of JSON, whose values stay JSON text.
    """

    kinds: Mapping[str, pa.DataType]
    names: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    documents: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Collapsing:
    """The parameters of a task that collapses events.

    Attributes:
        plans: The tables to collapse.
        applied: The last micro-batch that a table already has; -1 for other tables.
        folder: Folder for the pieces, existing, shared by all machines.
        buckets: Number of buckets of tables, which is that of their parts.
        part_count: Number of parts of every other table.
        joined: The tables by their joined names, see `reading.Sources`.
    """

    plans: Mapping[TableName, ReadingPlan]
    applied: Mapping[TableName, int]
    folder: Folder
    buckets: Mapping[TableName, int] = field(default_factory=dict)
    part_count: int = 1
    joined: Mapping[str, TableName] = field(default_factory=dict)

    def task(self, unit: tuple[int, Folder, int]) -> list[Piece]:
        """Collapse the events in one row group of a file of a micro-batch."""
        batch_id, path, number = unit
        tables = {table for table in self.plans if self.applied.get(table, -1) < batch_id}
        pieces: list[Piece] = []
        with pq.ParquetFile(open_path(path)) as file, _without_collector():
            batches = file.iter_batches(_EVENTS_AT_ONCE, [number], list(COLUMNS))
            for batch in batches:
                pieces += self._pieces(batch, tables)
        return pieces

    def _pieces(self, batch: pa.RecordBatch, tables: Collection[TableName]) -> Iterator[Piece]:
        for table, shape, events in events_in(batch, tables, self.joined):
            try:
                with errors_of(table):
                    piece = self._piece_of(table, shape, events)
            except ChangeError as error:
                piece = Piece(table, None, {}, error=error)
            if piece is not None:
                yield piece

    def _piece_of(self, table: TableName, shape: str, events: pa.RecordBatch) -> Piece | None:
        plan = self.plans[table]
        kinds, names, documents = plan.kinds, plan.names.get(shape), plan.documents
        if names:
            moved = {name: kinds.get(now or "", pa.string()) for name, now in names.items()}
            kinds = {**kinds, **moved}
            documents = documents - names.keys() | {
                n for n, now in names.items() if now in documents
            }
        portion = portion_of_json(table, events, kinds, documents)
        if portion is None:
            changes = list(changes_of(table, events, documents))
            if not changes:
                return None
            portion = portion_of(changes, kinds)
        return self._piece(renamed(portion, names) if names else portion)

    def _piece(self, portion: Portion) -> Piece:
        table, rows = portion.table, portion.rows
        effect = replace(portion, rows=rows.schema.empty_table())
        count = self.buckets.get(table, self.part_count)
        if not rows.num_rows:
            return Piece(table, effect, {}, count)
        return Piece(
            table,
            effect,
            write_parts(self.folder, rows, count),
            part_count=count,
            row_count=rows.num_rows,
            size_bytes=rows.nbytes,
            takes=not portion.key and bool(pc.any(rows[DELETED]).as_py()),
            key_range=_range(rows, tuple(map(lake_column, portion.key or ()))),
        )


def collapse_files(
    files: Mapping[int, Sequence[Folder]], how: Collapsing, tasks: Tasks[Any, Any]
) -> dict[TableName, list[Piece]]:
    """Collapse the events in Parquet files.

    Args:
        files: Parquet files with events, by micro-batch.
        how: Parameters of the tasks.
        tasks: Runs the tasks.

    Returns:
        The pieces of each table with changes.
    """
    found: dict[TableName, list[Piece]] = {}
    units = [(batch_id, *one) for batch_id, paths in files.items() for one in row_groups(paths)]
    for pieces in tasks(how.task, units):
        for piece in pieces:
            found.setdefault(piece.table, []).append(piece)
    return found


def row_groups(paths: Iterable[Folder]) -> list[tuple[Folder, int]]:
    """Return the row groups of Parquet files, each as file and number."""
    return [
        (path, n) for path in paths for n in range(pq.read_metadata(open_path(path)).num_row_groups)
    ]


def collapsed(pieces: Sequence[Piece]) -> Collapsed:
    """Return the combined effect of pieces of one table, one or more.

    Raises:
        ChangeError: The changes of a piece cannot be read, or the key changed among them.
    """
    whole = collapse(effects(pieces))
    parts: list[tuple[pa.Table, list[Taken]]] = []
    for number in sorted({number for piece in pieces for number in piece.batches}):
        rows = [piece.batches[number].read() for piece in pieces if number in piece.batches]
        if whole.key:
            parts.append((last_changes(rows, whole.emptied_at), []))
        else:
            parts.append(replayed(rows, whole.emptied_at))
    if not parts:
        return whole
    return replace(
        whole,
        rows=together([rows for rows, _ in parts]),
        taken=[one for _, taken in parts for one in taken],
    )


def effects(pieces: Iterable[Piece]) -> list[Portion]:
    """Return the effects of pieces, without rows.

    Raises:
        ChangeError: The changes of a piece cannot be read.
    """
    found = []
    for piece in pieces:
        if piece.effect is None:
            raise piece.error or ChangeError(f"the changes of {piece.table} cannot be read")
        found.append(piece.effect)
    return found


def write_parts(
    folder: Folder, rows: pa.Table, count: int, known_by: Sequence[str] | None = None
) -> dict[int, PieceBatch]:
    """Write rows to a new Arrow file, with a record batch for each part; see `parts_of`."""
    parts, name = parts_of(rows, count, known_by), f"{uuid.uuid4()}.arrow"
    with (
        open_output(folder, name) as output,
        pa.ipc.new_file(output, rows.schema, options=_CODEC) as file,
    ):
        for part in parts.values():
            file.write_table(part.combine_chunks())
    return {number: PieceBatch(folder / name, index) for index, number in enumerate(parts)}


def parts_of(
    rows: pa.Table, count: int, known_by: Sequence[str] | None = None
) -> dict[int, pa.Table]:
    """Divide rows into parts by the hash of their identities.

    Args:
        rows: The rows.
        count: Number of parts.
        known_by: Identity of each row as text; None for the column `ROW`.
    """
    if count == 1:
        return {0: rows}
    places: dict[int, list[int]] = {}
    for place, identity in enumerate(rows[ROW].to_pylist() if known_by is None else known_by):
        places.setdefault(part_of(identity, count), []).append(place)
    return {number: rows.take(pa.array(of, pa.int64())) for number, of in places.items()}


def part_of(known_by: str, count: int) -> int:
    """Return the part of a row, equal in every process."""
    return zlib.crc32(known_by.encode()) % count


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable cyclic garbage collection, which takes an eighth of the time of decoding and finds nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _range(rows: pa.Table, key: tuple[str, ...]) -> tuple[int, int] | None:
    if not key or not pa.types.is_integer(rows.schema.field(key[0]).type):
        return None
    found = pc.min_max(rows[key[0]]).as_py()
    return found["min"], found["max"]
