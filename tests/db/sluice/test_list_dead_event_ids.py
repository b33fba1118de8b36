"""sluice.list_dead_event_ids: ids of the dead events of a share group."""

from __future__ import annotations

import psycopg
import pytest

from support import rows

EVENTS = "select * from sluice.list_dead_event_ids"


def ids(connection, query):
    return [row[0] for row in rows(connection, query)]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("", [1, 2, 3, 4, 5, 6]),
        (", 2, 3", [3, 4, 5]),
        (
            ", until => (select dead_at from sluice.dead_event where dead_event_id = 6)",
            [1, 2, 3, 4, 5],
        ),
        (", since => 'infinity'", []),
    ],
)
def test_dead_events_of_one_group_are_listed_in_order_of_ids(dead, arguments, found):
    dead.execute(
        "update sluice.dead_event set dead_at = dead_at - interval '1 hour' where dead_event_id < 6"
    )

    assert ids(dead, f"{EVENTS}('events', 'g'{arguments})") == found
    assert ids(dead, f"{EVENTS}('events', 'h'{arguments})") == []


def test_readers_list_ids_and_monitors_do_not(dead, as_member):
    assert len(as_member("pgq_reader", f"{EVENTS}('events', 'g')")) == 6
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_monitor", f"{EVENTS}('events', 'g')")
