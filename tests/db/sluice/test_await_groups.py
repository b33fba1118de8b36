"""sluice.await_groups: waits in the server until a log with share groups has new events."""

from __future__ import annotations

import time

import pytest

from pgsluice.worker.loops import run_in_thread
from support import replace_in, rows, value, wait_for_sleep
from support.notify import Listener

AWAIT = "sluice.await_groups(interval,interval)"
WAKE = "sluice._wake_groups()"


@pytest.fixture
def ticker(database, connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.create_group('changes', 'mail')")
    with database.connect() as session:
        insert(session)
        rows(session, "select * from sluice.tick()")
        yield session


@pytest.fixture
def listener(database, connection, ticker):
    with database.connect() as session:
        (channel,) = rows(session, "select sluice.log_channel('changes')")[0]
        yield Listener(session, channel)


def insert(session):
    session.execute("select pgq.insert_event('changes', 't', 'd')")


def waited(session, wait, pause="1 ms"):
    query = "select logs, woken from sluice.await_groups(%s::interval, %s::interval)"
    return rows(session, query, wait, pause)[0]


def check_announced_once(connection, ticker, listener):
    insert(connection)

    assert waited(ticker, "30 s") == (1, 1)
    assert len(listener.heard()) == 1
    assert waited(ticker, "5 ms") == (1, 0)
    assert listener.heard() == []


def test_an_event_is_announced_once(connection, ticker, listener):
    check_announced_once(connection, ticker, listener)


def test_an_event_is_announced_again_when_its_snapshot_is_not_kept(connection, ticker, listener):
    replace_in(
        connection,
        WAKE,
        "v_woken[1], pg_current_snapshot()), false)",
        "v_woken[1], v_woken[2]), false)",
    )

    with pytest.raises(AssertionError, match=r"\(1, 1\) == \(1, 0\)"):
        check_announced_once(connection, ticker, listener)


def test_the_wait_ends_with_the_commit_of_an_event(database, connection, ticker, listener):
    with database.connect(autocommit=False) as sender:
        insert(sender)
        waiting = run_in_thread("waiter", lambda: waited(ticker, "30 s"))
        wait_for_sleep(connection, ticker)
        assert listener.heard() == []
        sender.commit()

        assert waiting.result(10) == (1, 1)
    assert len(listener.heard()) == 1


def test_a_session_that_has_ticked_no_log_with_groups_does_not_wait(connection, ticker):
    began_s = time.monotonic()

    assert waited(connection, "30 s") == (0, 0)

    assert time.monotonic() - began_s < 10


def held_during_a_wait(database, connection, ticker):
    """Return the number of locks on tables and indexes of the log during a wait."""
    with database.connect(autocommit=False) as sender:
        insert(sender)  # takes an id: the log is read in each look
        # The pause is so long that the locks are looked at during it.
        waiting = run_in_thread("waiter", lambda: waited(ticker, "30 s", "0.4 s"))
        wait_for_sleep(connection, ticker)
        held = value(
            connection,
            "select count(*) from pg_locks as l join pg_class as c on c.oid = l.relation "
            "where l.pid = %s and c.relname like 'event%%' and c.relkind <> 'S'",
            ticker.info.backend_pid,
        )
        sender.commit()
        assert waiting.result(10) == (1, 1)
    return held


def test_no_lock_on_tables_of_the_log_is_held_during_the_wait(database, connection, ticker):
    assert held_during_a_wait(database, connection, ticker) == 0


def test_locks_are_held_during_the_wait_when_a_look_is_not_rolled_back(
    database, connection, ticker
):
    replace_in(connection, AWAIT, "raise sqlstate 'RL000';", "null;")

    assert held_during_a_wait(database, connection, ticker) > 0
