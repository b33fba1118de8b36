"""Reduce changes to the last change of each row; idempotent, and independent of their order.

Changes of a row are ordered by event id: a second writer waits for the first to commit, by the row lock, and takes its
event id after that. Transaction ids are not in that order, as a transaction gets its id at its first write and may
change this row much later.

A table with a key is a last-write-wins register per key: a change is (seq, row or tombstone), and the highest seq wins.
Merging is commutative and idempotent, which requires tombstones. An update of the key is two changes, of two keys. A
truncation sets `emptied_at` for all keys: rows with a lower seq are removed.

A table without a key has no such registers. Equal rows are indistinguishable, so a delete removes the newest earlier
row that equals it. A snapshot of such a table locks out writers and holds all rows, so it starts with a truncation.

The reduction has two steps, so that any number of changes needs little memory: `portion_of` reduces the changes that
one task reads, and `last_changes` or `replayed` the portions of all tasks, for the rows of one part of the table at a
time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.errors import ChangeError, SchemaChangeError
from pgsluice.lake.current_tables import CHANGED_AT, DELETED, ROW, SEQ, lake_column
from pgsluice.lake.names import TableName
from pgsluice.pipelines.current_state.columns import identity_of, text_of
from pgsluice.pipelines.current_state.envelope import Change, Row, Value

NEVER = -1
_PLAIN = (pa.int64(), pa.bool_(), pa.string(), pa.null())

Identity = tuple[object, ...]
Taken = tuple[str, int]


# Not frozen, as that doubles the time of creation, once per event.
@dataclass(slots=True)
class Last:
    """The last change of a row.

    Attributes:
        seq: Id of the change's event.
        at_us: Time of the event.
        deleted: True if the row was deleted; then `row` holds only its key.
        row: Its columns.
    """

    seq: int
    at_us: int
    deleted: bool
    row: Row


@dataclass(frozen=True, slots=True)
class Portion:
    """The effect of some changes of one table.

    Attributes:
        table: The table.
        key: Columns of its key; empty if it has none, None if no change shows it.
        rows: With a key the last change of each row, without one each insertion and removal of a row: `SEQ`,
            `CHANGED_AT` in microseconds, `DELETED`, `ROW`, and the columns of the rows, with their names in the lake,
            as integers, booleans or text. `ROW` is the row's identity as text, or without a key its `row_hash`.
        columns: All columns of the rows by their names in PostgreSQL, in the order of their first appearance.
        truncated_at: Seq of the last truncation; `NEVER` if none.
        snapshots: Without a key: the lowest seq of each snapshot, by transaction id.
    """

    table: TableName
    key: tuple[str, ...] | None
    rows: pa.Table
    columns: tuple[str, ...]
    truncated_at: int = NEVER
    snapshots: Mapping[int | None, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Collapsed:
    """The combined effect of changes of one table.

    Attributes:
        table: The table.
        key: Columns of its key; empty if it has none.
        rows: The last change of each row, with the columns of `Portion.rows`.
        emptied_at: Rows with a lower seq are removed; `NEVER` if none.
        taken: Without a key: rows to remove that precede these changes, as (`row_hash`, seq).
        columns: The columns of its rows by their names in PostgreSQL, in the order of their first appearance.
    """

    table: TableName
    key: tuple[str, ...]
    rows: pa.Table
    emptied_at: int = NEVER
    taken: Sequence[Taken] = ()
    columns: tuple[str, ...] = ()

    def above(self, line: int) -> Collapsed:
        """Return the changes at or above an earlier `emptied_at`."""
        if self.emptied_at >= line:
            return self
        rows = self.rows.filter(pc.field(SEQ) >= line)
        taken = [(hashed, seq) for hashed, seq in self.taken if seq >= line]
        return Collapsed(self.table, self.key, rows, line, taken, self.columns)


def portion_of(changes: Sequence[Change], kinds: Mapping[str, pa.DataType]) -> Portion:
    """Return the effect of changes.

    Args:
        changes: Of one table, one or more, in any order.
        kinds: Lake types, at least of the key's columns.

    Raises:
        ChangeError: The changes have different keys, or a row lacks a column of its key.
    """
    table = changes[0].table
    key = common_key(table, {change.key for change in changes if change.op != "t"})
    truncated_at = max((change.seq for change in changes if change.op == "t"), default=NEVER)
    snapshots: dict[int | None, int] = {}
    if key:
        lasts = _by_key(changes, key, kinds)
        known_by = list(map(text_of_identity, lasts))
        rows = list(lasts.values())
    else:
        for change in changes:
            if change.op == "r":
                before = snapshots.get(change.txid, change.seq)
                snapshots[change.txid] = min(before, change.seq)
        rows, known_by = [], []
        for last, hashed in _insertions_and_removals(changes):
            rows.append(last)
            known_by.append(hashed)
    contents = [last.row for last in rows]
    names = dict.fromkeys(name for shape in dict.fromkeys(map(tuple, contents)) for name in shape)
    columns = {
        SEQ: pa.array([last.seq for last in rows], pa.int64()),
        CHANGED_AT: pa.array([last.at_us for last in rows], pa.int64()),
        DELETED: pa.array([last.deleted for last in rows], pa.bool_()),
        ROW: pa.array(known_by, pa.string()),
    }
    columns |= {lake_column(n): _column([row.get(n) for row in contents]) for n in names}
    return Portion(table, key, pa.table(columns), tuple(names), truncated_at, snapshots)


def renamed(portion: Portion, names: Mapping[str, str | None]) -> Portion:
    """Return a portion with other names of some columns; those without a new name are left out, unless of the key."""
    now = {name: names.get(name, name) for name in portion.columns}
    kept = {name: new for name, new in now.items() if new is not None}
    rows = portion.rows.select([SEQ, CHANGED_AT, DELETED, ROW, *map(lake_column, kept)])
    rows = rows.rename_columns([SEQ, CHANGED_AT, DELETED, ROW, *map(lake_column, kept.values())])
    key = (
        None
        if portion.key is None
        else tuple(names.get(name, name) or name for name in portion.key)
    )
    return replace(portion, key=key, rows=rows, columns=tuple(kept.values()))


def collapse(portions: Sequence[Portion]) -> Collapsed:
    """Return the combined effect of portions of one table, one or more.

    Raises:
        SchemaChangeError: The portions have different keys.
    """
    table = portions[0].table
    key = common_key(table, {portion.key for portion in portions if portion.key is not None}) or ()
    emptied_at = emptied(portions)
    rows = [portion.rows for portion in portions]
    columns = tuple(dict.fromkeys(name for portion in portions for name in portion.columns))
    if key:
        return Collapsed(table, key, last_changes(rows, emptied_at), emptied_at, (), columns)
    left, taken = replayed(rows, emptied_at)
    return Collapsed(table, key, left, emptied_at, taken, columns)


def emptied(portions: Iterable[Portion]) -> int:
    """Return the `emptied_at` of all portions of one table."""
    snapshots: dict[int | None, int] = {}
    line = NEVER
    for portion in portions:
        line = max(line, portion.truncated_at)
        for txid, seq in portion.snapshots.items():
            snapshots[txid] = min(seq, snapshots.get(txid, seq))
    return max(line, *snapshots.values(), NEVER)


def common_key(table: TableName, keys: Iterable[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the only key; None if there is none.

    Raises:
        SchemaChangeError: The keys differ.
    """
    found = sorted(keys)
    if len(found) > 1:
        raise another_key(table, found[0], found[1])
    return found[0] if found else None


