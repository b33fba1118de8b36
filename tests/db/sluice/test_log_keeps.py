"""sluice.log_keeps: whether a reader can go on from a snapshot."""

from __future__ import annotations

import psycopg

LOG = "log"


def keeps(connection: psycopg.Connection, snapshot: str) -> bool:
    row = connection.execute(
        "select sluice.log_keeps(%s, %s::pg_snapshot)", (LOG, snapshot)
    ).fetchone()
    assert row is not None
    return row[0]


def test_what_the_oldest_tick_does_not_see_is_kept(log: psycopg.Connection):
    snapshots = [
        snapshot
        for (snapshot,) in log.execute("select tick_snapshot::text from pgq.tick order by tick_id")
    ]

    log.execute("delete from pgq.tick where tick_id < 3")

    assert [keeps(log, snapshot) for snapshot in snapshots] == [False, False, True, True, True]


def test_what_a_consumer_has_not_seen_is_kept_although_its_tick_went(log: psycopg.Connection):
    (snapshot,) = log.execute(
        "select tick_snapshot::text from pgq.tick where tick_id = 2"
    ).fetchone()
    log.execute("select sluice.log_start(%s, 'c', '2')", (LOG,))
    log.execute("delete from pgq.tick where tick_id < 3")

    assert keeps(log, snapshot)
    log.execute("select pgq.unregister_consumer(%s, 'c')", (LOG,))
    assert not keeps(log, snapshot)
