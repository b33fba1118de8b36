"""Conversion of event rows into changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.pipelines.current_state.envelope import Change, read_change

# The columns that read_change needs; the time is converted to microseconds.
COLUMNS = ("ev_id", "ev_time", "ev_type", "ev_data", "ev_extra1", "ev_extra2")
# Type of the events that mark the begin and end of a snapshot.
SNAPSHOT_EVENT = "sluice.snapshot"
Event = tuple[int, int, str | None, str | None, str | None, str | None]
# The types of all events that read_change accepts or refuses; it ignores all others.
_OF_CHANGES = r'^([crudtRIUD]$|[IUD]:|\{"op":)'


def tables_in(events: pa.RecordBatch) -> set[str]:
    """Return the tables with changes among events, by the name in `ev_extra1`."""
    may_be = pc.match_substring_regex(events.column("ev_type"), _OF_CHANGES)
    names = pc.unique(events.column("ev_extra1").filter(may_be))
    return {name for name in names.to_pylist() if name is not None}


def marks_in(events: pa.RecordBatch) -> list[Event]:
    """Return the marks of snapshots among events."""
    marks = events.filter(pc.equal(events.column("ev_type"), SNAPSHOT_EVENT))
    return list(_rows(marks.filter(pc.is_valid(marks.column("ev_extra1")))))


def events_in(
    events: pa.RecordBatch, wanted: Collection[str]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the events of each wanted table, by the name in `ev_extra1`."""
    chosen = events.filter(
        pc.is_in(events.column("ev_extra1"), pa.array(list(wanted), pa.string()))
    )
    names = chosen.column("ev_extra1")
    for name in pc.unique(names).to_pylist():
        yield name, chosen.filter(pc.equal(names, name))


def changes_of(events: pa.RecordBatch) -> Iterator[Change]:
    """Yield the changes among events, ignoring other events.

    Args:
        events: With `COLUMNS`.

    Raises:
        ChangeError: See `read_change`.
    """
    for event in _rows(events):
        change = read_change(*event)
        if change is not None:
            yield change


def _rows(events: pa.RecordBatch) -> Iterator[Event]:
    columns = [events.column(column) for column in COLUMNS]
    columns[1] = columns[1].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return zip(*(column.to_pylist() for column in columns), strict=True)
