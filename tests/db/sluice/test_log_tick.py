"""sluice.log_tick: a tick that covers all events committed before the call."""

from __future__ import annotations

import psycopg
import pytest

from support.servers import Database

LOG = "log"


@pytest.fixture
def log(connection: psycopg.Connection) -> psycopg.Connection:
    connection.execute("select pgq.create_queue(%s)", (LOG,))
    return connection


def tick(connection: psycopg.Connection) -> int:
    row = connection.execute("select sluice.log_tick(%s)", (LOG,)).fetchone()
    assert row is not None
    return row[0]


def insert(connection: psycopg.Connection) -> None:
    connection.execute("select pgq.insert_event(%s, 't', 'd')", (LOG,))


def test_a_new_event_is_covered_at_once(log: psycopg.Connection):
    insert(log)

    assert tick(log) == 2


def test_no_tick_is_made_when_nothing_is_new(log: psycopg.Connection):
    insert(log)

    assert [tick(log), tick(log), tick(log)] == [2, 2, 2]


def test_an_event_is_new_when_it_is_committed(log: psycopg.Connection, database: Database):
    with database.connect(autocommit=False) as late:
        insert(late)
        assert [tick(log), tick(log)] == [1, 1]
        late.commit()

        assert tick(log) == 2


def test_a_commit_later_than_others_is_new(log: psycopg.Connection, database: Database):
    with database.connect(autocommit=False) as late:
        insert(late)
        insert(log)
        assert [tick(log), tick(log)] == [2, 2]
        late.commit()

        assert tick(log) == 3


def test_a_rollback_is_not_new(log: psycopg.Connection, database: Database):
    insert(log)
    assert tick(log) == 2
    with database.connect(autocommit=False) as late:
        insert(late)
        late.rollback()

    assert tick(log) == 2


def test_a_log_that_is_ticked_from_outside_is_left_alone(log: psycopg.Connection):
    log.execute("update pgq.queue set queue_external_ticker = true")
    insert(log)

    assert tick(log) == 1


def test_it_refuses_a_transaction_whose_snapshot_may_be_old(log: psycopg.Connection):
    log.execute("begin isolation level repeatable read")
    with pytest.raises(psycopg.DatabaseError, match="repeatable read") as caught:
        tick(log)
    log.execute("rollback")
    assert caught.value.sqlstate == "PQ004"


def test_it_refuses_ticks_of_another_server(log: psycopg.Connection):
    log.execute("update pgq.tick set tick_snapshot = '900000000:900000000:'")
    insert(log)

    with pytest.raises(psycopg.DatabaseError, match="behind the last tick") as caught:
        tick(log)
    assert caught.value.sqlstate == "PQ004"


def test_an_unknown_log_is_named(connection: psycopg.Connection):
    with pytest.raises(psycopg.DatabaseError, match="event log 'log' does not exist") as caught:
        tick(connection)
    assert caught.value.sqlstate == "PQ001"
