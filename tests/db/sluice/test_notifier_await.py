"""sluice.notifier_await: waits in the server, and announces visible messages itself."""

from __future__ import annotations

import time

import pytest

from pgsluice.worker.loops import run_in_thread
from support import rows, value, wait_until
from support.notify import Listener

AWAIT = """
    select is_leader, last_ids, first_ready, last_ready
    from sluice.notifier_await(
        1, '1 s', %s::text[], %s::text[]::regclass[]::oid[], %s::bigint[], %s::bigint[], %s::boolean[], %s::interval,
        '1 ms'
    )
"""


def announced(session, known, seen, *, wait="0", is_pending=False, names=("a",)):
    """Run one call for queues that all have the same known and seen id."""
    sequences = [f"pgmq.q_{name}_msg_id_seq" for name in names]
    each = [[id_] * len(names) for id_ in (known, seen, is_pending)]
    return rows(session, AWAIT, list(names), sequences, *each, wait)[0]


@pytest.fixture
def queue(connection):
    connection.execute("select pgmq.create('a'), pgmq.create('b')")
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


def test_delayed_message_moves_the_queue_without_an_announcement(queue, listener):
    queue.execute("select pgmq.send('a', '1', 60)")

    assert announced(queue, None, 0, wait="1 min") == (True, [1], [None], [None])
    assert listener.heard() == []


def test_the_wait_ends_with_the_commit_of_a_send(database, queue, listener):
    with database.connect(autocommit=False) as sender, database.connect() as notifier:
        sender.execute("select pgmq.send('a', '1')")
        began_s = time.monotonic()
        waiting = run_in_thread(
            "waiter", lambda: announced(notifier, 1, 0, wait="30 s", is_pending=True)
        )
        wait_until(
            lambda: value(
                queue, "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"
            ),
            "the notifier to wait",
        )
        assert listener.heard() == []
        sender.commit()

        assert waiting.result(10) == (True, [1], [1], [1])
    assert time.monotonic() - began_s < 10
    assert listener.heard() == ["sluice.q_a"]


def test_without_a_change_the_wait_ends_after_its_time(queue):
    began_s = time.monotonic()

    assert announced(queue, None, 0, wait="0.2 s") == (True, [None], [None], [None])

    assert 0.2 <= time.monotonic() - began_s < 10


def test_a_queue_that_is_locked_or_gone_does_not_stop_the_others(database, queue, listener):
    queue.execute("select pgmq.send('a', '1'), pgmq.send('b', '1')")
    with database.connect(autocommit=False) as other:
        other.execute("lock table pgmq.q_a")
        found = announced(queue, None, 0, names=("a", "b"))
        other.rollback()

    assert found == (True, [1, 1], [None, 1], [None, 1])
    assert listener.heard() == ["sluice.q_b"]


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