def last_changes(portions: Sequence[pa.Table], emptied_at: int) -> pa.Table:
    """Return the last change of each row of a table with a key, of portions with changes of the same part."""
    rows = together(portions).filter(pc.field(SEQ) >= emptied_at)
    if len(portions) < 2 or not rows.num_rows:
        return rows
    codes = rows[ROW].combine_chunks().dictionary_encode().indices
    # An update of a key to an equal one in another notation deletes and inserts the row with the same seq.
    orders = pa.table([codes, rows[SEQ], pc.invert(rows[DELETED])], ["code", "seq", "is_there"])
    order = pc.sort_indices(orders, [(name, "ascending") for name in orders.column_names])
    codes = codes.take(order)
    is_last = pa.concat_arrays(
        [pc.not_equal(codes.slice(1), codes.slice(0, len(codes) - 1)), pa.array([True])]
    )
    places = order.filter(is_last)
    # In the order of the log, which often is that of the keys, for the ranges of row groups.
    return rows.take(places.take(pc.sort_indices(places)))


def replayed(portions: Sequence[pa.Table], emptied_at: int) -> tuple[pa.Table, list[Taken]]:
    """Apply insertions and removals of a table without a key in order.

    Args:
        portions: Portions that hold all changes of their rows.
        emptied_at: Earlier changes are ignored.

    Returns:
        The rows left; and the removals of rows that precede these changes.
    """
    rows = together(portions).filter(pc.field(SEQ) >= emptied_at)
    # An update removes the row before it inserts it.
    rows = rows.sort_by([(SEQ, "ascending"), (DELETED, "descending")])
    present: dict[str, list[int]] = {}
    left: dict[int, None] = {}
    taken: list[Taken] = []
    columns = (rows[name].to_pylist() for name in (SEQ, DELETED, ROW))
    for place, (seq, removes, hashed) in enumerate(zip(*columns, strict=True)):
        if not removes:
            left[place] = None
            present.setdefault(hashed, []).append(place)
        elif present.get(hashed):
            del left[present[hashed].pop()]
        else:
            taken.append((hashed, seq))
    return rows.take(pa.array(list(left), pa.int64())), taken


