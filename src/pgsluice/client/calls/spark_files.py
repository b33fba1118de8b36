"""Bulk insert of messages as a COPY of JSON text, which keeps numbers from files exact."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from psycopg import sql

from pgsluice.client.calls.call import Call, Copy

MessageRow = tuple[datetime, str | None, str | None]


def copy_messages(table: str, rows: Iterable[MessageRow]) -> Copy:
    """Return a COPY of messages into a queue's table.

    Args:
        table: As returned by `spark_sinks.queue_table`.
        rows: For each message: the time when it becomes visible, its JSON and its headers.
    """
    statement = sql.SQL("copy {} (vt, message, headers) from stdin").format(
        sql.Identifier("pgmq", table)
    )
    return Copy(Call("select", (), lambda _rows: statement), iter(rows))
