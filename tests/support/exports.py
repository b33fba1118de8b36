"""Exported archives, and their rows as a reader of the lake returns them."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import psycopg

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def found(
    connection: psycopg.Connection, *msg_ids: int, queue_name: str = "orders"
) -> tuple[list[int], list[int], list[bytes]]:
    """Return ids, times and hashes of archived messages, as a correct lake returns them."""
    rows = connection.execute(
        "select msg_id, read_ct, enqueued_at, last_read_at, archived_at, vt, message::text, headers::text "
        f"from pgmq.a_{queue_name} where msg_id = any (%s) order by msg_id".encode(),
        [list(msg_ids)],
    ).fetchall()
    lines = [
        "\n".join(
            str(microseconds(value))
            if isinstance(value, datetime)
            else str(value or "")
            if not isinstance(value, int)
            else str(value)
            for value in row
        )
        for row in rows
    ]
    return (
        [row[0] for row in rows],
        [microseconds(row[2]) for row in rows],
        [hashlib.sha256(line.encode()).digest() for line in lines],
    )


def verify(
    connection: psycopg.Connection, *msg_ids: int, export: str = "lake", queue_name: str = "orders"
) -> tuple[int, list[int]]:
    """Verify archived messages for an export whose lake holds them correctly."""
    return connection.execute(
        "select * from sluice.verify_exported(%s, %s, %s, %s, %s)",
        [queue_name, export, *found(connection, *msg_ids, queue_name=queue_name)],
    ).fetchone()


def create_export(
    connection: psycopg.Connection, name: str = "lake", queue_name: str = "orders"
) -> bool:
    (is_new,) = connection.execute(
        "select sluice.create_export(%s, %s, %s, %s)",
        [queue_name, name, f"/{name}", f"id of {name}"],
    ).fetchone()
    return is_new


def archived(connection: psycopg.Connection, queue_name: str = "orders") -> list[int]:
    query = f"select msg_id from pgmq.a_{queue_name} order by 1".encode()
    return [msg_id for (msg_id,) in connection.execute(query)]


def backlog(
    connection: psycopg.Connection, export: str = "lake", queue_name: str = "orders"
) -> list[tuple]:
    return connection.execute(
        "select * from sluice.export_backlog(%s, %s)", [queue_name, export]
    ).fetchall()
