"""Conversion of event rows into changes."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

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
MARKERS = pa.array([SNAPSHOT_EVENT, PARTITION_EVENT])
Event = tuple[int, int, str | None, str | None, str | None, str | None]
# The types of all events that read_change accepts or refuses; it ignores all others.
_OF_CHANGES = re.compile(r'[crudtRIUD]\Z|[IUD]:|\{"op":')
_WITH_SHAPE, _SHAPE = pa.array(list("crudt")), "^[0-9a-f]{1,16}$"


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
            merged = shapes.setdefault(name, {})
            for shape, ev_id in found.items():
                merged[shape] = min(ev_id, merged.get(shape, ev_id))
        return Sources(shapes, self.joined | other.joined)


def tables_in(events: pa.RecordBatch) -> Sources:
    """Return the tables with changes among events."""
    kinds, kind_of = _kinds(events)
    numbered = pa.table([kind_of, events.column("ev_id")], ["kind", "id"])
    found: dict[TableName, dict[str, int]] = {}
    joined = set()
    for row in numbered.group_by("kind").aggregate([("id", "min")]).to_pylist():
        source, shape = kinds[row["kind"]]
        if isinstance(source, str):
            joined.add(source)
        elif source is not None:
            shapes = found.setdefault(source, {})
            shapes[shape] = min(row["id_min"], shapes.get(shape, row["id_min"]))
    return Sources(found, frozenset(joined))


@dataclass(frozen=True, slots=True)
class SnapshotMarker:
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


def marker_of(event: Event) -> SnapshotMarker | None:
    """Return the marker that an event is; None if it is an event of an application with the same type."""
    facts = _facts_of(event, SNAPSHOT_EVENT, "token", "state")
    if facts is None:
        return None
    table, token, state = facts
    if not isinstance(token, str) or state not in ("began", "ended"):
        return None
    return SnapshotMarker(table, event[1], token, state == "began")


@dataclass(frozen=True, slots=True)
class PartitionMarker:
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


def partition_marker_of(event: Event) -> PartitionMarker | None:
    """Return the marker that an event is; None if it is another event."""
    members = ("state", "partition", "oid", "policy", "captured")
    facts = _facts_of(event, PARTITION_EVENT, *members)
    return None if facts is None else PartitionMarker(*facts)


def _facts_of(event: Event, ev_type: str, *members: str) -> tuple[Any, ...] | None:
    """Return the table of a marker and members of its content; None if it is of another type or of an application."""
    _, _, kind, data, name, _ = event
    table = TableName.of(name or "")
    if kind != ev_type or table is None:
        return None
    try:
        content = json.loads(data or "")
        return (table, *(content[member] for member in members))
    except (ValueError, KeyError, TypeError):
        return None


def markers_in(events: pa.RecordBatch) -> list[Event]:
    """Return the markers of snapshots and partitions among events."""
    markers = events.filter(pc.is_in(events.column("ev_type"), MARKERS))
    return list(_rows(markers.filter(pc.is_valid(markers.column("ev_extra1")))))


def events_in(
    events: pa.RecordBatch, tables: Collection[TableName], joined: Mapping[str, TableName]
) -> Iterator[tuple[TableName, str, pa.RecordBatch]]:
    """Yield the events of each table and shape; the shape is empty for events without one.

    Args:
        events: With `COLUMNS`.
        tables: The tables.
        joined: The tables by their joined names, see `Sources`; others are not read.
    """
    kinds, kind_of = _kinds(events)
    parts: dict[tuple[TableName, str], int] = {}
    part_of_kind: list[int | None] = []
    for source, shape in kinds:
        name = joined.get(source) if isinstance(source, str) else source
        if name is None or name not in tables:
            part_of_kind.append(None)
        else:
            part_of_kind.append(parts.setdefault((name, shape), len(parts)))
    part_of = pa.array(part_of_kind, pa.int64()).take(kind_of)
    chosen = events.filter(pc.is_valid(part_of))
    part_of = part_of.drop_null()
    # A stable sort keeps the order of the events of a part.
    chosen = chosen.take(pc.array_sort_indices(part_of))
    lengths = {row["values"]: row["counts"] for row in pc.value_counts(part_of).to_pylist()}
    start = 0
    for (name, shape), part in parts.items():
        yield name, shape, chosen.slice(start, lengths[part])
        start += lengths[part]


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


def _kinds(events: pa.RecordBatch) -> tuple[list[tuple[TableName | str | None, str]], pa.Array]:
    """Return the tables that events may be changes of, each with a shape, and for each event its place in this list.

    The table is None for other events, and text if it is named as `schema.table`, unquoted.
    """
    parts = (events.column("ev_type"), events.column("ev_extra1"), _shapes(events))
    types, names, shapes = (part.dictionary_encode(null_encoding="encode") for part in parts)
    number = _long(types)
    for part in (names, shapes):
        number = pc.add(pc.multiply(number, len(part.dictionary)), _long(part))
    found = number.dictionary_encode()
    kinds = []
    for value in found.dictionary.to_pylist():
        value, shape = divmod(value, len(shapes.dictionary))
        ev_type, name = divmod(value, len(names.dictionary))
        source = _source_of(types.dictionary[ev_type].as_py(), names.dictionary[name].as_py())
        kinds.append((source, shapes.dictionary[shape].as_py()))
    return kinds, found.indices


def _long(part: pa.DictionaryArray) -> pa.Array:
    return part.indices.cast(pa.int64())


def _source_of(ev_type: str | None, name: str | None) -> TableName | str | None:
    if ev_type is None or _OF_CHANGES.match(ev_type) is None:
        return None
    return table_of(ev_type, name)


def _shapes(events: pa.RecordBatch) -> pa.Array:
    """Return the shape of each event; empty without one."""
    # Triggers of PgQ write the former row to this column.
    has_shape = pc.is_in(events.column("ev_type"), _WITH_SHAPE)
    texts = pc.if_else(has_shape, events.column("ev_extra2"), "").dictionary_encode(
        null_encoding="encode"
    )
    is_shape = pc.fill_null(pc.match_substring_regex(texts.dictionary, _SHAPE), False)
    return pc.if_else(is_shape, texts.dictionary, "").take(texts.indices)


def _rows(events: pa.RecordBatch) -> Iterator[Event]:
    columns = [events.column(column) for column in COLUMNS]
    columns[1] = columns[1].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return zip(*(column.to_pylist() for column in columns), strict=True)
