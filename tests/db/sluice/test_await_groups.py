"""sluice.await_groups: waits in the server until a log with share groups has new events."""

from __future__ import annotations

import time
from itertools import pairwise

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
        (channel,) = rows(session, "select sluice.notify_channel('changes', 'log')")[0]
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


def check_commit(database, connection, ticker, listener, wait="30 s"):
    with database.connect(autocommit=False) as sender:
        insert(sender)
        waiting = run_in_thread("waiter", lambda: waited(ticker, wait))
        wait_for_sleep(connection, ticker)
        assert listener.heard() == []
        sender.commit()

        assert waiting.result(10) == (1, 1)
    assert len(listener.heard()) == 1


def test_the_wait_ends_with_the_commit_of_an_event(database, connection, ticker, listener):
    check_commit(database, connection, ticker, listener)


# A look is left out while no transaction ends

AGAIN = "v_snapshot is distinct from v_seen"


def looks(connection, ticker):
    """Return how often the logs were looked at, and the snapshot of each turn of the wait."""
    connection.execute("create unlogged sequence public.looks")
    connection.execute("grant usage on sequence public.looks to public")
    look, turn = "select w.logs, w.woken into", "v_snapshot := pg_current_snapshot();"
    replace_in(connection, AWAIT, look, f"perform nextval('public.looks'); {look}")
    # Not in a table: a row would take a transaction id, which changes the snapshot.
    seen = "concat_ws(' ', current_setting('tests.snapshots', true), v_snapshot)"
    replace_in(
        connection, AWAIT, turn, f"{turn} perform set_config('tests.snapshots', {seen}, false);"
    )
    assert waited(ticker, "1 s") == (1, 0)
    made = value(connection, "select last_value from public.looks")
    return made, value(ticker, "select current_setting('tests.snapshots')").split()


def test_a_look_is_left_out_while_no_transaction_ends(connection, ticker):
    made, snapshots = looks(connection, ticker)

    # Transactions of other sessions of the server may end meanwhile.
    changes = sum(snapshot != before for before, snapshot in pairwise(snapshots))
    assert made == 1 + changes < len(snapshots)


def test_looks_that_are_always_made_are_found(connection, ticker):
    replace_in(connection, AWAIT, AGAIN, "true")

    made, snapshots = looks(connection, ticker)
    assert made == len(snapshots)


def test_leaving_out_all_looks_but_the_first_is_found(database, connection, ticker, listener):
    replace_in(connection, AWAIT, AGAIN, "v_seen is null")

    with pytest.raises(AssertionError):
        check_commit(database, connection, ticker, listener, "1 s")


def check_parts(connection, ticker):
    """With thousands of logs, a look is at a part of them, in random order."""
    # As without transactions of other sessions of the server, which would cause another look.
    replace_in(connection, AWAIT, ":= pg_current_snapshot()", ":= 'the same'")
    connection.execute("select pgq.create_queue('others'), pgq.insert_event('others', 't', 'd')")
    connection.execute("select sluice.create_group('others', 'mail')")
    rows(ticker, "select * from sluice.tick()")
    replace_in(connection, WAKE, "greatest(sluice._lock_slots() / 8, 2)", "1")
    replace_in(connection, WAKE, "greatest(sluice._lock_slots() / 8 / 25, 1)", "1")
    for _ in range(20):
        insert(connection)
        assert waited(ticker, "1 s") == (1, 1)


def test_looks_at_a_part_of_the_logs_go_on(connection, ticker):
    check_parts(connection, ticker)


def test_leaving_out_looks_after_one_at_a_part_of_the_logs_is_found(connection, ticker):
    replace_in(
        connection,
        AWAIT,
        "v_seen := case when logs >= v_logs then v_snapshot end",
        "v_seen := v_snapshot",
    )

    with pytest.raises(AssertionError):
        check_parts(connection, ticker)


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
