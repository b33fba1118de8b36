"""Conversion of event rows into changes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.lake.names import TableName
from pgsluice.pipelines.current_state.envelope import Change, read_change, table_of

# The columns that read_change needs; the time is converted to microseconds.
COLUMNS = ("ev_id", "ev_time", "ev_type", "ev_data", "ev_extra1", "ev_extra2")
# Type of the events that mark the begin and end of a snapshot.
SNAPSHOT_EVENT = "sluice.snapshot"
Event = tuple[int, int, str | None, str | None, str | None, str | None]
# The types of all events that read_change accepts or refuses; it ignores all others.
_OF_CHANGES = r'^([crudtRIUD]$|[IUD]:|\{"op":)'


@dataclass(frozen=True, slots=True)
class Sources:
    """Tables with changes among events.

    Attributes:
        names: Those that the events name.
        joined: Those that events of `pgq.logutriga` or `pgq.sqltriga` name as `schema.table`, unquoted.
    """

    names: frozenset[TableName] = frozenset()
    joined: frozenset[str] = frozenset()

    def __or__(self, other: Sources) -> Sources:
        return Sources(self.names | other.names, self.joined | other.joined)


def tables_in(events: pa.RecordBatch) -> Sources:
    """Return the tables with changes among events."""
    found = {source for source, _ in _by_source(events)}
    joined = frozenset(source for source in found if isinstance(source, str))
    return Sources(frozenset(name for name in found if isinstance(name, TableName)), joined)


@dataclass(frozen=True, slots=True)
class Mark:
    """The begin or end of a snapshot.

    Attributes:
        table: Its table.
        at_us: Time of the event, microseconds since 1970 in UTC.
        token: Identifies the snapshot.
        begins: True for the begin.
    """

    table: TableName
    at_us: int
    token: str
    begins: bool


def mark_of(event: Event) -> Mark | None:
    """Return the mark that an event is; None if it is an event of an application with the same type."""
    _, at_us, kind, data, name, _ = event
    table = TableName.of(name or "")
    try:
        mark = json.loads(data or "")
        token, state = mark["token"], mark["state"]
    except (ValueError, KeyError, TypeError):
        return None
    if kind != SNAPSHOT_EVENT or table is None:
        return None
    if not isinstance(token, str) or state not in ("began", "ended"):
        return None
    return Mark(table, at_us, token, state == "began")


def marks_in(events: pa.RecordBatch) -> list[Event]:
    """Return the marks of snapshots among events."""
    marks = events.filter(pc.equal(events.column("ev_type"), SNAPSHOT_EVENT))
    return list(_rows(marks.filter(pc.is_valid(marks.column("ev_extra1")))))


def events_in(
    events: pa.RecordBatch, wanted: Collection[TableName], joined: Mapping[str, TableName]
) -> Iterator[tuple[TableName, pa.RecordBatch]]:
    """Yield the events of each wanted table.

    Args:
        events: With `COLUMNS`.
        wanted: The tables.
        joined: The tables by their joined names, see `Sources`; others are not read.
    """
    chosen: dict[TableName, pa.Array] = {}
    for source, is_chosen in _by_source(events):
        name = joined.get(source) if isinstance(source, str) else source
        if name is not None and name in wanted:
            others = chosen.get(name)
            chosen[name] = is_chosen if others is None else pc.or_(others, is_chosen)
    for name, is_chosen in chosen.items():
        yield name, events.filter(is_chosen)


def changes_of(table: TableName, events: pa.RecordBatch) -> Iterator[Change]:
    """Yield the changes among events of a table, ignoring other events.

    Args:
        table: The table.
        events: With `COLUMNS`.

    Raises:
        ChangeError: See `read_change`.
    """
    for event in _rows(events):
        change = read_change(table, *event)
        if change is not None:
            yield change


def _by_source(events: pa.RecordBatch) -> Iterator[tuple[TableName | str, pa.Array]]:
    """Yield the tables that events may be changes of, each with a mask of its events; a table may occur repeatedly."""
    types, names = events.column("ev_type"), events.column("ev_extra1")
    may_be = pc.fill_null(pc.match_substring_regex(types, _OF_CHANGES), False)
    for ev_type in pc.unique(types.filter(may_be)).to_pylist():
        is_of_type = pc.fill_null(pc.equal(types, ev_type), False)
        for name in pc.unique(names.filter(is_of_type)).to_pylist():
            source = table_of(ev_type, name)
            if source is not None:
                yield source, pc.fill_null(pc.and_(is_of_type, pc.equal(names, name)), False)


def _rows(events: pa.RecordBatch) -> Iterator[Event]:
    columns = [events.column(column) for column in COLUMNS]
    columns[1] = columns[1].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return zip(*(column.to_pylist() for column in columns), strict=True)
