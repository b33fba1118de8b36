"""Conversion of event rows into changes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.lake.names import TableName
from pgsluice.pipelines.current_state.envelope import Change, read_change, table_of

# The columns that read_change needs; the time is converted to microseconds.
COLUMNS = ("ev_id", "ev_time", "ev_type", "ev_data", "ev_extra1", "ev_extra2")
# Type of the events that mark the begin and end of a snapshot.
SNAPSHOT_EVENT = "sluice.snapshot"
# Type of the events about partitions that were dropped, detached or attached again.
PARTITION_EVENT = "sluice.partition"
MARKS = pa.array([SNAPSHOT_EVENT, PARTITION_EVENT])
Event = tuple[int, int, str | None, str | None, str | None, str | None]
# The types of all events that read_change accepts or refuses; it ignores all others.
_WITH_SHAPE, _SHAPE = "^[crudt]$", "^[0-9a-f]{1,16}$"
_OF_CHANGES = r'^([crudtRIUD]$|[IUD]:|\{"op":)'


@dataclass(frozen=True, slots=True)
class Sources:
    """Tables with changes among events.

    Attributes:
        shapes: Those that the events name, each with the shapes of the events and the lowest event id of each shape;
            empty for events without a shape.
        joined: Those that events of `pgq.logutriga` or `pgq.sqltriga` name as `schema.table`, unquoted.
    """

    shapes: Mapping[TableName, Mapping[str, int]] = field(default_factory=dict)
    joined: frozenset[str] = frozenset()

    def __or__(self, other: Sources) -> Sources:
        shapes = {name: dict(found) for name, found in self.shapes.items()}
        for name, found in other.shapes.items():
            there = shapes.setdefault(name, {})
            for shape, ev_id in found.items():
                there[shape] = min(ev_id, there.get(shape, ev_id))
        return Sources(shapes, self.joined | other.joined)


def tables_in(events: pa.RecordBatch) -> Sources:
    """Return the tables with changes among events."""
    found = Sources()
    for source, is_chosen in _by_source(events):
        if isinstance(source, str):
            found |= Sources(joined=frozenset([source]))
            continue
        ids = events.column("ev_id").filter(is_chosen)
        firsts = pa.table([ids, _shapes(events).filter(is_chosen)], ["id", "shape"])
        lowest = firsts.group_by("shape").aggregate([("id", "min")]).to_pylist()
        found |= Sources({source: {row["shape"]: row["id_min"] for row in lowest}})
    return found


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


@dataclass(frozen=True, slots=True)
class PartitionMark:
    """A partition that was dropped, detached or attached again, behind the events of its rows.

    Attributes:
        table: The partitioned table.
        state: `dropped`, `detached`, `attached`, or `uncaptured` if it lost its triggers.
        partition: Name of the partition.
        oid: Its id, which a rename keeps.
        policy: `keep` or `delete`.
        is_captured: True if its changes were captured while it was detached.
    """

    table: TableName
    state: str
    partition: str
    oid: int
    policy: str
    is_captured: bool


def partition_mark_of(event: Event) -> PartitionMark | None:
    """Return the mark that an event is; None if it is another event."""
    _, _, kind, data, name, _ = event
    table = TableName.of(name or "")
    if kind != PARTITION_EVENT or table is None:
        return None
    try:
        mark = json.loads(data or "")
        facts = (mark["state"], mark["partition"], mark["oid"], mark["policy"], mark["captured"])
    except (ValueError, KeyError, TypeError):  # of an application
        return None
    return PartitionMark(table, *facts)


def marks_in(events: pa.RecordBatch) -> list[Event]:
    """Return the marks of snapshots and partitions among events."""
    marks = events.filter(pc.is_in(events.column("ev_type"), MARKS))
    return list(_rows(marks.filter(pc.is_valid(marks.column("ev_extra1")))))


def events_in(
    events: pa.RecordBatch, wanted: Collection[TableName], joined: Mapping[str, TableName]
) -> Iterator[tuple[TableName, str, pa.RecordBatch]]:
    """Yield the events of each wanted table and shape; the shape is empty for events without one.

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
    shapes = _shapes(events)
    for name, is_chosen in chosen.items():
        for shape in pc.unique(shapes.filter(is_chosen)).to_pylist():
            yield name, shape, events.filter(pc.and_(is_chosen, pc.equal(shapes, shape)))


def changes_of(
    table: TableName, events: pa.RecordBatch, documents: frozenset[str] = frozenset()
) -> Iterator[Change]:
    """Yield the changes among events of a table, ignoring other events.

    Args:
        table: The table.
        events: With `COLUMNS`.
        documents: Columns of JSON.

    Raises:
        ChangeError: See `read_change`.
    """
    for event in _rows(events):
        change = read_change(table, *event, documents)
        if change is not None:
            yield change


def _shapes(events: pa.RecordBatch) -> pa.Array:
    """Return the shape of each event; empty without one."""
    # Triggers of PgQ write the former row to this column.
    has_shape = pc.fill_null(pc.match_substring_regex(events.column("ev_type"), _WITH_SHAPE), False)
    shapes = events.column("ev_extra2")
    is_shape = pc.fill_null(pc.match_substring_regex(shapes, _SHAPE), False)
    return pc.if_else(pc.and_(has_shape, is_shape), shapes, "")


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
