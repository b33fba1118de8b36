"""sluice._dead_letter: dead events in the dead-letter log of the group, or in the table."""

import json

import pytest

from support import rows, value, wait_until


@pytest.fixture
def group(connection):
    """The log `events` with the share group `g`, whose dead events go to the log `dead`."""
    connection.execute("select pgq.create_queue('events'), pgq.create_queue('dead')")
    connection.execute(
        'select sluice.create_group(\'events\', \'g\', \'{"dead_letter_log": "dead", "max_attempts": 1, "max_deliveries": 1, "lease": "100 ms"}\')'
    )
    connection.execute("select pgq.insert_event('events', 't', 'd', 'a', null, null, 'e')")
    return connection


def reject(connection):
    claim = value(connection, "select claim_id from sluice.claim('events', 'g')")
    connection.execute(
        "select sluice.acknowledge('events', 'g', %s, 'reject', null, null, 'trace', 'bad')",
        (claim,),
    )
    return claim


def dead_lettered(connection):
    found = rows(
        connection, "select ev_type, ev_data from pgq.event_template where ev_type = 'dead'"
    )
    return [(ev_type, json.loads(ev_data)) for ev_type, ev_data in found]


def test_it_goes_to_the_log_for_them_with_all_that_is_known(group):
    ev_time = value(group, "select ev_time from pgq.event_template")
    claim = reject(group)

    ((ev_type, data),) = dead_lettered(group)

    assert ev_type == "dead"
    assert value(group, "select %s::timestamptz = %s", data.pop("ev_time"), ev_time)
    assert data == {
        "queue_name": "events", "group_name": "g", "claim_id": claim, "ev_id": 1,
        "ev_type": "t", "ev_data": "d", "ev_extra1": "a", "ev_extra2": None, "ev_extra3": None, "ev_extra4": "e",
        "redriven": 0, "attempts": 1, "deliveries": 1, "reason": "bad", "error": "trace",
    }  # fmt: skip
    assert value(group, "select count(*) from sluice.dead_event") == 0


def test_it_goes_there_only_if_the_transaction_that_decides_it_commits(database, group):
    with database.connect(autocommit=False) as session:
        reject(session)
        session.rollback()

    assert dead_lettered(group) == []


@pytest.mark.parametrize(
    "change",
    [
        "select pgq.drop_queue('dead')",
        "update pgq.queue set queue_disable_insert = true where queue_name = 'dead'",
        "update pgq.queue set queue_per_tx_limit = 0 where queue_name = 'dead'",
    ],
)
def test_event_refused_by_the_dead_letter_log_is_kept_and_the_group_continues(group, change):
    assert len(rows(group, "select * from sluice.claim('events', 'g')")) == 1
    group.execute(change)
    group.execute("select pgq.insert_event('events', 't', 'next')")

    # The lease of the only attempt expires, and the next claim dead-letters the event.
    wait_until(
        lambda: rows(group, "select ev_data from sluice.claim('events', 'g', 10)") == [("next",)],
        "the next event",
    )
    wait_until(
        lambda: (
            rows(group, "select * from sluice.claim('events', 'g')") == []
            and value(group, "select count(*) from sluice.dead_event") == 2
        ),
        "both events to be dead-lettered",
    )
    assert rows(group, "select ev_data, redriven from sluice.dead_event order by ev_id") == [
        ("d", 0),
        ("next", 0),
    ]
