"""sluice.notifier_pulse with queues: waits in the server, and announces visible messages itself."""

from __future__ import annotations

import time

import psycopg
import pytest

from pgsluice.worker.loops import run_in_thread
from support import replace_in, rows, value, wait_for_sleep
from support.notify import Listener

AWAIT = """
    select is_leader, last_ids, first_ready, last_ready
    from sluice.notifier_pulse(
        1, '1 s', %s::text[]::regclass[]::oid[], %s::text[], %s::bigint[], %s::bigint[], %s::boolean[], %s::interval,
        %s::interval
    )
"""
NOTIFIER_AWAIT = (
    "sluice.notifier_pulse"
    "(integer,interval,oid[],text[],bigint[],bigint[],boolean[],interval,interval)"
)

HOLD = "v_hold constant interval := '50 ms'"


def announced(session, known, seen, *, wait="0", pause="1 ms", is_pending=False, names=("a",)):
    """Run one call for queues that all have the same known and seen id."""
    sequences = [f"pgmq.q_{name}_msg_id_seq" for name in names]
    each = [[id_] * len(names) for id_ in (known, seen, is_pending)]
    return rows(session, AWAIT, sequences, list(names), *each, wait, pause)[0]


@pytest.fixture
def queue(connection):
    connection.execute("select pgmq.create('a'), pgmq.create('b')")
    # Other tests write in databases of the same server, which would end the waits.
    replace_in(connection, NOTIFIER_AWAIT, HOLD, HOLD.replace("50 ms", "1 hour"))
    return connection


@pytest.fixture
def listener(database, queue):
    with database.connect() as session:
        yield Listener(session, "sluice.q_a", "sluice.q_b")


def test_a_message_above_the_seen_id_is_announced_at_once(queue, listener):
    queue.execute("select pgmq.send_batch('a', array['1', '2', '3']::jsonb[])")

    assert announced(queue, 1, 1) == (True, [3], [2], [3])
    assert listener.heard() == ["sluice.q_a"]


def test_a_queue_that_has_not_moved_is_not_announced(queue, listener):
    queue.execute("select pgmq.send('a', '1')")

    assert announced(queue, 1, 0) == (True, [1], [None], [None])
    assert announced(queue, 1, 0, is_pending=True) == (True, [1], [1], [1])
    assert listener.heard() == ["sluice.q_a"]


def test_only_the_queue_with_a_message_is_announced(queue, listener):
    queue.execute("select pgmq.send('b', '1')")

    found = announced(queue, None, 0, names=("a", "b"))

    assert found == (True, [None, 1], [None, 1], [None, 1])
    assert listener.heard() == ["sluice.q_b"]


def check_delayed(_database, queue, listener, timeout="1 s"):
    queue.execute(f"set statement_timeout = '{timeout}'")
    queue.execute("select pgmq.send('a', '1', 60)")

    assert announced(queue, None, 0, wait="1 min") == (True, [1], [None], [None])
    assert listener.heard() == []


def test_delayed_message_moves_the_queue_without_an_announcement(database, queue, listener):
    check_delayed(database, queue, listener, timeout="30 s")


def check_late_commit(database, queue, listener, wait="1 s"):
    """Send in a transaction that is committed while the notifier waits."""
    with database.connect(autocommit=False) as sender, database.connect() as notifier:
        sender.execute("select pgmq.send('a', '1')")
        began_s = time.monotonic()
        waiting = run_in_thread(
            "waiter", lambda: announced(notifier, 1, 0, wait=wait, is_pending=True)
        )
        wait_for_sleep(queue, notifier)
        assert listener.heard() == []
        sender.commit()

        assert waiting.result(10) == (True, [1], [1], [1])
    assert time.monotonic() - began_s < 10
    assert listener.heard() == ["sluice.q_a"]


def test_the_wait_ends_with_the_commit_of_a_send(database, queue, listener):
    check_late_commit(database, queue, listener, wait="30 s")


def test_a_transaction_that_writes_ends_a_wait_which_would_keep_its_dead_rows(database, connection):
    connection.execute("select pgmq.create('a')")
    with database.connect() as notifier:
        began_s = time.monotonic()
        waiting = run_in_thread("waiter", lambda: announced(notifier, None, 0, wait="60 s"))
        while not waiting.done():
            connection.execute("select pg_current_xact_id()")
            time.sleep(0.005)

        assert waiting.result() == (True, [None], [None], [None])
        assert 0.05 <= time.monotonic() - began_s < 30


