"""Positions in an event log and parallel queries for the Spark pipelines, as calls.

The server returns queries as text, and executors run them as they are: reading through a function that returns rows
takes two to three times as long.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, LiteralString

from pgsluice.client.calls.call import Call, column, row, scalar
from pgsluice.errors import ArgumentError

_SNAPSHOT_NAME = re.compile(r"[0-9A-Fa-f-]+")


def log_commit(log_name: str, consumer_name: str, tick_id: int) -> Call[bool]:
    """Move a consumer's position forward."""
    return Call(
        "select sluice.log_commit(%s::text, %s::text, %s::bigint)",
        (log_name, consumer_name, tick_id),
        scalar,
    )


def log_commit_snapshot(log_name: str, consumer_name: str, snapshot: str) -> Call[bool]:
    """Move a consumer's position forward to the last tick that a snapshot covers."""
    return Call(
        "select sluice.log_commit(%s::text, %s::text, %s::pg_snapshot)",
        (log_name, consumer_name, snapshot),
        scalar,
    )


def log_consumers(log_name: str, consumer_name: str | None) -> Call[list[tuple[int, str]]]:
    """Return the positions of a log's consumers as ticks and their snapshots, newest first.

    Args:
        log_name: An existing log.
        consumer_name: Only this consumer; None: all.

    Returns:
        Without consumers whose position was dropped.
    """
    return Call(
        "select s.pos_last_tick, s.pos_last_snapshot::text "
        "from pgq.standing as s "
        "join pgq.queue as q on q.queue_id = s.sub_queue "
        "join pgq.consumer as c on c.co_id = s.sub_consumer "
        "where q.queue_name = %s::text and (%s::text is null or c.co_name = %s::text) "
        "and s.pos_last_snapshot is not null and s.pos_lost is null "
        "order by s.pos_last_tick desc",
        (log_name, consumer_name, consumer_name),
        list,
    )


def log_count(log_name: str, after: str, upto: str | None, at_most: int) -> Call[int]:
    """Count events between two snapshots, up to `at_most`; None as the later one is now."""
    return Call(
        "select sluice.log_count("
        "%s::text, %s::pg_snapshot, coalesce(%s::pg_snapshot, pg_current_snapshot()), %s::bigint)",
        (log_name, after, upto, at_most),
        scalar,
    )


def log_cut(
    log_name: str, after: str | None, max_events: int | None, upto: str | None
) -> Call[tuple[str, int | None]]:
    """Find the end of a read of about `max_events` by snapshots, and flush its WAL.

    Args:
        log_name: An existing log.
        after: The snapshot to continue from; None: only return the end.
        max_events: The most events, approximately; None: all.
        upto: The latest snapshot to end at; None: now.

    Returns:
        The snapshot, and the transaction at which to cut it, or None without new events.
    """
    return Call(
        "select e.upto::text, e.cut_at "
        "from sluice.log_end(%s::text, %s::pg_snapshot, %s::bigint, %s::pg_snapshot) as e",
        (log_name, after, max_events, upto),
        row,
    )


def log_end(
    log_name: str, from_tick: int, max_events: int, last_tick: int | None
) -> Call[tuple[int, str]]:
    """Find the last tick within about `max_events` of `from_tick`, not after `last_tick`, and its snapshot."""
    return Call(
        "select e.tick_id, e.tick_snapshot::text "
        "from sluice.log_end(%s::text, %s::bigint, %s::bigint, %s::bigint) as e",
        (log_name, from_tick, max_events, last_tick),
        row,
    )


def log_incarnation(log_name: str, *, with_timeline: bool = False) -> Call[str]:
    """Return an identifier that tells this event log from others of the same name, in this or another cluster.

    With the timeline, it also changes when the server is promoted or restored to an earlier time.
    """
    return Call(
        "select sluice.log_incarnation(%s::text, %s::boolean)", (log_name, with_timeline), scalar
    )


def log_keeps(log_name: str, after: str) -> Call[bool]:
    """True if a log still keeps all events that this snapshot does not see."""
    return Call("select sluice.log_keeps(%s::text, %s::pg_snapshot)", (log_name, after), scalar)


def log_slices(
    log_name: str,
    after: str,
    upto: str,
    *,
    slice_count: int,
    slice_events_min: int,
    columns: Sequence[str],
) -> Call[list[str]]:
    """Return the queries for the events visible in one snapshot but not in an earlier one."""
    return Call(
        "select s.query from sluice.log_slices("
        "%s::text, %s::pg_snapshot, %s::pg_snapshot, %s::integer, %s::bigint, %s::text[]) as s "
        "order by s.slice",
        (log_name, after, upto, slice_count, slice_events_min, list(columns)),
        column,
    )


def log_start(log_name: str, consumer_name: str | None, starting: str) -> Call[tuple[int, str]]:
    """Return the tick to start at and its snapshot, and register the consumer there.

    Args:
        log_name: An existing log.
        consumer_name: The consumer; None: register none.
        starting: `earliest`, `latest`, `committed`, the number of a tick, or a time with a zone: the last tick at or
            before it, or else the oldest tick kept.
    """
    return Call(
        "select s.tick_id, s.tick_snapshot::text from sluice.log_start(%s::text, %s::text, %s::text) as s",
        (log_name, consumer_name, starting),
        row,
    )


