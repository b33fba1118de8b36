"""sluice.log_count: the number of events between two snapshots."""

from __future__ import annotations

import psycopg
import pytest


@pytest.mark.parametrize(("at_most", "expected"), [(1000, 20), (7, 7), (20, 20)])
def test_count_is_bounded_by_max_count(log: psycopg.Connection, at_most: int, expected: int):
    log.execute("insert into pgq.event_1_0 (ev_id, ev_time, ev_owner) values (1000, now(), 7)")

    found = log.execute(
        "select sluice.log_count('log', (sluice.log_start('log', null, '2')).tick_snapshot, (sluice.log_start('log', null, '4')).tick_snapshot, %s)",
        (at_most,),
    ).fetchone()

    assert found == (expected,)


def test_copies_for_one_consumer_alone_are_not_counted(log: psycopg.Connection):
    log.execute("insert into pgq.event_1_0 (ev_id, ev_time, ev_owner) values (1000, now(), 7)")

    assert log.execute(
        "select sluice.log_count('log', (sluice.log_start('log', null, '5')).tick_snapshot, pg_current_snapshot(), 10)"
    ).fetchone() == (0,)
