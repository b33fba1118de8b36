"""Members of a share group that handle a part of its event types."""

from __future__ import annotations

from psycopg.rows import namedtuple_row

from support import value
from support.share_groups import LOG, acknowledge, create_group, make_log

GROUP = "workers"


def make_typed(connection):
    """Create a group with handlers of two types; return the connection."""
    make_log(connection)
    create_group(connection, backoff="constant", backoff_base="0")
    declare(connection, on_paid="paid", on_shipped="shipped")
    return connection


def declare(connection, **types: str | None) -> None:
    connection.execute(
        "select sluice.declare_types(%s, %s, 'shop', %s::text[], %s::text[])",
        (LOG, GROUP, list(types), list(types.values())),
    )


def send(connection, *types: str | None, key: str | None = None) -> None:
    for event_type in types:
        connection.execute(
            "select pgq.insert_event(%s, %s, %s, %s, null, null, null)",
            (LOG, event_type, str(event_type), key),
        )


def claim(connection, qty, *types: str, others: bool = False, every: bool = False):
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute(
            "select * from sluice.claim(%s, %s, %s, null::interval, true, %s::text[], %s)",
            (LOG, GROUP, qty, None if every else list(types), others),
        ).fetchall()


def handle(connection, qty, *types: str, **how) -> list[str | None]:
    """Claim and accept; return the types in the order of the claim."""
    events = claim(connection, qty, *types, **how)
    if events:
        acknowledge(connection, events[0].claim_id)
    return [event.ev_type for event in events]


def switch(connection) -> None:
    connection.execute("update sluice.ledger set kept_bytes = 0")
    assert value(connection, "select action from sluice._maintain_ledgers(0)") == "emptied"


def listed(connection):
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute("select * from sluice.list_types(%s, %s)", (LOG, GROUP)).fetchall()
