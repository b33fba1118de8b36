"""sluice.log_commit: the committed position of a reader of an event log."""

from __future__ import annotations

import psycopg

from support import rows, value

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


def test_a_keeper_that_commits_what_its_lake_holds_is_waited_for_until_it_does(
    log: psycopg.Connection,
):
    """The pipeline `events` commits its position only after the lake has committed."""
    log.execute("update pgq.queue set queue_rotation_period = '0'")
    log.execute(
        'select sluice.set_log_options(%s, \'{"max_lag_events": 1, "keepers": ["lake"]}\'), '
        "sluice.log_start(%s, 'lake', 'earliest')",
        (LOG, LOG),
    )

    def rotate() -> list[tuple]:
        log.execute("select pgq.insert_event(%s, 't', 'd')", (LOG,))
        log.execute("select sluice.log_tick(%s)", (LOG,))
        return rows(log, "select action, reason from sluice.rotate(%s)", LOG)

    rotate()
    held = [rotate()[0] for _ in range(2)]
    events = value(log, "select count(*) from pgq.event_1")
    commit(log, 6, "lake")

    assert held == [("kept", "not yet read by lake")] * 2
    assert events == 43
    assert "reclaimed" in [action for action, _ in rotate() + rotate()]


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
