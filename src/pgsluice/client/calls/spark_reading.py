"""Statements with which Spark's tasks run the queries returned by the server.

Plain statements instead of calls, so that any driver can run them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString

from psycopg import sql
from psycopg.types.json import Jsonb

from pgsluice.client.calls.call import Call, column

BEGIN_READING: LiteralString = "begin read only"
END_READING: LiteralString = "commit"
# A transaction that only exports a snapshot is idle.
STAY_OPEN: tuple[LiteralString, ...] = ("set local idle_in_transaction_session_timeout to 0",)
# For one transaction, behind a pooler that refused the options of our sessions.
UNLIMITED: LiteralString = "set local statement_timeout to 0"
# For a driver other than psycopg; servers before PostgreSQL 17 do not have the setting.
NO_TRANSACTION_TIMEOUT: LiteralString = (
    "select set_config(name, '0', false) from pg_settings where name = 'transaction_timeout'"
)
# Text of times must not depend on the role's settings.
PLAIN_TEXT: tuple[LiteralString, ...] = (
    "set local datestyle to 'ISO'",
    "set local timezone to 'UTC'",
)


def copy_out(query: str) -> sql.Composed:
    """Return the statement that writes a query's rows as CSV."""
    # From the server, not input of a caller.
    return sql.SQL("copy ({}) to stdout (format csv)").format(sql.SQL(query))


def filter_queries(queries: Sequence[str], conditions: Sequence[dict[str, Any]]) -> Call[list[str]]:
    """Return queries for the rows of other queries that meet all conditions."""
    return Call(
        "select f.query from sluice.filter_queries(%s::text[], %s::jsonb) as f order by f.slice",
        (list(queries), Jsonb(list(conditions))),
        column,
    )
