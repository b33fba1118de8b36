"""Common helpers of the tests of schedules."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import psycopg

from support import rows, value

_TYPES = {
    "every": "interval", "jitter": "interval", "catch_up_within": "interval",
    "starts_at": "timestamptz", "ends_at": "timestamptz", "headers": "jsonb",
}  # fmt: skip


def schedule(
    connection: psycopg.Connection,
    name: str = "nightly",
    queue_name: str = "orders",
    message: Any = None,
    **options: Any,
) -> bool:
    """Create a schedule that sends to a queue."""
    given = "".join(f", {key} => %s::{_TYPES.get(key, 'text')}" for key in options)
    return value(
        connection,
        f"select sluice.schedule(%s, %s, %s::jsonb{given})",
        name,
        queue_name,
        json.dumps(message),
        *options.values(),
    )


def due_since(connection: psycopg.Connection, interval: str, name: str = "nightly") -> None:
    """Move a schedule's slots into the past by `interval`, as if it had not been fired since."""
    connection.execute(
        """
        update sluice.schedule as s
        set starts_at = least(s.starts_at, now() - %(interval)s::interval),
            (next_slot, due_at) = (
                select n.slot, sluice._slot_due_at(s, n.slot)
                from sluice._next_slot(
                    row(s.name, s.target, s.queue_name, s.message, s.headers, s.event, s.cron, s.every, s.time_zone,
                        s.catch_up, s.catch_up_within, s.jitter, now() - %(interval)s::interval, s.ends_at,
                        s.declared_by, s.paused_at, s.next_slot, s.due_at, s.last_slot, s.last_fired_at, s.error, s.looked_at,
                        s.undeclared_at
                    )::sluice.schedule,
                    now() - %(interval)s::interval - interval '1 microsecond'
                ) as n (slot)
            )
        where s.name = %(name)s
        """,
        {"interval": interval, "name": name},
    )


def fire(connection: psycopg.Connection) -> list[tuple[str, datetime, int | None, str | None]]:
    """Fire once; return the fired slots."""
    return rows(connection, "select * from sluice.fire_schedules()")


def fire_all(connection: psycopg.Connection) -> list[tuple[str, datetime, int | None, str | None]]:
    """Fire until nothing is due; return the fired slots."""
    fired = []
    while some := fire(connection):
        fired += some
    return fired


def fired_slots(connection: psycopg.Connection, name: str = "nightly") -> list[datetime]:
    """Return the fired slots, in order."""
    return [
        slot
        for (slot,) in rows(
            connection, "select slot from sluice.schedule_slot where name = %s order by 1", name
        )
    ]


def state(connection: psycopg.Connection, column: str, name: str = "nightly") -> Any:
    """Return a column of a schedule."""
    return value(connection, f"select {column} from sluice.list_schedules() where name = %s", name)
