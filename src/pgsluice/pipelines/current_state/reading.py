"""Events as Spark has them, read into changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pgsluice.pipelines.current_state.envelope import Change, read_change

# What read_change takes, as expressions of Spark's.
EXPRESSIONS = (
    "ev_id",
    "unix_micros(ev_time) as at_us",
    "ev_type",
    "ev_data",
    "ev_extra1",
    "ev_extra2",
)
Event = tuple[int, int, str | None, str | None, str | None, str | None]


def changes_of(events: Iterable[Event], wanted: Callable[[str], bool]) -> Iterator[Change]:
    """The changes among events; other events are passed over.

    Args:
        events: With the values of `EXPRESSIONS`, in this order.
        wanted: Whether a table counts, by its name as it stands in `ev_extra1`.

    Raises:
        SluiceError: See `read_change`.
    """
    for event in events:
        table = event[4]
        if table is None or not wanted(table):
            continue
        change = read_change(*event)
        if change is not None:
            yield change


def by_table(changes: Iterable[Change]) -> dict[str, list[Change]]:
    """The changes of each table, by its name."""
    tables: dict[str, list[Change]] = {}
    for change in changes:
        tables.setdefault(change.table, []).append(change)
    return tables
