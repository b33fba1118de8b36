"""sluice.log_commit: what a reader of an event log has done with."""

from __future__ import annotations

import psycopg

LOG = "log"


def commit(connection: psycopg.Connection, tick: int, consumer: str = "c") -> bool:
    row = connection.execute(
        "select sluice.log_commit(%s, %s, %s)", (LOG, consumer, tick)
    ).fetchone()
    assert row is not None
    return row[0]


def position(connection: psycopg.Connection) -> tuple[int, int | None]:
    row = connection.execute("select sub_last_tick, sub_batch from pgq.subscription").fetchone()
    assert row is not None
    return row[0], row[1]


def test_a_position_only_moves_forward(log: psycopg.Connection):
    log.execute("select sluice.log_start(%s, 'c', 'earliest')", (LOG,))

    assert [commit(log, 4), commit(log, 2), commit(log, 4)] == [True, False, False]
    assert position(log) == (4, None)


def test_a_position_never_moves_to_a_tick_that_is_not_there(log: psycopg.Connection):
    log.execute("select sluice.log_start(%s, 'c', 'earliest')", (LOG,))

    assert not commit(log, 99)
    assert position(log) == (1, None)


def test_an_open_tick_batch_is_left_alone(log: psycopg.Connection):
    log.execute("select sluice.log_start(%s, 'c', 'earliest')", (LOG,))
    log.execute("select pgq.next_batch(%s, 'c')", (LOG,))
    before = position(log)

    assert not commit(log, 5)
    assert position(log) == before


def test_a_snapshot_moves_it_to_the_last_tick_that_it_covers(log: psycopg.Connection):
    log.execute("select sluice.log_start(%s, 'c', 'earliest')", (LOG,))
    log.execute("select pgq.insert_event(%s, 't', 'd')", (LOG,))
    for snapshot, expected in [
        ("(select tick_snapshot from pgq.tick where tick_id = 3)", (True, 3)),
        ("(select tick_snapshot from pgq.tick where tick_id = 2)", (False, 3)),
        ("pg_current_snapshot()", (True, 5)),
        ("pg_current_snapshot()", (False, 5)),
    ]:
        (moved,) = log.execute(f"select sluice.log_commit('log', 'c', {snapshot})").fetchone()
        assert (moved, position(log)[0]) == expected
    assert log.execute(
        "select sluice.log_commit('log', 'none', pg_current_snapshot())"
    ).fetchone() == (False,)