def queue_slices(
    queue_name: str,
    relation: str,
    slice_count: int,
    columns: Sequence[str],
    export_name: str | None = None,
) -> Call[list[str]]:
    """Return the queries for the rows of a queue or its archive; with an export, for those that it has not verified."""
    return Call(
        "select s.query from sluice.queue_slices("
        "%s::text, %s::text, %s::integer, %s::text[], %s::text) as s order by s.slice",
        (queue_name, relation, slice_count, list(columns), export_name),
        column,
        queue_name,
    )


def captured_tables(
    log_name: str,
) -> Call[list[tuple[str, str, int, bool, list[str], bool, bool, list[str]]]]:
    """Return the tables with triggers that append their changes to a log.

    Returns:
        Schema; name; oid; True if snapshots can be taken; names of the partitions without these triggers; True if it is
        a detached partition; True if the events of a trigger tell its name only as `schema.table`, unquoted; problems
        of the capture, each with the solution.
    """
    return Call(
        "select n.nspname, c.relname, c.oid::bigint, "
        "bool_or(p.proname = 'capture_changes' and t.tgnargs < 3) and not c.relispartition, "
        "array(select u.partition::text from sluice.list_uncovered_partitions(%s::text) as u "
        "where u.source_table = c.oid order by 1), "
        "bool_or(p.proname = 'capture_changes' and t.tgnargs = 3) and not c.relispartition, "
        "bool_or(p.proname in ('logutriga', 'sqltriga')), "
        "array(select p.problem || '; run: ' || p.hint from sluice.list_capture_problems(%s::text) as p "
        "where p.source_table = c.oid and p.kind <> 'detached') "
        "from pg_catalog.pg_trigger as t "
        "join pg_catalog.pg_proc as p on p.oid = t.tgfoid "
        "join pg_catalog.pg_namespace as f on f.oid = p.pronamespace "
        "join pg_catalog.pg_class as c on c.oid = t.tgrelid "
        "join pg_catalog.pg_namespace as n on n.oid = c.relnamespace "
        "cross join (select convert_to(%s::text, getdatabaseencoding()) || '\\x00'::bytea as name) as q "
        "where (f.nspname, p.proname) in "
        "(('sluice', 'capture_changes'), ('pgq', 'jsontriga'), ('pgq', 'logutriga'), ('pgq', 'sqltriga')) "
        "and substring(t.tgargs from 1 for octet_length(q.name)) = q.name "
        "group by n.nspname, c.relname, c.oid, c.relispartition "
        "order by 1, 2",
        (log_name, log_name, log_name),
        list,
    )


def captured_shapes(
    shapes: Sequence[str],
) -> Call[list[tuple[str, int, Any, int, str | None, int]]]:
    """Return the shapes of captured tables that events name in `ev_extra2`, in the order in which they were stored.

    Returns:
        Id; oid of the table; columns; number of all columns that the table had; table and file node of its rows; order.
    """
    return Call(
        "select s.shape, s.table_oid::bigint, s.columns, s.attribute_count, s.storage, s.shape_id "
        "from sluice.captured_shape as s where s.shape = any (%s::text[]) order by s.shape_id",
        (list(shapes),),
        list,
    )


def list_shapes(
    log_name: str,
) -> Call[list[tuple[str, str, str, int, Any, int, str | None]]]:
    """Return the current shapes of the tables that are captured into a log.

    Returns:
        Schema; name; and the fields of `captured_shapes`, without the order.
    """
    return Call(
        "select s.schema_name, s.table_name, s.shape, s.table_oid::bigint, s.columns, s.attribute_count, s.storage "
        "from sluice.list_shapes(%s::text) as s order by 1, 2",
        (log_name,),
        list,
    )


def relation_name(table_name: str) -> Call[list[tuple[str, str]]]:
    """Return schema and name of a table; nothing if it does not exist.

    Args:
        table_name: In PostgreSQL's notation, such as `account` or `public."Odd"`.
    """
    return Call(
        "select n.nspname, c.relname from pg_catalog.pg_class as c "
        "join pg_catalog.pg_namespace as n on n.oid = c.relnamespace "
        "where c.oid = to_regclass(%s::text)",
        (table_name,),
        list,
    )


def export_snapshot() -> Call[str]:
    """Export this transaction's snapshot for other sessions."""
    return Call("select pg_export_snapshot()", (), scalar)


def use_snapshot(snapshot: str) -> tuple[LiteralString, ...]:
    """Return the statements that begin a transaction with an exported snapshot.

    Plain statements instead of calls, so that an Arrow connection can run them too.

    Raises:
        ArgumentError: The name is not in the form of `pg_export_snapshot()`.
    """
    if not _SNAPSHOT_NAME.fullmatch(snapshot):
        raise ArgumentError(
            f"{snapshot!r} is not a snapshot name; pass the result of pg_export_snapshot()"
        )
    # Safe to quote: only hexadecimal digits and dashes.
    take: LiteralString = f"set transaction snapshot '{snapshot}'"
    return "begin isolation level repeatable read read only", take
