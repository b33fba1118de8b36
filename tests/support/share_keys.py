"""Groups with keys in tests."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from support import value
from support.share_groups import GROUP, LOG, claim, create_group, make_log


def make_keyed(
    connection: psycopg.Connection, when_waiting: str = "block", **options: object
) -> None:
    """Create a log, and a group with the key ev_extra1 and a back-off of one hour."""
    make_log(connection)
    create_group(
        connection,
        **{
            "key": "ev_extra1",
            "when_waiting": when_waiting,
            "backoff": "constant",
            "backoff_base": "1 hour",
            "backoff_jitter": False,
            **options,
        },
    )


def send_keys(connection: psycopg.Connection, keys: str) -> list[int]:
    """Insert an event for each letter, its key; `-` has none. On a new log ids start at 1."""
    return [
        value(
            connection,
            "select pgq.insert_event(%s, 't', 'd', %s, null, null, null)",
            LOG,
            None if key == "-" else key,
        )
        for key in keys
    ]


def claimed_keys(
    connection: psycopg.Connection, qty: int = 100, lease: str | None = None
) -> tuple[int | None, str]:
    """Return a claim's id, and its events as key and id, as in `a1 b2`."""
    events = claim(connection, qty, lease)
    return (
        events[0].claim_id if events else None,
        " ".join(f"{event.ev_extra1 or '-'}{event.ev_id}" for event in events),
    )


def blocked(connection: psycopg.Connection) -> dict[str, Any]:
    """Return the rows of `sluice.list_blocked_keys` by key, by names."""
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        found = cursor.execute(
            "select * from sluice.list_blocked_keys(%s, %s)", (LOG, GROUP)
        ).fetchall()
    return {row.key: row for row in found}


def unpark(connection: psycopg.Connection, key: str | None) -> int:
    """Unpark the events of a key; return their number."""
    count = value(connection, "select sluice.unpark_key(%s, %s, %s)", LOG, GROUP, key)
    assert isinstance(count, int)
    return count
