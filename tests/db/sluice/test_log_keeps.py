"""sluice.log_keeps: true if the log retains all events after a snapshot."""

from __future__ import annotations

import psycopg

LOG = "log"


def keeps(connection: psycopg.Connection, snapshot: str) -> bool:
    row = connection.execute(
        "select sluice.log_keeps(%s, %s::pg_snapshot)", (LOG, snapshot)
    ).fetchone()
    assert row is not None
    return row[0]


def test_events_invisible_to_the_oldest_tick_are_kept(log: psycopg.Connection):
    snapshots = [
        snapshot
        for (snapshot,) in log.execute("select tick_snapshot::text from pgq.tick order by tick_id")
    ]

    log.execute("delete from pgq.tick where tick_id < 3")

    assert [keeps(log, snapshot) for snapshot in snapshots] == [False, False, True, True, True]


def test_events_unread_by_a_consumer_are_kept_after_their_tick_is_removed(log: psycopg.Connection):
    (snapshot,) = log.execute(
        "select tick_snapshot::text from pgq.tick where tick_id = 2"
    ).fetchone()
    log.execute("select sluice.log_start(%s, 'c', '2')", (LOG,))
    log.execute("delete from pgq.tick where tick_id < 3")

    assert keeps(log, snapshot)
    log.execute("select pgq.unregister_consumer(%s, 'c')", (LOG,))
    assert not keeps(log, snapshot)
