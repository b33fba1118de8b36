"""What the Spark pipelines ask of the server: positions in an event log, and queries to run in parallel.

A query comes from the server as text, and an executor runs it as it is: read through a function that
returns rows it takes two to three times as long.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString

from pgsluice.client.calls.call import Call, column, scalar
from pgsluice.errors import ArgumentError

_SNAPSHOT_NAME = re.compile(r"[0-9A-Fa-f-]+")


def log_commit(queue_name: str, consumer_name: str, tick_id: int) -> Call[bool]:
    """Move a consumer's position forward."""
    return Call(
        "select sluice.log_commit(%s::text, %s::text, %s::bigint)",
        (queue_name, consumer_name, tick_id),
        scalar,
    )


def log_commit_snapshot(queue_name: str, consumer_name: str, snapshot: str) -> Call[bool]:
    """Move a consumer's position forward to the last tick that a snapshot covers."""
    return Call(
        "select sluice.log_commit(%s::text, %s::text, %s::pg_snapshot)",
        (queue_name, consumer_name, snapshot),
        scalar,
    )


def log_consumers(queue_name: str, consumer_name: str | None) -> Call[list[tuple[int, str]]]:
    """Find the ticks at which consumers of a log stand and what these see, the newest first.

    Args:
        queue_name: An existing log.
        consumer_name: Only this one; all when None.

    Returns:
        No consumer whose position was given up.
    """
    return Call(
        "select s.pos_last_tick, s.pos_last_snapshot::text "
        "from pgq.standing as s "
        "join pgq.queue as q on q.queue_id = s.sub_queue "
        "join pgq.consumer as c on c.co_id = s.sub_consumer "
        "where q.queue_name = %s::text and (%s::text is null or c.co_name = %s::text) "
        "and s.pos_last_snapshot is not null and s.pos_lost is null "
        "order by s.pos_last_tick desc",
        (queue_name, consumer_name, consumer_name),
        list,
    )


def log_count(queue_name: str, after: str, upto: str | None, at_most: int) -> Call[int]:
    """Count events between two snapshots, the later one now when None, up to `at_most`."""
    return Call(
        "select sluice.log_count("
        "%s::text, %s::pg_snapshot, coalesce(%s::pg_snapshot, pg_current_snapshot()), %s::bigint)",
        (queue_name, after, upto, at_most),
        scalar,
    )


def log_cut(
    queue_name: str, after: str, max_events: int | None, upto: str | None
) -> Call[tuple[str, int | None]]:
    """Find where a read of about `max_events` by snapshots ends, and make that durable.

    Args:
        queue_name: An existing log.
        after: The snapshot to go on from.
        max_events: About the most events; all of them when None.
        upto: The latest snapshot to end at; now when None.

    Returns:
        The snapshot, and the transaction to cut it at; None when nothing is new.
    """
    return Call(
        "select s.upto::text, sluice.log_cut(%s::text, %s::pg_snapshot, s.upto, %s::bigint) "
        "from coalesce(%s::pg_snapshot, pg_current_snapshot()) as s (upto)",
        (queue_name, after, max_events, upto),
        lambda rows: (str(rows[0][0]), rows[0][1]),
    )


def log_end(queue_name: str, from_tick: int, max_events: int, last_tick: int | None) -> Call[int]:
    """Find the last tick within about `max_events` of `from_tick`, and not after `last_tick`."""
    return Call(
        "select sluice.log_end(%s::text, %s::bigint, %s::bigint, %s::bigint)",
        (queue_name, from_tick, max_events, last_tick),
        scalar,
    )


def log_incarnation(queue_name: str, *, with_timeline: bool = False) -> Call[str]:
    """What tells this event log from another of the same name, here or in another cluster.

    With the timeline, also from itself before its server was promoted or restored to an earlier moment.
    """
    return Call(
        "select sluice.log_incarnation(%s::text, %s::boolean)", (queue_name, with_timeline), scalar
    )


def log_keeps(queue_name: str, after: str) -> Call[bool]:
    """Whether a log still has all the events that this snapshot does not see."""
    return Call("select sluice.log_keeps(%s::text, %s::pg_snapshot)", (queue_name, after), scalar)


def log_newest(queue_name: str) -> Call[int]:
    """Find the newest tick."""
    return Call("select sluice.log_end(%s::text, null, null, null)", (queue_name,), scalar)


