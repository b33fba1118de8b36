"""The last change of each row, whatever order the changes come in and however often.

Which of two changes of one row is the later one? The one with the higher event id: whoever changes a row second
waits for the first to commit, and takes its id after that. The transactions' ids say something else: a transaction
takes its own at its first write, and may change this row much later. So the order is by event id alone.

A table with a key is a register for each key: a change is (seq, row or gone), and the highest seq stays. Registers
can be merged in any order and any number of times, and the result is the same; that needs a trace of what is gone.
An update that changes the key is two changes, of two keys. To truncate is a line through all of them: what is below
`emptied_at` is nothing.

A table without a key has no such registers. Two equal rows are told apart by nothing, so a delete takes away one
that equals it: the newest below it. A snapshot of such a table holds all of its rows while nobody else writes: it
begins with a line too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from pgsluice.errors import SluiceError
from pgsluice.pipelines.current_state.columns import identity_of, text_of
from pgsluice.pipelines.current_state.envelope import Change, Row

NEVER = -1

Identity = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Last:
    """The last change of one row.

    Attributes:
        seq: The change's event id.
        at_us: Its time.
        deleted: Whether the row is gone; `row` has its key alone then.
        row: Its columns.
    """

    seq: int
    at_us: int
    deleted: bool
    row: Row


@dataclass(frozen=True, slots=True)
class Collapsed:
    """What some changes of one table amount to.

    Attributes:
        table: `schema.table`.
        key: The columns of its key; empty when it has none.
        rows: The last change of each row, by what the row is known by: its key, or else the id of the event that
            brought it.
        emptied_at: Everything with a lower seq is gone; `NEVER` for nothing.
        taken: Without a key: rows to take away that came before these changes, as (`row_hash`, seq).
    """

    table: str
    key: tuple[str, ...]
    rows: dict[Identity, Last]
    emptied_at: int = NEVER
    taken: list[tuple[str, int]] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """The columns of its rows, in the order of their first appearance."""
        return list(dict.fromkeys(name for last in self.rows.values() for name in last.row))

    def above(self, line: int) -> Collapsed:
        """The same without what is below a line that was drawn earlier."""
        if self.emptied_at >= line:
            return self
        rows = {known_by: last for known_by, last in self.rows.items() if last.seq >= line}
        taken = [(hashed, seq) for hashed, seq in self.taken if seq >= line]
        return Collapsed(self.table, self.key, rows, line, taken)


def collapse(changes: Iterable[Change], kinds: Mapping[str, pa.DataType]) -> Collapsed:
    """The last change of each row.

    Args:
        changes: Of one table, one or more, in any order.
        kinds: The types in the lake of the key's columns, at least.

    Raises:
        SluiceError: They have different keys, or a row lacks its own.
    """
    changes = list(changes)
    keys = {change.key for change in changes if change.op != "t"}
    if len(keys) > 1:
        first, second, *_ = sorted(keys)
        raise another_key(changes[0].table, first, second)
    key = keys.pop() if keys else ()
    if key:
        return _by_key(changes, key, kinds)
    return _without_key(sorted(changes, key=lambda change: change.seq))


def keep_later(rows: dict[Identity, Last], known_by: Identity, last: Last) -> None:
    """Put a change among the last changes of rows, unless they have a later one of its row."""
    rows[known_by] = later(last, rows[known_by]) if known_by in rows else last


def later(one: Last, other: Last) -> Last:
    """The one that stays."""
    # An update of a key to one that is written otherwise and is equal takes a row away and brings it, at once.
    return max(one, other, key=lambda last: (last.seq, not last.deleted))


def identity_for(
    table: str, key: tuple[str, ...], kinds: Mapping[str, pa.DataType]
) -> Callable[[Row], Identity]:
    """What tells the rows of this table apart, from a row that has at least the key."""
    columns = [(name, kinds.get(name, pa.string())) for name in key]

    def identity(row: Row) -> Identity:
        try:
            return tuple(identity_of(row[name], kind) for name, kind in columns)
        except KeyError as error:
            raise SluiceError(
                f"a change of {table} lacks the column {error} of its key; do not leave it out of the events"
            ) from None

    return identity


def row_hash(row: Row) -> str:
    """The same for rows that are equal; a column that is null counts as one that is not there."""
    texts = {name: text_of(value) for name, value in sorted(row.items()) if value is not None}
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:32]


def another_key(table: str, before: tuple[str, ...], now: tuple[str, ...]) -> SluiceError:
    """What to say when the key of a table changed."""
    return SluiceError(
        f"the key of {table} was ({', '.join(before)}) and is ({', '.join(now)}): its rows are no longer known by "
        "what they were known by; begin again with another lake"
    )


def _by_key(
    changes: list[Change], key: tuple[str, ...], kinds: Mapping[str, pa.DataType]
) -> Collapsed:
    table = changes[0].table
    identity = identity_for(table, key, kinds)
    rows: dict[Identity, Last] = {}
    emptied_at = NEVER

    for change in changes:
        if change.op == "t":
            emptied_at = max(emptied_at, change.seq)
        is_now = None if change.after is None else identity(change.after)
        was = None if change.before is None else identity(change.before)
        if change.before is not None and was is not None and was != is_now:
            row = {name: change.before[name] for name in key}
            keep_later(rows, was, Last(change.seq, change.at_us, True, row))
        if change.after is not None and is_now is not None:
            keep_later(rows, is_now, Last(change.seq, change.at_us, False, change.after))
    return Collapsed(
        table,
        key,
        {known_by: last for known_by, last in rows.items() if last.seq >= emptied_at},
        emptied_at,
    )


def _without_key(changes: list[Change]) -> Collapsed:
    rows: dict[Identity, Last] = {}
    there: dict[str, list[int]] = {}
    taken: list[tuple[str, int]] = []
    emptied_at = NEVER
    snapshots = set()
    for change in changes:
        if change.op == "t" or (change.op == "r" and change.txid not in snapshots):
            snapshots.add(change.txid)
            rows, there, taken, emptied_at = {}, {}, [], change.seq
        if change.before is not None:
            hashed = row_hash(change.before)
            if there.get(hashed):
                del rows[(there[hashed].pop(),)]
            else:
                taken.append((hashed, change.seq))
        if change.after is not None:
            rows[(change.seq,)] = Last(change.seq, change.at_us, False, change.after)
            there.setdefault(row_hash(change.after), []).append(change.seq)
    return Collapsed(changes[0].table, (), rows, emptied_at, taken)
