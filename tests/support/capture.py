"""A copy of a captured table, maintained from its events."""

from __future__ import annotations

import psycopg

from support import rows, value


def copy_of(connection: psycopg.Connection, table: str, copy: str = "copy") -> None:
    """Create an empty copy of a table; generated columns become plain ones."""
    connection.execute(f"create table {copy} (like {table})")


def apply(
    connection: psycopg.Connection, events: list[tuple], key: str | None = "id", copy: str = "copy"
) -> None:
    """Apply (op, ev_data) in order: c, r, u upsert a row by key; u, d delete the previous one."""
    populated = f"json_populate_record(null::{copy}, %s::json -> %s)"
    for op, data in events:
        if op == "t":
            connection.execute(f"truncate {copy}")
        for place in {"u": ("before", "after"), "d": ("before",)}.get(op, ("after",)):
            if key is not None and op != "t":
                connection.execute(
                    f"delete from {copy} where ({key}) in (select {key} from {populated})",
                    [data, place],
                )
        if op in ("c", "r", "u"):
            connection.execute(f"insert into {copy} select * from {populated}", [data, "after"])


def logged(connection: psycopg.Connection, log: str = "changes") -> list[tuple]:
    """Return the events of a log in order, including uncommitted own ones: (op, ev_data)."""
    queue_id = value(connection, "select queue_id from pgq.queue where queue_name = %s", log)
    return rows(connection, f"select ev_type, ev_data from pgq.event_{queue_id} order by ev_id")


def contents(connection: psycopg.Connection, table: str) -> list[str]:
    """Return every row as text, in order."""
    return [text for (text,) in rows(connection, f"select t::text from {table} as t order by 1")]


def snapshot(
    connection: psycopg.Connection, table: str, qty: int = 1000, log: str = "changes"
) -> int:
    """Take a snapshot in as many calls as needed; return their number."""
    key, calls = None, 0
    while True:
        key = value(
            connection,
            "select sluice.capture_snapshot(%s::regclass, %s, %s::jsonb, %s)",
            table, log, None if key is None else psycopg.types.json.Jsonb(key), qty,
        )  # fmt: skip
        calls += 1
        if key is None:
            return calls


def noted(connection: psycopg.Connection, table: str = "item") -> tuple[set[str], set[str]]:
    """Return the shapes of the events of a table, and those that are stored for it."""
    of_events = {shape for (shape,) in rows(connection, "select ev_extra2 from pgq.event_1")}
    stored = rows(
        connection, "select shape from sluice.captured_shape where table_oid = %s::regclass", table
    )
    return of_events, {shape for (shape,) in stored}
