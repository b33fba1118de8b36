"""sluice.log_snapshot: the snapshot of a tick."""

from __future__ import annotations

import psycopg

LOG = "log"


def snapshot(connection: psycopg.Connection, tick: int) -> str | None:
    row = connection.execute("select sluice.log_snapshot(%s, %s)::text", (LOG, tick)).fetchone()
    assert row is not None
    return row[0]


def test_a_tick_has_its_snapshot_and_one_that_is_not_there_has_none(log: psycopg.Connection):
    kept = dict(log.execute("select tick_id, tick_snapshot::text from pgq.tick").fetchall())

    assert {tick: snapshot(log, tick) for tick in kept} == kept
    assert snapshot(log, 99) is None
