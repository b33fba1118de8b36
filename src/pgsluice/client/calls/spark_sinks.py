"""Sinks: a ledger of committed versions, and staging tables for rows before their commit; as calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from psycopg import sql

from pgsluice.client.calls.call import Call, row, scalar

# Connection check.
PING = "select 1"


def sink_commit(
    sink_id: str, version: int, *, detail: Any = None, keep: timedelta | None = None
) -> Call[bool]:
    """Record a version of a sink in the transaction of its rows; False if this or a later one is recorded."""
    return Call(
        "select sluice.sink_commit(%s::text, %s::bigint, %s::jsonb, %s::interval)",
        (sink_id, version, None if detail is None else json.dumps(detail), keep),
        scalar,
    )


def sink_position(sink_id: str) -> Call[tuple[int, Any] | None]:
    """Return the newest version of a sink and its detail, and lock the sink until the end of this transaction."""
    return Call(
        "select p.version, p.detail from sluice.sink_position(%s::text) as p",
        (sink_id,),
        lambda rows: (rows[0][0], rows[0][1]) if rows else None,
    )


def forget_sink(sink_id: str) -> Call[bool]:
    """Delete the recorded version of a sink."""
    return Call("select sluice.forget_sink(%s::text)", (sink_id,), scalar)


def set_sink_owner(sink_id: str, owner: str) -> Call[bool]:
    """Change the owner of a sink."""
    return Call("select sluice.set_sink_owner(%s::text, %s::name)", (sink_id, owner), scalar)


def create_stage(sink_id: str, version: int, columns: Sequence[str]) -> Call[int]:
    """Create a staging table of a sink; return its number."""
    return Call(
        "select sluice.create_stage(%s::text, %s::bigint, %s::text[])",
        (sink_id, version, list(columns)),
        scalar,
    )


def drop_stages(sink_id: str, version: int) -> Call[int]:
    """Drop the staging tables of a sink up to this version."""
    return Call("select sluice.drop_stages(%s::text, %s::bigint)", (sink_id, version), scalar)


def send_staged(queue_name: str | None, rows_in_stages: Sequence[tuple[int, int]]) -> Call[int]:
    """Send the rows of staging tables as messages; each stage with its expected number of rows."""
    return Call(
        "select sluice.send_staged(%s::text, %s::bigint[], %s::bigint[])",
        (queue_name, *_columns(rows_in_stages)),
        scalar,
        queue_name,
    )


def insert_staged(log: str | None, rows_in_stages: Sequence[tuple[int, int]]) -> Call[int]:
    """Append the rows of staging tables as events; each stage with its expected number of rows."""
    return Call(
        "select sluice.insert_staged(%s::text, %s::bigint[], %s::bigint[])",
        (log, *_columns(rows_in_stages)),
        scalar,
    )


def queue_table(queue_name: str) -> Call[tuple[str, datetime]]:
    """Return the name of a queue's table in schema pgmq, and the server's time."""
    return Call(
        "select pgmq.format_table_name(%s::text, 'q'), now()",
        (queue_name,),
        row,
    )


def log_table(log: str) -> Call[str]:
    """Return the name of a log's current event table in schema pgq."""
    return Call(
        "select pgq.current_event_table(%s::text)",
        (log,),
        lambda rows: str(scalar(rows)).partition(".")[2],
    )


def stage_table(stage_id: int) -> str:
    """Return the name of a staging table in schema sluice."""
    return f"stage_{stage_id}"


def copy_into_stage(stage_id: int, columns: Sequence[str]) -> sql.Composed:
    """Return the COPY statement into a staging table."""
    return sql.SQL("copy {} ({}) from stdin").format(
        sql.Identifier("sluice", stage_table(stage_id)),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
    )


def _columns(rows_in_stages: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [stage for stage, _ in rows_in_stages], [count for _, count in rows_in_stages]