def test_a_wait_lasts_while_nobody_writes(connection):
    connection.execute("select pgmq.create('a')")
    for _ in range(20):  # other tests, and the server's own processes, may write
        snapshot = value(connection, "select pg_current_snapshot()")
        began_s = time.monotonic()
        announced(connection, None, 0, wait="0.3 s")
        took_s = time.monotonic() - began_s
        if value(connection, "select pg_current_snapshot()") == snapshot:
            assert took_s >= 0.3
            return
    pytest.fail("others wrote in each of 20 waits")


def check_locks(database, queue, _listener):
    """Look at the locks on a pending queue during a wait."""
    with database.connect(autocommit=False) as sender, database.connect() as notifier:
        sender.execute("select pgmq.send('a', '1')")
        # The pause is so long that the locks are looked at during it.
        waiting = run_in_thread(
            "waiter",
            lambda: announced(notifier, 1, 0, wait="30 s", pause="0.4 s", is_pending=True),
        )
        wait_for_sleep(queue, notifier)
        held = rows(
            queue,
            "select c.relname, l.mode from pg_locks as l join pg_class as c on c.oid = l.relation "
            "where l.pid = %s and c.relname like 'q\\_a%%' and c.relkind <> 'S'",
            notifier.info.backend_pid,
        )
        sender.commit()
        assert waiting.result(10) == (True, [1], [1], [1])
    assert held == []


def test_no_lock_on_the_table_of_a_pending_queue_is_held_during_the_wait(database, queue, listener):
    check_locks(database, queue, listener)


def test_without_a_change_the_wait_ends_after_its_time(queue):
    began_s = time.monotonic()

    assert announced(queue, None, 0, wait="0.2 s") == (True, [None], [None], [None])

    assert 0.2 <= time.monotonic() - began_s < 10


def check_locked_queue(database, queue, listener):
    queue.execute("select pgmq.send('a', '1'), pgmq.send('b', '1')")
    with database.connect(autocommit=False) as other:
        other.execute("lock table pgmq.q_a")
        found = announced(queue, None, 0, names=("a", "b"))
        other.rollback()

    assert found == (True, [1, 1], [None, 1], [None, 1])
    assert listener.heard() == ["sluice.q_b"]


def test_a_queue_that_is_locked_or_gone_does_not_stop_the_others(database, queue, listener):
    check_locked_queue(database, queue, listener)


def test_queue_being_dropped_gives_no_ids(database, queue):
    with database.connect(autocommit=False) as dropper:
        dropper.execute("select pgmq.drop_queue('a')")

        queue.execute("set statement_timeout = '10 s'")
        assert announced(queue, None, 0, wait="1 s") == (True, None, None, None)


def test_standby_returns_at_once(database, queue):
    with database.connect(autocommit=False) as leader:
        assert announced(leader, None, 0)[0] is True
        began_s = time.monotonic()

        assert announced(queue, None, 0, wait="30 s") == (False, None, None, None)

    assert time.monotonic() - began_s < 10


def test_a_wait_that_finds_nothing_writes_nothing(database, queue):
    with database.connect(autocommit=False) as notifier:
        announced(notifier, None, 0, wait="20 ms")

        assert value(notifier, "select pg_current_xact_id_if_assigned()") is None


def test_a_reader_may_await(database, queue, role):
    queue.execute(f"grant sluice_reader to {role}")
    queue.execute("select pgmq.send('a', '1')")
    with database.connect(user=role) as reader:
        assert announced(reader, None, 0) == (True, [1], [1], [1])


# Bug → the check that finds it, a part of the function's source, and the bug that replaces it.
PLANTED = {
    "a queue is read once per move of its sequence": (
        check_late_commit,
        "when sqlstate 'RL000' then\n                        null;",
        "when sqlstate 'RL000' then\n                        is_pending[i] := false;",
    ),
    "commits after the first look are not seen": (
        check_late_commit,
        "v_snapshot := pg_current_snapshot();",
        "v_snapshot := coalesce(v_snapshot, pg_current_snapshot()::text);",
    ),
    "the locks of a look are kept": (check_locks, "raise sqlstate 'RL000';", "null;"),
    "a locked queue ends the call": (
        check_locked_queue,
        "when others then",
        "when division_by_zero then",
    ),
    "a message that stays invisible does not end the wait": (
        check_delayed,
        "v_end := least(v_end, v_began + v_give_up);",
        "",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(database, queue, listener, bug):
    check, old, new = PLANTED[bug]
    replace_in(queue, NOTIFIER_AWAIT, old, new)

    # A wait that does not end runs into the timeout of its statement.
    with pytest.raises((AssertionError, psycopg.errors.QueryCanceled)):
        check(database, queue, listener)
