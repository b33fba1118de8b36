"""sluice.log_span: the ticks that a log retains at least until the transaction ends."""

from __future__ import annotations

import psycopg
import pytest

from conftest import Database
from support import rows, value


@pytest.fixture
def log(connection: psycopg.Connection) -> psycopg.Connection:
    """An event log with three ticks, and a consumer at the second."""
    connection.execute("select pgq.create_queue('l')")
    for number in range(2):
        connection.execute("select pgq.insert_event('l', 'type', 'data')")
        connection.execute("select pgq.force_tick('l')")
        connection.execute("select pgq.ticker('l')")
        if not number:
            connection.execute("select pgq.register_consumer('l', 'c')")
    return connection


SPAN = "select relation::text, from_tick, to_tick from sluice.log_span('l')"


def test_it_goes_from_the_oldest_tick_to_the_newest_or_a_consumers(log: psycopg.Connection):
    newest = "select relation::text, from_tick, to_tick from sluice.log_span('l', %s)"
    snapshots = rows(log, "select tick_id, tick_snapshot::text from pgq.tick order by tick_id")

    assert rows(log, SPAN) == [("pgq.event_1", 1, 3)]
    assert rows(log, newest, "c") == [("pgq.event_1", 1, 2)]
    assert rows(log, "select from_snapshot::text, to_snapshot::text from sluice.log_span('l')") == [
        (snapshots[0][1], snapshots[2][1])
    ]


def test_no_segment_is_emptied_until_the_transaction_that_asked_ends(
    log: psycopg.Connection, database: Database
):
    log.execute("select pgq.unregister_consumer('l', 'c')")
    log.execute("select pgq.set_queue_config('l', 'rotation_period', '0')")
    with database.connect(autocommit=False) as asking:
        asking.read_only = True
        span = rows(asking, SPAN)
        for _ in range(6):
            log.execute("select * from sluice.rotate('l')")
            log.execute("select pgq.force_tick('l')")
            log.execute("select pgq.ticker('l')")
        kept = value(asking, "select count(*) from pgq.event_1")
    for _ in range(6):
        log.execute("select * from sluice.rotate('l')")

    assert span == [("pgq.event_1", 1, 3)]
    assert kept == 2
    assert value(log, "select count(*) from pgq.event_1") == 0


def test_a_consumer_that_is_not_there_is_named(log: psycopg.Connection):
    with pytest.raises(psycopg.Error, match="consumer 'none' is not registered") as caught:
        log.execute("select * from sluice.log_span('l', 'none')")

    assert caught.value.sqlstate == "PQ002"


def test_an_unknown_log_is_named(connection: psycopg.Connection):
    with pytest.raises(psycopg.Error, match="event log 'none' does not exist") as caught:
        connection.execute("select * from sluice.log_span('none')")

    assert caught.value.sqlstate == "PQ001"
