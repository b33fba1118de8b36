"""Share groups in tests: one-line calls, and a clock that can be advanced."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from support import rows, value

LOG = "changes"
GROUP = "workers"


def make_log(connection: psycopg.Connection, log: str = LOG) -> None:
    """Create a log that ticks and rotates on every call."""
    connection.execute("select pgq.create_queue(%s)", (log,))
    connection.execute(
        """update pgq.queue
        set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0', queue_rotation_period = '0'"""
    )


def create_group(
    connection: psycopg.Connection, group: str = GROUP, *, log: str = LOG, **options: object
) -> bool:
    """Create a group with options, by default from the oldest retained event on."""
    options = {"start": "earliest", **options}
    made = value(
        connection, "select sluice.create_group(%s, %s, %s)", log, group, json.dumps(options)
    )
    assert isinstance(made, bool)
    return made


def send(connection: psycopg.Connection, *datas: object, log: str = LOG) -> list[int]:
    """Insert an event for each text; return their ids."""
    return [
        value(connection, "select pgq.insert_event(%s, 't', %s)", log, str(data)) for data in datas
    ]


def send_many(connection: psycopg.Connection, count: int, *, log: str = LOG) -> None:
    """Insert events with the data 1 to `count`, in one transaction."""
    connection.execute(
        "select pgq.insert_event(%s, 't', n::text) from generate_series(1, %s) as n", (log, count)
    )


def claim(
    connection: psycopg.Connection,
    qty: int = 1,
    lease: str | None = None,
    *,
    group: str = GROUP,
    log: str = LOG,
    synchronous: bool = True,
    types: list[str] | None = None,
) -> list[Any]:
    """Return the events of one claim, each a tuple with the names of `sluice.claimed_event`.

    Args:
        types: Only of these types; `rest` stands for all types without a declaration.
    """
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute(
            "select * from sluice.claim(%s, %s, %s, %s::interval, %s, %s::text[], %s)",
            (log, group, qty, lease, synchronous, types, types is not None and "rest" in types),
        ).fetchall()


def claimed(connection: psycopg.Connection, qty: int = 1, **how: Any) -> list[int]:
    """Return the ids of the events of one claim, in delivery order."""
    return [event.ev_id for event in claim(connection, qty, **how)]


def acknowledge(
    connection: psycopg.Connection,
    claim_id: int,
    outcome: str | None = "accept",
    ev_ids: list[int] | None = None,
    *,
    delay: str | None = None,
    error: str | None = None,
    reason: str | None = None,
    group: str = GROUP,
    log: str = LOG,
) -> int:
    """Acknowledge events; return their number."""
    settled = value(
        connection,
        "select sluice.acknowledge(%s, %s, %s, %s, %s::bigint[], %s::interval, %s, %s)",
        log,
        group,
        claim_id,
        outcome,
        ev_ids,
        delay,
        error,
        reason,
    )
    assert isinstance(settled, int)
    return settled


def renew(
    connection: psycopg.Connection,
    claim_id: int,
    lease: str | None = None,
    *,
    group: str = GROUP,
    log: str = LOG,
) -> Any:
    """Return the new end of the lease."""
    return value(
        connection, "select sluice.renew(%s, %s, %s, %s::interval)", log, group, claim_id, lease
    )


def take_all(connection: psycopg.Connection, **how: Any) -> list[int]:
    """Claim and accept until nothing is left; return the ids in delivery order."""
    found: list[int] = []
    while events := claim(connection, 100, **how):
        acknowledge(
            connection,
            events[0].claim_id,
            group=how.get("group", GROUP),
            log=how.get("log", LOG),
        )
        found += [event.ev_id for event in events]
    return found


def let_pass(connection: psycopg.Connection, time: str = "1 hour") -> None:
    """Advance the clock of all groups, by moving every time in the ledgers back."""
    moments = {
        "claim": [
            "claimed_at",
            "lease_until",
            "from_due",
            "upto_due",
            "lapsed_until",
            "look_at",
            "moved_at",
        ],
        "outcome": ["outcome_at"],
        "redelivery": ["due_at"],
        "key_turn": ["since", "due_at"],
    }
    for table, columns in moments.items():
        changes = ", ".join(f"{column} = {column} - %(time)s::interval" for column in columns)
        connection.execute(f"update sluice.{table} set {changes}", {"time": time})


def info(connection: psycopg.Connection, group: str = GROUP, *, log: str = LOG) -> Any:
    """Return the row of `sluice.group_info`, by names."""
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute("select * from sluice.list_groups(%s, %s)", (log, group)).fetchone()


def open_claims(
    connection: psycopg.Connection, group: str = GROUP, *, log: str = LOG
) -> dict[int, Any]:
    """Return the rows of `sluice.list_claims` by claim, by names."""
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        found = cursor.execute("select * from sluice.list_claims(%s, %s)", (log, group)).fetchall()
    return {row.claim_id: row for row in found}


def dead(connection: psycopg.Connection, group: str = GROUP, *, log: str = LOG) -> list[tuple]:
    """Return the dead letters of the group: id, reason, error, attempts, deliveries."""
    return rows(
        connection,
        """select msg_id, reason, error, attempts, read_ct from sluice.dead_letter
        where queue_name = %s and consumer_name = %s order by dead_letter_id""",
        log,
        group,
    )


def refused(connection: psycopg.Connection, query: str, *parameters: object) -> psycopg.Error:
    """Return the error of a statement."""
    try:
        connection.execute(query, parameters or None)
    except psycopg.Error as error:
        return error
    raise AssertionError(f"no error from {query}")


def rotate(connection: psycopg.Connection, log: str = LOG) -> dict[int | None, tuple]:
    """Rotate a log; return the action and the reason for each old segment."""
    return {
        segment: (action, reason)
        for segment, action, reason in rows(
            connection, "select segment, action, reason from sluice.rotate(%s)", log
        )
        if action != "switched"
    }
