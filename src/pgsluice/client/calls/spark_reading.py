"""How a query that the server composed is run by Spark's tasks: the statements around it.

They are no calls: they take no parameters, and whatever driver reads the rows runs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString

from psycopg import sql
from psycopg.types.json import Jsonb

from pgsluice.client.calls.call import Call, column

BEGIN_READING: LiteralString = "begin read only"
END_READING: LiteralString = "commit"
# A transaction that holds a snapshot for others has nothing to do itself.
STAY_OPEN: tuple[LiteralString, ...] = ("set local idle_in_transaction_session_timeout to 0",)
# Times as text are to be read the same, whatever the role's own settings are.
PLAIN_TEXT: tuple[LiteralString, ...] = (
    "set local datestyle to 'ISO'",
    "set local timezone to 'UTC'",
)


def copy_out(query: str) -> sql.Composed:
    """The statement that gives a query's rows as CSV."""
    # The server composed it, so it is no text of a caller's.
    return sql.SQL("copy ({}) to stdout (format csv)").format(sql.SQL(query))


def filter_queries(queries: Sequence[str], conditions: Sequence[dict[str, Any]]) -> Call[list[str]]:
    """Compose queries for those rows of other queries that meet all of these conditions."""
    return Call(
        "select f.query from sluice.filter_queries(%s::text[], %s::jsonb) as f order by f.slice",
        (list(queries), Jsonb(list(conditions))),
        column,
    )
