"""What sinks ask of the server: a ledger of what was written, and stages for rows that wait for their commit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from psycopg import sql

from pgsluice.client.calls.call import Call, row, scalar

# Answered by any connection that is alive.
PING = "select 1"


def sink_commit(
    sink_id: str, version: int, *, detail: Any = None, keep: timedelta | None = None
) -> Call[bool]:
    """Note a version of a sink in the transaction of its rows; False when it or a later one is there already."""
    return Call(
        "select sluice.sink_commit(%s::text, %s::bigint, %s::jsonb, %s::interval)",
        (sink_id, version, None if detail is None else json.dumps(detail), keep),
        scalar,
    )


def sink_position(sink_id: str) -> Call[tuple[int, Any] | None]:
    """Find the newest version of a sink and its detail; other writers of it wait for the end of this transaction."""
    return Call(
        "select p.version, p.detail from sluice.sink_position(%s::text) as p",
        (sink_id,),
        lambda rows: (rows[0][0], rows[0][1]) if rows else None,
    )


def forget_sink(sink_id: str) -> Call[bool]:
    """Forget which version of a sink was committed."""
    return Call("select sluice.forget_sink(%s::text)", (sink_id,), scalar)


def set_sink_owner(sink_id: str, owner: str) -> Call[bool]:
    """Hand a sink over to another role."""
    return Call("select sluice.set_sink_owner(%s::text, %s::name)", (sink_id, owner), scalar)


def create_stage(sink_id: str, version: int, columns: Sequence[str]) -> Call[int]:
    """Make a table for rows of a sink; its number."""
    return Call(
        "select sluice.create_stage(%s::text, %s::bigint, %s::text[])",
        (sink_id, version, list(columns)),
        scalar,
    )


def drop_stages(sink_id: str, version: int) -> Call[int]:
    """Drop the stages of a sink, of this version and those before."""
    return Call("select sluice.drop_stages(%s::text, %s::bigint)", (sink_id, version), scalar)


def send_staged(queue_name: str | None, rows_in_stages: Sequence[tuple[int, int]]) -> Call[int]:
    """Send the rows of stages as messages; each stage with how many rows it must have."""
    return Call(
        "select sluice.send_staged(%s::text, %s::bigint[], %s::bigint[])",
        (queue_name, *_columns(rows_in_stages)),
        scalar,
        queue_name,
    )


def insert_staged(log: str | None, rows_in_stages: Sequence[tuple[int, int]]) -> Call[int]:
    """Append the rows of stages as events; each stage with how many rows it must have."""
    return Call(
        "select sluice.insert_staged(%s::text, %s::bigint[], %s::bigint[])",
        (log, *_columns(rows_in_stages)),
        scalar,
    )


def queue_table(queue_name: str) -> Call[tuple[str, datetime]]:
    """The name of a queue's table in schema pgmq, and what time it is there."""
    return Call(
        "select pgmq.format_table_name(%s::text, 'q'), now()",
        (queue_name,),
        row,
    )


def log_table(log: str) -> Call[str]:
    """The name of the table in schema pgq that a log is filling."""
    return Call(
        "select pgq.current_event_table(%s::text)",
        (log,),
        lambda rows: str(scalar(rows)).partition(".")[2],
    )


def stage_table(stage_id: int) -> str:
    """The name of a stage's table, in schema sluice."""
    return f"stage_{stage_id}"


def copy_into_stage(stage_id: int, columns: Sequence[str]) -> sql.Composed:
    """The COPY that takes rows for a stage from the client."""
    return sql.SQL("copy {} ({}) from stdin").format(
        sql.Identifier("sluice", stage_table(stage_id)),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
    )


def _columns(rows_in_stages: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [stage for stage, _ in rows_in_stages], [count for _, count in rows_in_stages]
