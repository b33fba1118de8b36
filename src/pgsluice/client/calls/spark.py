"""What the Spark pipelines ask of the server: positions in an event log, and queries to run in parallel.

A query comes from the server as text, and an executor runs it as it is: read through a function that
returns rows it takes two to three times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgsluice.client.calls import Call


def log_incarnation(queue_name: str) -> Call[str]:
    """What tells this event log from another of the same name, here or in another cluster."""
    return Call("select sluice.log_incarnation(%s)", (queue_name,), _value)


def log_start(queue_name: str, consumer_name: str | None, starting: str) -> Call[int]:
    """Find the tick to start at (`earliest`, `latest` or a number); register the consumer there."""
    return Call(
        "select sluice.log_start(%s, %s, %s)", (queue_name, consumer_name, starting), _value
    )


def log_end(queue_name: str, from_tick: int, max_events: int, last_tick: int | None) -> Call[int]:
    """Find the last tick within about `max_events` of `from_tick`, and not after `last_tick`."""
    return Call(
        "select sluice.log_end(%s, %s, %s, %s)",
        (queue_name, from_tick, max_events, last_tick),
        _value,
    )


def log_newest(queue_name: str) -> Call[int]:
    """Find the newest tick."""
    return Call("select sluice.log_end(%s, null, null, null)", (queue_name,), _value)


def log_tick(queue_name: str) -> Call[int]:
    """Tick now if anything is new; the newest tick covers all that was committed before."""
    return Call("select sluice.log_tick(%s)", (queue_name,), _value)


def ticker(queue_name: str) -> Call[int | None]:
    """Tick if it is time."""
    return Call("select pgq.ticker(%s)", (queue_name,), _value)


def log_slices(
    queue_name: str,
    from_tick: int,
    to_tick: int,
    *,
    slice_count: int,
    slice_events_min: int,
    columns: Sequence[str],
) -> Call[list[str]]:
    """Compose the queries for the events after one tick up to another."""
    return Call(
        "select s.query from sluice.log_slices(%s, %s, %s, %s, %s, %s) as s order by s.slice",
        (queue_name, from_tick, to_tick, slice_count, slice_events_min, list(columns)),
        _values,
    )


def log_commit(queue_name: str, consumer_name: str, tick_id: int) -> Call[bool]:
    """Move a consumer's position forward."""
    return Call(
        "select sluice.log_commit(%s, %s, %s)", (queue_name, consumer_name, tick_id), _value
    )


def queue_slices(
    queue_name: str, relation: str, slice_count: int, columns: Sequence[str]
) -> Call[list[str]]:
    """Compose the queries for the rows of a queue or its archive."""
    return Call(
        "select s.query from sluice.queue_slices(%s, %s, %s, %s) as s order by s.slice",
        (queue_name, relation, slice_count, list(columns)),
        _values,
    )


def export_snapshot() -> Call[str]:
    """Name this transaction's snapshot, so that other sessions can read what it sees."""
    return Call("select pg_export_snapshot()", (), _value)


def use_snapshot(snapshot: str) -> tuple[str, ...]:
    """The statements that let a new session read what the exporting transaction sees.

    Arrow connections take no parameters here: a snapshot's name has only hexadecimal digits and dashes,
    and anything else is refused by the caller.
    """
    return (
        "begin isolation level repeatable read read only",
        f"set transaction snapshot '{snapshot}'",
    )


def _value(rows: Sequence[Sequence[Any]]) -> Any:
    return rows[0][0]


def _values(rows: Sequence[Sequence[Any]]) -> list[Any]:
    return [row[0] for row in rows]