def log_now() -> Call[str]:
    """Take the snapshot of all that is committed now, and make it durable."""
    return Call("select sluice.log_now()::text", (), scalar)


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
        "select s.query from sluice.log_slices("
        "%s::text, %s::bigint, %s::bigint, %s::integer, %s::bigint, %s::text[]) as s order by s.slice",
        (queue_name, from_tick, to_tick, slice_count, slice_events_min, list(columns)),
        column,
    )


def log_snapshot(queue_name: str, tick_id: int) -> Call[str | None]:
    """What a tick sees; None when the events after it may be gone."""
    return Call(
        "select sluice.log_snapshot(%s::text, %s::bigint)::text", (queue_name, tick_id), scalar
    )


def log_snapshot_slices(
    queue_name: str,
    after: str,
    upto: str,
    *,
    slice_count: int,
    slice_events_min: int,
    columns: Sequence[str],
) -> Call[list[str]]:
    """Compose the queries for the events that one snapshot sees and an earlier one does not."""
    return Call(
        "select s.query from sluice.log_slices("
        "%s::text, %s::pg_snapshot, %s::pg_snapshot, %s::integer, %s::bigint, %s::text[]) as s "
        "order by s.slice",
        (queue_name, after, upto, slice_count, slice_events_min, list(columns)),
        column,
    )


def log_start(queue_name: str, consumer_name: str | None, starting: str) -> Call[int]:
    """Find the tick to start at (`earliest`, `latest`, `committed` or a number); register the consumer there."""
    return Call(
        "select sluice.log_start(%s::text, %s::text, %s::text)",
        (queue_name, consumer_name, starting),
        scalar,
    )


def log_tick(queue_name: str) -> Call[int]:
    """Tick now if anything is new; the newest tick covers all that was committed before."""
    return Call("select sluice.log_tick(%s::text)", (queue_name,), scalar)


def log_tick_at(queue_name: str, moment: datetime) -> Call[int]:
    """Find the last tick at or before a moment, or the oldest that is kept."""
    return Call(
        "select sluice.log_tick_at(%s::text, %s::timestamptz)", (queue_name, moment), scalar
    )


def queue_slices(
    queue_name: str, relation: str, slice_count: int, columns: Sequence[str]
) -> Call[list[str]]:
    """Compose the queries for the rows of a queue or its archive."""
    return Call(
        "select s.query from sluice.queue_slices("
        "%s::text, %s::text, %s::integer, %s::text[]) as s order by s.slice",
        (queue_name, relation, slice_count, list(columns)),
        column,
        queue_name,
    )


def column_types(table_name: str) -> Call[dict[str, str]]:
    """Find the types of a table's columns, by name, as `format_type` writes them; none when there is no such table.

    Args:
        table_name: `schema.table`, unquoted, as events name it. Of a domain it is the type below that counts.
    """
    return Call(
        "select a.attname::text, format_type("
        "coalesce(nullif(t.typbasetype, 0), a.atttypid), "
        "case when t.typtype = 'd' then t.typtypmod else a.atttypmod end) "
        "from pg_catalog.pg_attribute as a "
        "join pg_catalog.pg_type as t on t.oid = a.atttypid "
        "join pg_catalog.pg_class as c on c.oid = a.attrelid "
        "join pg_catalog.pg_namespace as n on n.oid = c.relnamespace "
        "where n.nspname || '.' || c.relname = %s::text and c.relkind in ('r', 'p') "
        "and a.attnum > 0 and not a.attisdropped "
        "order by a.attnum",
        (table_name,),
        dict,
    )


def export_snapshot() -> Call[str]:
    """Name this transaction's snapshot, so that other sessions can read what it sees."""
    return Call("select pg_export_snapshot()", (), scalar)


def use_snapshot(snapshot: str) -> tuple[LiteralString, ...]:
    """The statements that begin a transaction which sees what the exporting one sees.

    They are no calls: they take no parameters and return no rows, and an Arrow connection runs them too.

    Raises:
        ArgumentError: This is no name that `pg_export_snapshot()` gives.
    """
    if not _SNAPSHOT_NAME.fullmatch(snapshot):
        raise ArgumentError(f"{snapshot!r} is no snapshot; give what pg_export_snapshot() returned")
    # Only digits, letters and dashes can be in it now.
    take: LiteralString = f"set transaction snapshot '{snapshot}'"
    return "begin isolation level repeatable read read only", take
