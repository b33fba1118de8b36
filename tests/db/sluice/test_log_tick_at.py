"""sluice.log_tick_at: the tick from which a reader gets all events committed after a time."""

from __future__ import annotations

import psycopg

LOG = "log"


def test_it_is_the_last_tick_before_the_moment_or_the_oldest(log: psycopg.Connection):
    log.execute("delete from pgq.tick where tick_id = 1")
    log.execute(
        "update pgq.tick set tick_time = '2026-01-01 00:00Z'::timestamptz + make_interval(mins => tick_id::int)"
    )

    found = [
        log.execute(
            "select sluice.log_tick_at(%s, %s::timestamptz)", (LOG, f"2026-01-01 00:{time}Z")
        ).fetchone()
        for time in ("00:00", "02:00", "03:59", "30:00")
    ]

    assert found == [(2,), (2,), (3,), (5,)]
