"""sluice.log_start: the start position of a reader of an event log."""

from __future__ import annotations

import psycopg
import pytest

from support.servers import Database

LOG = "log"


def start(connection: psycopg.Connection, starting: str, consumer: str | None = None) -> int:
    row = connection.execute(
        "select tick_id from sluice.log_start(%s, %s, %s)", (LOG, consumer, starting)
    ).fetchone()
    assert row is not None
    return row[0]


def position(connection: psycopg.Connection) -> tuple[int, int | None]:
    row = connection.execute("select sub_last_tick, sub_batch from pgq.subscription").fetchone()
    assert row is not None
    return row[0], row[1]


def test_earliest_is_the_oldest_tick_and_holds_it(log: psycopg.Connection):
    assert start(log, "earliest", "c") == 1
    assert position(log) == (1, None)


def test_latest_stays_where_it_was_asked_first(log: psycopg.Connection):
    assert start(log, "latest", "c") == 5
    log.execute("select pgq.insert_event(%s, 't', 'd')", (LOG,))
    log.execute("select sluice.log_tick(%s)", (LOG,))

    assert start(log, "latest", "c") == 5
    assert start(log, "latest") == 6


def test_committed_is_where_the_consumer_stands(log: psycopg.Connection):
    start(log, "3", "c")

    assert start(log, "committed", "c") == 3


def test_committed_needs_a_consumer_that_is_registered(log: psycopg.Connection):
    with pytest.raises(psycopg.DatabaseError, match="Not subscriber to queue: log/c") as caught:
        start(log, "committed", "c")
    assert caught.value.sqlstate == "PQ002"
    assert log.execute("select count(*) from pgq.subscription").fetchone() == (0,)


def test_a_tick_can_be_named(log: psycopg.Connection):
    assert start(log, "3", "c") == 3
    assert position(log) == (3, None)


def test_a_tick_that_is_gone_is_named(log: psycopg.Connection):
    log.execute("delete from pgq.tick where tick_id < 3")

    with pytest.raises(psycopg.DatabaseError, match="keeps no tick 2") as caught:
        start(log, "2")
    assert caught.value.sqlstate == "PQ004"
    assert start(log, "earliest") == 3


def test_a_consumer_goes_back_to_an_earlier_start_and_drops_its_open_batch(log: psycopg.Connection):
    log.execute("select pgq.register_consumer(%s, 'c')", (LOG,))
    log.execute("select pgq.insert_event(%s, 't', 'd')", (LOG,))
    log.execute("select sluice.log_tick(%s)", (LOG,))
    log.execute("select pgq.next_batch(%s, 'c')", (LOG,))

    start(log, "2", "c")

    assert position(log) == (2, None)


def test_without_a_consumer_nothing_is_registered(log: psycopg.Connection):
    start(log, "earliest")

    assert log.execute("select count(*) from pgq.subscription").fetchone() == (0,)


def test_an_unknown_log_is_named(connection: psycopg.Connection):
    with pytest.raises(psycopg.DatabaseError, match="event log 'none' does not exist") as caught:
        connection.execute("select sluice.log_start('none', 'c', 'earliest')")
    assert caught.value.sqlstate == "PQ001"


def test_a_time_is_the_last_tick_at_or_before_it_or_the_oldest(log: psycopg.Connection):
    log.execute("delete from pgq.tick where tick_id = 1")
    log.execute(
        "update pgq.tick set tick_time = '2026-01-01 00:00Z'::timestamptz + make_interval(mins => tick_id::int)"
    )

    found = [start(log, f"2026-01-01T00:{time}+00:00") for time in ("00", "02", "03:59", "30")]

    assert found == [2, 2, 3, 5]


def test_a_tick_comes_with_its_snapshot(log: psycopg.Connection):
    kept = log.execute("select tick_id, tick_snapshot::text from pgq.tick order by 1").fetchall()

    assert [
        log.execute(
            "select tick_id, tick_snapshot::text from sluice.log_start(%s, null, %s)",
            (LOG, str(tick)),
        ).fetchone()
        for tick, _ in kept
    ] == kept


def test_no_segment_is_truncated_until_the_transaction_that_asked_ends(
    log: psycopg.Connection, database: Database
):
    log.execute("select pgq.set_queue_config('log', 'rotation_period', '0')")
    with database.connect(autocommit=False) as asking:
        asking.read_only = True
        assert start(asking, "earliest") == 1
        for _ in range(6):
            log.execute("select * from sluice.rotate('log')")
            log.execute("select pgq.force_tick('log')")
            log.execute("select pgq.ticker('log')")
        kept = asking.execute("select count(*) from pgq.event_1").fetchone()
    for _ in range(6):
        log.execute("select * from sluice.rotate('log')")

    assert kept == (40,)
    assert log.execute("select count(*) from pgq.event_1").fetchone() == (0,)
