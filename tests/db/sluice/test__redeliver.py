"""sluice._redeliver: expired leases that count as attempts, for events of any size."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value, wait_until
from support.servers import Database
from support.share_groups import create_group

MB = 1024 * 1024


@pytest.fixture(
    params=[
        pytest.param((10, 0), id="small"),
        pytest.param((257 * MB, 0), id="257 MB", marks=pytest.mark.long),
        pytest.param((130 * MB, 130 * MB), id="2 x 130 MB", marks=pytest.mark.long),
    ]
)
def events(request: pytest.FixtureRequest, database_18: Database) -> psycopg.Connection:
    """The log `events` with one event; a group `g` with max_attempts 1."""
    with database_18.connect() as connection:
        connection.execute("select pgq.create_queue('events')")
        create_group(connection, "g", log="events", max_attempts=1)
        connection.execute(
            "select pgq.insert_event('events', 't', repeat('x', %s), repeat('y', %s), null, null, null)",
            request.param,
        )
        yield connection


def claim(connection: psycopg.Connection, lease: str) -> list[tuple[int, int, int]]:
    """Return the claim, attempt and delivery of each event."""
    return rows(
        connection,
        "select claim_id, attempt, deliveries from sluice.claim('events', 'g', 1, %s::interval)",
        lease,
    )


def dead(connection: psycopg.Connection) -> int:
    return value(connection, "select count(*) from sluice.dead_letter")


def test_expired_lease_without_a_sign_of_the_consumer_is_a_delivery_and_no_attempt(
    events: psycopg.Connection,
) -> None:
    found = [claim(events, "1 microsecond") for _ in range(4)]

    assert [[event[1:] for event in batch] for batch in found] == [[(1, 1)], [(1, 2)], [(1, 3)], []]
    assert dead(events) == 1


def test_expired_lease_of_a_consumer_that_renewed_is_an_attempt(
    events: psycopg.Connection,
) -> None:
    ((claim_id, _, _),) = claim(events, "100 ms")
    lease_until = value(events, "select sluice.renew('events', 'g', %s, '1 microsecond')", claim_id)
    wait_until(
        lambda: value(events, "select clock_timestamp() > %s", lease_until), "the lease to expire"
    )
    events.execute("select sluice.maintain_groups()")

    assert claim(events, "1 hour") == []
    assert dead(events) == 1
