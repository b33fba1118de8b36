"""sluice.log_end: the last tick of a reader's micro-batch."""

from __future__ import annotations

import psycopg
import pytest

LOG = "log"


def end(
    connection: psycopg.Connection, first: int | None, events: int | None, last: int | None = None
) -> int:
    row = connection.execute(
        "select sluice.log_end(%s, %s::bigint, %s::bigint, %s::bigint)", (LOG, first, events, last)
    ).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize(
    ("first", "events", "last", "expected"),
    [
        (1, 10, None, 2),
        (1, 29, None, 3),
        (1, 1_000_000, None, 5),
        (1, 1, None, 2),  # at least one tick
        (1, 1_000_000, 3, 3),
        (3, 10, 3, 3),
        (5, 10, None, 5),
        (None, None, None, 5),
    ],
)
def test_end_is_the_last_tick_within_max_count_events(
    log: psycopg.Connection, first: int | None, events: int | None, last: int | None, expected: int
):
    assert end(log, first, events, last) == expected


def test_the_end_after_a_tick_that_is_gone_is_an_error(log: psycopg.Connection):
    log.execute("delete from pgq.tick where tick_id < 3")

    with pytest.raises(psycopg.DatabaseError, match="no longer keeps tick 1") as caught:
        end(log, 1, 10)
    assert caught.value.sqlstate == "PQ004"


def test_an_unknown_log_is_named(connection: psycopg.Connection):
    with pytest.raises(psycopg.DatabaseError, match="event log 'none' does not exist") as caught:
        connection.execute("select sluice.log_end('none', 1, 1, 1)")
    assert caught.value.sqlstate == "PQ001"


@pytest.mark.slow
def test_many_logs_do_not_make_one_slower(connection: psycopg.Connection):
    """Ticks are read from the log's own tables, as pgq.tick has a child for every segment."""
    connection.execute("select pgq.create_queue(%s)", (LOG,))
    connection.execute("select pgq.create_queue('other ' || n) from generate_series(1, 30) as n")

    with connection.transaction():
        assert end(connection, None, None) == 1
        assert end(connection, 1, 10) == 1
        touched = connection.execute(
            "select count(*) from pg_locks where relation::regclass::text ~ '^pgq.tick_[0-9]+_' and pid = pg_backend_pid()"
            " and mode = 'AccessShareLock' and relation::regclass::text !~ '^pgq.tick_1_'"
        ).fetchone()
    assert touched == (0,)
