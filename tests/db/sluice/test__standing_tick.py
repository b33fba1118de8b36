"""sluice._standing_tick: retained ticks, and ticks at which a consumer stands."""

from __future__ import annotations

import psycopg

LOG = "log"


def test_a_reader_goes_on_from_where_its_consumer_stands_although_the_tick_went(
    log: psycopg.Connection,
):
    log.execute("select sluice.log_start(%s, 'c', '2')", (LOG,))
    kept = log.execute("select sluice._standing_tick(1, 2)::text").fetchone()
    log.execute("delete from pgq.tick where tick_id = 2")

    assert log.execute("select sluice._standing_tick(1, 2)::text").fetchone() == kept
    assert log.execute(
        "select tick_id from sluice.log_end(%s, 2::bigint, 1, null)", (LOG,)
    ).fetchone() == (3,)
    assert log.execute(
        "select tick_id from sluice.log_start(%s, null, '2')", (LOG,)
    ).fetchone() == (2,)

    log.execute("select pgq.unregister_consumer(%s, 'c')", (LOG,))
    assert log.execute("select tick_id from sluice._standing_tick(1, 2)").fetchone() == (None,)
