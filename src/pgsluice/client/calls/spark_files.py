"""Messages in bulk as a COPY, whose JSON is text already: what comes from a file is stored digit by digit."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from psycopg import sql

from pgsluice.client.calls.call import Call, Copy

MessageRow = tuple[datetime, str | None, str | None]


def copy_messages(table: str, rows: Iterable[MessageRow]) -> Copy:
    """Copy messages into a queue's table.

    Args:
        table: As `spark_sinks.queue_table` names it.
        rows: From when on each is visible, it, and its headers.
    """
    statement = sql.SQL("copy {} (vt, message, headers) from stdin").format(
        sql.Identifier("pgmq", table)
    )
    return Copy(Call("select", (), lambda _rows: statement), iter(rows))
