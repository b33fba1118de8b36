"""sluice.log_start, log_end, log_commit and log_incarnation: positions in an event log."""

from __future__ import annotations

import psycopg
import pytest

LOG = "log"


@pytest.fixture
def log(connection: psycopg.Connection) -> psycopg.Connection:
    """A log with the ticks 1 to 5, ten events between any two."""
    connection.execute("select pgq.create_queue(%s)", (LOG,))
    for _ in range(4):
        for _ in range(10):
            connection.execute("select pgq.insert_event(%s, 't', 'd')", (LOG,))
        connection.execute("select sluice.log_tick(%s)", (LOG,))
    return connection


def start(connection: psycopg.Connection, starting: str, consumer: str | None = None) -> int:
    row = connection.execute(
        "select sluice.log_start(%s, %s, %s)", (LOG, consumer, starting)
    ).fetchone()
    assert row is not None
    return row[0]


def end(
    connection: psycopg.Connection, first: int | None, events: int | None, last: int | None = None
) -> int:
    row = connection.execute(
        "select sluice.log_end(%s, %s::bigint, %s::bigint, %s::bigint)", (LOG, first, events, last)
    ).fetchone()
    assert row is not None
    return row[0]


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


def test_earliest_is_the_oldest_tick_and_holds_it(log: psycopg.Connection):
    assert start(log, "earliest", "c") == 1
    assert position(log) == (1, None)


def test_latest_stays_where_it_was_asked_first(log: psycopg.Connection):
    assert start(log, "latest", "c") == 5
    log.execute("select pgq.insert_event(%s, 't', 'd')", (LOG,))
    log.execute("select sluice.log_tick(%s)", (LOG,))

    assert start(log, "latest", "c") == 5
    assert start(log, "latest") == 6


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


@pytest.mark.parametrize(
    ("first", "events", "last", "expected"),
    [
        (1, 10, None, 2),
        (1, 29, None, 3),
        (1, 1_000_000, None, 5),
        (1, 1, None, 2),  # one tick at the least
        (1, 1_000_000, 3, 3),
        (3, 10, 3, 3),
        (5, 10, None, 5),
        (None, None, None, 5),
    ],
)
def test_the_end_is_the_last_tick_within_so_many_events(
    log: psycopg.Connection, first: int | None, events: int | None, last: int | None, expected: int
):
    assert end(log, first, events, last) == expected


def test_the_end_after_a_tick_that_is_gone_is_an_error(log: psycopg.Connection):
    log.execute("delete from pgq.tick where tick_id < 3")

    with pytest.raises(psycopg.DatabaseError, match="no longer keeps tick 1") as caught:
        end(log, 1, 10)
    assert caught.value.sqlstate == "PQ004"


def test_a_position_only_moves_forward(log: psycopg.Connection):
    start(log, "earliest", "c")

    assert [commit(log, 4), commit(log, 2), commit(log, 4)] == [True, False, False]
    assert position(log) == (4, None)


def test_a_position_never_moves_to_a_tick_that_is_not_there(log: psycopg.Connection):
    start(log, "earliest", "c")

    assert not commit(log, 99)
    assert position(log) == (1, None)


def test_an_open_tick_batch_is_left_alone(log: psycopg.Connection):
    start(log, "earliest", "c")
    log.execute("select pgq.next_batch(%s, 'c')", (LOG,))
    before = position(log)

    assert not commit(log, 5)
    assert position(log) == before


def test_a_log_made_again_is_another_log(log: psycopg.Connection):
    def incarnation() -> str:
        row = log.execute("select sluice.log_incarnation(%s)", (LOG,)).fetchone()
        assert row is not None
        return row[0]

    before = incarnation()
    log.execute("select pgq.drop_queue(%s)", (LOG,))
    log.execute("select pgq.create_queue(%s)", (LOG,))

    assert incarnation() != before


@pytest.mark.parametrize(
    "call",
    ["log_incarnation('none')", "log_start('none', 'c', 'earliest')", "log_end('none', 1, 1, 1)"],
)
def test_an_unknown_log_is_named(connection: psycopg.Connection, call: str):
    with pytest.raises(psycopg.DatabaseError, match="event log 'none' does not exist") as caught:
        connection.execute(f"select sluice.{call}".encode())
    assert caught.value.sqlstate == "PQ001"
