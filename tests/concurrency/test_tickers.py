"""Two tickers in fixed orders: with the lock no event is lost or doubled; without it, some are."""

from __future__ import annotations

import threading

import psycopg
import pytest

from support import replace_in, rows, value, wait_for_lock
from support.log import consume_all, tick

LOCK = "if not pgq._lock_ticks(i_queue.queue_id, false) then"
GATE = 4711


@pytest.fixture
def log(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    connection.execute("select pgq.register_consumer('changes', 'lake')")


def rewrite_ticker(connection, *, locked):
    """Add a gate to the ticker after it takes its snapshot, and optionally remove its lock.

    The gate is in the statement whose snapshot becomes the tick, before the tick gets its number:
        there a ticker can be overtaken.
    """
    replace_in(
        connection,
        "pgq._take_tick(integer)",
        "nextval($2::regclass)",
        f"(select nextval($2::regclass) from pg_advisory_xact_lock_shared({GATE}) as gate)",
    )
    if not locked:
        replace_in(connection, "pgq._tick_if_due(pgq.queue)", LOCK, "if false then")


def overtake(database, connection):
    """Stop a ticker after its snapshot, commit an event, run another ticker, then resume the first.

    Return the second ticker's result.
    """
    with (
        database.connect(autocommit=False) as gate,
        database.connect() as slow,
    ):
        gate.execute("select pg_advisory_xact_lock(%s)", (GATE,))
        first = threading.Thread(target=lambda: slow.execute("select pgq.ticker('changes')"))
        first.start()
        wait_for_lock(connection, slow)
        connection.execute("select pgq.insert_event('changes', 't', 'between the snapshots')")
        # The second ticker runs in the session that holds the gate and is not stopped by it.
        second = value(gate, "select pgq.ticker('changes')")
        gate.commit()
        first.join(30)
        return second


def test_a_ticker_that_is_overtaken_breaks_the_order_without_the_lock(database, connection, log):
    rewrite_ticker(connection, locked=False)

    assert isinstance(overtake(database, connection), int)

    backward = """select count(*) from (
        select pg_snapshot_xmax(tick_snapshot) < pg_snapshot_xmax(lag(tick_snapshot) over (order by tick_id)) as behind
        from pgq.tick) as t where behind"""
    assert value(connection, backward) == 1
    tick(connection)
    delivered = [ev_id for batch in consume_all(connection) for ev_id in batch]
    assert delivered == [1, 1], "the planted bug must deliver the event twice"


def test_with_the_lock_the_second_ticker_leaves_it_to_the_first(database, connection, log):
    rewrite_ticker(connection, locked=True)

    assert overtake(database, connection) is None

    tick(connection)
    delivered = [ev_id for batch in consume_all(connection) for ev_id in batch]
    assert delivered == [1]


def tick_from_an_old_snapshot(database, connection):
    """Tick with a snapshot that precedes an event and another ticker's tick."""
    with database.connect(autocommit=False) as old:
        old.execute("set transaction isolation level repeatable read")
        value(old, "select count(*) from pgq.consumer")
        connection.execute("select pgq.insert_event('changes', 't', 'behind the snapshot')")
        tick(connection)
        ticked = value(old, "select pgq.ticker('changes')")
        old.commit()
        return ticked


def test_a_stale_snapshot_is_no_tick(database, connection, log):
    with pytest.raises(psycopg.Error, match="cannot tick event log 'changes'"):
        tick_from_an_old_snapshot(database, connection)

    tick(connection)
    assert [ev_id for batch in consume_all(connection) for ev_id in batch] == [1]


def test_a_stale_snapshot_as_tick_doubles_an_event(database, connection, log):
    """The planted bug: any isolation level is accepted, and the last tick is not checked."""
    replace_in(
        connection,
        "pgq.ticker(text)",
        "current_setting('transaction_isolation') <> 'read committed'",
        "false",
    )
    replace_in(
        connection,
        "pgq._take_tick(integer)",
        "perform pgq._require_newer_snapshot(i_queue_id);",
        "",
    )

    assert isinstance(tick_from_an_old_snapshot(database, connection), int)

    tick(connection)
    delivered = [ev_id for batch in consume_all(connection) for ev_id in batch]
    assert delivered == [1, 1], "the planted bug must deliver the event twice"


@pytest.mark.slow
def test_two_tickers_and_writers_that_commit_late_lose_and_double_nothing(database_18):
    """Two tickers and four writers, with long transactions, rollbacks and savepoints."""
    with database_18.connect() as connection:
        connection.execute("select pgq.create_queue('changes')")
        connection.execute(
            "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
        )
        connection.execute("select pgq.register_consumer('changes', 'lake')")
    errors: list[Exception] = []
    done = threading.Event()

    def guarded(work):
        def run():
            try:
                with database_18.connect() as session:
                    work(session)
            except Exception as error:
                errors.append(error)

        return threading.Thread(target=run)

    def write(number):
        def work(session: psycopg.Connection):
            for i in range(250):
                with session.transaction(force_rollback=i % 10 == 3):
                    session.execute(
                        "select pgq.insert_event('changes', 't', %s)", (f"{number}-{i}",)
                    )
                    with session.transaction(force_rollback=i % 3 == 0):
                        session.execute(
                            "select pgq.insert_event('changes', 't', %s)",
                            (f"{number}-{i}-savepoint",),
                        )
                    if i % 5 == 0:
                        # Keep it open over a few ticks.
                        last = value(session, "select max(tick_id) from pgq.tick")
                        while value(session, "select max(tick_id) from pgq.tick") < last + 3:
                            pass

        return work

    def tick_on(session: psycopg.Connection):
        while not done.is_set():
            session.execute("select pgq.ticker('changes')")

    delivered: list[int] = []

    def consume(session: psycopg.Connection):
        while not done.is_set():
            for batch in consume_all(session):
                delivered.extend(batch)

    writers = [guarded(write(number)) for number in range(4)]
    others = [guarded(tick_on), guarded(tick_on), guarded(consume)]
    for thread in writers + others:
        thread.start()
    for thread in writers:
        thread.join(200)
    done.set()
    for thread in others:
        thread.join(60)

    assert errors == []
    with database_18.connect() as connection:
        tick(connection)
        for batch in consume_all(connection):
            delivered.extend(batch)
        committed = [
            ev_id for (ev_id,) in rows(connection, "select ev_id from pgq.event_1 order by 1")
        ]
        backward = value(
            connection,
            """select count(*) from (
                select t.tick_snapshot as s, lag(t.tick_snapshot) over (order by tick_id) as before from pgq.tick as t
            ) as pair
            where pg_snapshot_xmax(s) < pg_snapshot_xmax(before) or pg_snapshot_xmin(s) < pg_snapshot_xmin(before)""",
        )
        ticks = value(connection, "select count(*) from pgq.tick")
    assert len(committed) > 1000
    assert ticks > 100
    assert backward == 0
    assert sorted(delivered) == committed
