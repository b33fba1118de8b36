"""Notifiers on a real server: notifications, their timing and frequency, and their cost."""

from __future__ import annotations

import os
import signal
import threading
import time

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from pgsluice import Notifier, WorkQueue
from pgsluice.errors import ArgumentError, PrivilegeError
from support import rows, value, wait_until
from support.listen import Channel, running


@pytest.fixture
def notifier(pool):
    with running(Notifier(pool, heartbeat_s=3600)) as notifier:
        yield notifier


@pytest.fixture
def channel(worker_url, queue_name, notifier):
    """The queue's channel, with a running notifier that has found the queue."""
    with Channel(worker_url, queue_name) as channel:
        with psycopg.connect(worker_url, autocommit=True) as connection:
            # Any notification of this message arrives before the test starts.
            WorkQueue(connection).send(queue_name, "first")
            assert channel.wait(30)
            WorkQueue(connection).pop(queue_name)
        channel.drain(0.3)
        yield channel


@pytest.mark.slow
def test_a_message_is_announced_at_its_commit_and_not_before(worker_url, queue_name, channel):
    with psycopg.connect(worker_url) as sender:
        WorkQueue(sender).send_batch(queue_name, list(range(100)))
        assert not channel.wait(0.5)

        sender.commit()

        assert channel.wait(5)
        assert channel.drain(0.5) == 0


def test_send_issues_no_notify(worker_url, queue_name, observer, pool):
    """Without a notifier there is no notification, so senders never take the lock of NOTIFY."""
    with Channel(worker_url, queue_name) as channel:
        WorkQueue(observer).send(queue_name, 1)

        assert channel.drain(0.5) == 0


def test_the_end_of_a_delay_is_announced_when_it_comes(observer, queue_name, channel):
    began = time.monotonic()
    WorkQueue(observer).send(queue_name, "later", delay=2)

    assert channel.wait(10)

    assert 1.9 <= time.monotonic() - began <= 5
    assert len(WorkQueue(observer).read(queue_name, 30)) == 1


@pytest.mark.slow
def test_expired_claim_is_announced_at_its_expiry(observer, queue_name, channel):
    WorkQueue(observer).send(queue_name, "claimed")
    assert channel.wait(5)
    assert len(WorkQueue(observer).read(queue_name, 2)) == 1
    began = time.monotonic()
    channel.drain(0.5)

    assert channel.wait(10)

    assert 1.9 <= time.monotonic() - began <= 5
    assert len(WorkQueue(observer).read(queue_name, 30)) == 1


@pytest.mark.slow
def test_a_message_given_back_is_announced(observer, queue_name, channel):
    WorkQueue(observer).send(queue_name, "claimed")
    assert channel.wait(5)
    (message,) = WorkQueue(observer).read(queue_name, 3600)
    channel.drain(0.5)

    assert WorkQueue(observer).release(queue_name, message.msg_id, message.read_ct)

    assert channel.wait(5)


@pytest.mark.slow
def test_a_message_whose_claim_was_rolled_back_is_announced_again(
    worker_url, observer, queue_name, channel
):
    with psycopg.connect(worker_url) as reader:
        WorkQueue(observer).send(queue_name, 1)
        assert len(WorkQueue(reader).read(queue_name, 30)) == 1
        channel.drain(0.3)
        reader.rollback()

    assert channel.wait(10)


@pytest.mark.slow
def test_deleting_and_archiving_announce_nothing(observer, queue_name, channel):
    ids = WorkQueue(observer).send_batch(queue_name, [1, 2, 3, 4])
    assert len(WorkQueue(observer).read(queue_name, 3600, 4)) == 4
    channel.drain(0.5)

    WorkQueue(observer).delete(queue_name, ids[0])
    WorkQueue(observer).archive(queue_name, ids[1])

    assert channel.drain(0.5) == 0


@pytest.mark.slow
def test_each_queue_is_announced_to_its_own_listeners_only(
    worker_url, observer, queue_name, channel
):
    other = f"{queue_name}_other"
    WorkQueue(observer).create(other)
    with Channel(worker_url, other) as of_other:
        WorkQueue(observer).send(other, 1)

        assert of_other.wait(10)
        assert channel.drain(0.2) == 0


@pytest.mark.slow
def test_a_queue_that_ddl_holds_delays_no_other(worker_url, observer, queue_name, channel):
    other = f"{queue_name}_locked"
    WorkQueue(observer).create(other)
    with Channel(worker_url, other) as of_other:
        WorkQueue(observer).send(other, 1)
        assert of_other.wait(10)
    with psycopg.connect(worker_url) as ddl:
        ddl.execute(f"lock table pgmq.q_{other} in access exclusive mode")
        for _ in range(4):
            WorkQueue(observer).send(queue_name, 1)

            assert channel.wait(5)
            channel.drain(0.5)