def together(portions: Sequence[pa.Table]) -> pa.Table:
    """Concatenate portions; a column with several types becomes text, and one that a portion lacks is null there."""
    kinds: dict[str, set[pa.DataType]] = {}
    for portion in portions:
        for column in portion.schema:
            kinds.setdefault(column.name, set()).add(column.type)
    common = {}
    for name, found in kinds.items():
        found.discard(pa.null())
        common[name] = found.pop() if len(found) == 1 else pa.string()
    return pa.concat_tables(
        pa.table(
            {
                name: portion[name].cast(kind)
                if name in portion.column_names
                else pa.nulls(portion.num_rows, kind)
                for name, kind in common.items()
            }
        )
        for portion in portions
    )


def identity_for(
    table: TableName, key: tuple[str, ...], kinds: Mapping[str, pa.DataType]
) -> Callable[[Row], Identity]:
    """Return a function that returns the identity of a row with at least the key."""
    columns = [(name, kinds.get(name, pa.string())) for name in key]
    plain = [int if pa.types.is_integer(kind) else None for _, kind in columns]
    parts = [(name, kind, fast) for (name, kind), fast in zip(columns, plain, strict=True)]

    def identity(row: Row) -> Identity:
        try:
            return tuple(
                [
                    row[name] if row[name].__class__ is fast else identity_of(row[name], kind)
                    for name, kind, fast in parts
                ]
            )
        except KeyError as error:
            raise ChangeError(
                f"a change of {table} lacks the key column {error}; include it in the events, and rebuild the table"
            ) from None

    return identity


def text_of_identity(known_by: Identity) -> str:
    """Return the identity of a row as text, equal in every process."""
    return repr([str(part) for part in known_by])


def row_hash(row: Row) -> str:
    """Return a hash that is equal for equal rows; a null column counts as a missing one."""
    texts = {name: text_of(value) for name, value in sorted(row.items()) if value is not None}
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:32]


def another_key(
    table: TableName, before: tuple[str, ...], now: tuple[str, ...]
) -> SchemaChangeError:
    """Return the error for a changed key."""
    return SchemaChangeError(
        f"the key of {table} was ({', '.join(before)}) and is ({', '.join(now)}), so existing rows cannot be "
        "identified; rebuild the table"
    )


def _by_key(
    changes: Iterable[Change], key: tuple[str, ...], kinds: Mapping[str, pa.DataType]
) -> dict[Identity, Last]:
    rows: dict[Identity, Last] = {}
    identity: Callable[[Row], Identity] | None = None

    def keep(known_by: Identity, last: Last) -> None:
        previous = rows.get(known_by)
        # Of two changes with one seq, the row is there; see last_changes.
        if previous is None or (last.seq, not last.deleted) > (previous.seq, not previous.deleted):
            rows[known_by] = last

    for change in changes:
        if identity is None:
            identity = identity_for(change.table, key, kinds)
        before, after = change.before, change.after
        is_now = None if after is None else identity(after)
        if before is not None:
            was = identity(before)
            if was != is_now:
                row = {name: before[name] for name in key}
                keep(was, Last(change.seq, change.at_us, True, row))
        if after is not None and is_now is not None:
            keep(is_now, Last(change.seq, change.at_us, False, after))
    return rows


def _insertions_and_removals(changes: Iterable[Change]) -> Iterator[tuple[Last, str]]:
    for change in changes:
        if change.before is not None:
            yield Last(change.seq, change.at_us, True, {}), row_hash(change.before)
        if change.after is not None:
            yield Last(change.seq, change.at_us, False, change.after), row_hash(change.after)


def _column(values: list[Value]) -> pa.Array:
    """Return values as integers, booleans or text, whichever holds all of them."""
    try:
        array = pa.array(values)
    except (pa.ArrowException, OverflowError):
        array = None
    if array is None or array.type not in _PLAIN:
        return pa.array([text_of(value) for value in values], pa.string())
    return array
