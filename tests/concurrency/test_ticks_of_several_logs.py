"""sluice.tick over several logs: events that are committed late are ticked in each log."""

from __future__ import annotations

import threading

import pytest

from support import replace_in, rows, value, wait_for_lock

GATE = 4712


@pytest.fixture
def logs(connection):
    connection.execute("select pgq.create_queue('a busy log')")
    connection.execute("select pgq.create_queue('b quiet log')")
    for _ in range(4):
        assert ticks(connection) == []


def ticks(session):
    return rows(session, "select log_name, tick_id from sluice.tick()")


def insert(session, log):
    session.execute("select pgq.insert_event(%s, 't', 'd')", (log,))


def test_event_numbered_after_the_first_logs_tick_is_ticked_after_its_late_commit(
    database, connection, logs
):
    # At the gate the ticker has ticked the first log, so it has a transaction id.
    replace_in(
        connection,
        "pgq._take_tick(integer)",
        "perform pgq._notify_tick(i_queue_id, v_tick_id);",
        f"perform pgq._notify_tick(i_queue_id, v_tick_id); perform pg_advisory_xact_lock_shared({GATE});",
    )
    with (
        database.connect(autocommit=False) as gate,
        database.connect(autocommit=False) as producer,
        database.connect() as ticker,
    ):
        for _ in range(4):
            assert ticks(ticker) == []
        gate.execute("select pg_advisory_xact_lock(%s)", (GATE,))
        insert(connection, "a busy log")
        first = threading.Thread(target=lambda: ticks(ticker))
        first.start()
        wait_for_lock(connection, ticker)
        insert(producer, "b quiet log")  # with a higher transaction id than the ticker's
        gate.commit()
        first.join(30)
        for _ in range(4):
            assert ticks(ticker) == []
        producer.commit()

        assert ticks(ticker) == [("b quiet log", 2)]


def test_event_numbered_after_the_callers_transaction_id_is_ticked_after_its_late_commit(
    database, connection, logs
):
    with (
        database.connect(autocommit=False) as producer,
        database.connect() as ticker,
    ):
        with ticker.transaction():
            assert value(ticker, "select pg_current_xact_id()::text") is not None
            insert(producer, "b quiet log")
            assert ticks(ticker) == []
        for _ in range(4):
            assert ticks(ticker) == []
        producer.commit()

        assert ticks(ticker) == [("b quiet log", 2)]


def test_event_numbered_between_two_calls_in_a_transaction_is_ticked_after_its_late_commit(
    database, connection, logs
):
    with (
        database.connect(autocommit=False) as producer,
        database.connect() as ticker,
    ):
        with ticker.transaction():
            insert(connection, "a busy log")
            assert ticks(ticker) == [("a busy log", 2)]
            insert(producer, "b quiet log")
            assert ticks(ticker) == []
        for _ in range(4):
            assert ticks(ticker) == []
        producer.commit()

        assert ticks(ticker) == [("b quiet log", 2)]