def test_a_queue_that_is_dropped_and_made_again_is_announced(observer, queue_name, channel):
    WorkQueue(observer).drop_queue(queue_name)
    WorkQueue(observer).create(queue_name)
    WorkQueue(observer).send(queue_name, 1)

    assert channel.wait(5)


@pytest.mark.slow
def test_two_notifiers_announce_once_between_them(
    pool, worker_url, observer, queue_name, notifier, channel
):
    """The first is the fixture's; the second takes over only after 30 s."""
    wait_until(lambda: notifier.is_leader, "the first to lead")
    before = channel.drain(0.2)
    with running(Notifier(pool, heartbeat_s=3600, poll_interval_s=10)) as second:
        channel.drain(1.5)
        for sent in range(5):
            WorkQueue(observer).send(queue_name, sent)
            assert channel.wait(5)
            assert WorkQueue(observer).pop(queue_name)
            assert channel.drain(0.4) == 0, "announced twice"
        assert not second.is_leader
    assert before == 0


def test_a_notifier_takes_over_from_one_that_is_gone(pool, observer, queue_name, worker_url):
    with running(Notifier(pool)) as first:
        wait_until(lambda: first.is_leader, "the first notifier to lead")
        with running(Notifier(pool)) as second, Channel(worker_url, queue_name) as channel:
            first.stop_now()
            WorkQueue(observer).send(queue_name, 1)

            assert channel.wait(10)
            wait_until(lambda: second.is_leader, "the second to lead")


def test_messages_sent_without_a_leader_are_announced_by_the_next_leader(
    pool, observer, queue_name, worker_url
):
    WorkQueue(observer).send(queue_name, 1)
    with Channel(worker_url, queue_name) as channel, running(Notifier(pool)):
        assert channel.wait(10)


def test_it_gives_signs_of_life(pool, worker_url):
    with Channel(worker_url, None) as channel, running(Notifier(pool, heartbeat_s=0.1)):
        for _ in range(5):
            assert channel.wait(5)


def test_a_server_that_ends_its_sessions_is_waited_out(pool, observer, queue_name, channel):
    ended = rows(
        observer,
        "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
        "where datname = current_database() and backend_type = 'client backend' "
        "and pid not in (pg_backend_pid(), %s)",
        channel.backend_pid,
    )
    assert ended
    WorkQueue(observer).send(queue_name, 1)

    assert channel.wait(20)


def test_permanent_error_stops_it(worker_url, observer):
    observer.execute("create role stranger login")
    try:
        with (
            ConnectionPool(worker_url, kwargs={"user": "stranger"}, min_size=1) as strangers,
            pytest.raises(PrivilegeError, match="sluice_reader"),
        ):
            Notifier(strangers).run(threading.Event())
    finally:
        observer.execute("drop role stranger")


@pytest.mark.parametrize("bad", [0, -1, float("nan")])
def test_an_interval_that_cannot_be_is_refused(pool, bad):
    with pytest.raises(ArgumentError, match="poll_interval_s is "):
        Notifier(pool, poll_interval_s=bad)
    with pytest.raises(ArgumentError, match="heartbeat_s is "):
        Notifier(pool, heartbeat_s=bad)


@pytest.mark.slow
def test_a_notifier_over_quiet_queues_uses_no_transaction_id(observer, queue_name, channel):
    # Databases created and dropped concurrently use a few ids, too; rounds would use a hundred.
    before = value(observer, "select pg_current_xact_id()::text::bigint")
    assert channel.drain(2) == 0
    used = value(observer, "select pg_current_xact_id()::text::bigint") - before

    assert (
        value(
            observer,
            "select extract(epoch from clock_timestamp() - called_at)::float8 from sluice.leader('notifier')",
        )
        < 0.5
    )
    assert used < 20


@pytest.mark.slow
def test_one_slow_round_hardly_delays_the_next_announcement(observer, queue_name, channel):
    """A busy machine may stop a backend for a tenth of a second; an idle round rests nine times its duration."""
    notifiers = (
        "select pid from pg_stat_activity "
        r"where datname = current_database() and query ~ 'sluice\.notifier_(pulse|poll|wake|queues)' and pid <> pg_backend_pid()"
    )
    time.sleep(1.5)  # rests are short within a second of a message
    pids = [pid for (pid,) in rows(observer, notifiers)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(0.3)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    channel.drain(0.1)

    began_s = time.monotonic()
    WorkQueue(observer).send(queue_name, 1)

    assert pids
    assert channel.wait(10)
    assert time.monotonic() - began_s < 1, "without an average it takes 2.4 s"
