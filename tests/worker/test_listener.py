"""Listeners on a real server: wake-ups, detection of lost notifications, and recovery."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time

import psycopg
import pytest
from psycopg import conninfo

from pgsluice import (
    AsyncListener,
    AsyncWorkQueue,
    EventLog,
    Listener,
    ListenerState,
    Notifier,
    Ticker,
    WorkQueue,
)
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import claims
from pgsluice.errors import ArgumentError
from pgsluice.worker.wakeups.listener_state import Kind, Place
from support import rows, value, wait_until
from support.listen import running
from support.pooler import pooling
from support.proxy import BlackHole
from support.runtime import until

# Longer than any test, so that only notifications wake a reader.
NEVER_S = 600.0
HEARTBEAT_S = 0.4
SESSIONS = (
    "select {} from pg_stat_activity where datname = current_database() "
    "and application_name = 'pgsluice listener'"
)


@pytest.fixture
def notifier(pool):
    with running(Notifier(pool, heartbeat_s=HEARTBEAT_S)) as notifier:
        yield notifier


@contextlib.contextmanager
def listening(url, state=ListenerState.LISTENING, **options):
    with Listener(
        url, **{"heartbeat_s": HEARTBEAT_S, "fallback_poll_s": NEVER_S, **options}
    ) as listener:
        wait_until(lambda: listener.state is state, f"the listener to be {state}")
        yield listener


@pytest.fixture
def listener(worker_url, notifier):
    with listening(worker_url) as listener:
        yield listener


class Reader:
    """Reads a queue in a thread and waits when it is empty, by default without polls."""

    def __init__(self, pool, queue_name, listener, handle, poll_interval_s=NEVER_S):
        self._queue, self._queue_name = WorkQueue(pool), queue_name
        self._listener, self._handle = listener, handle
        self._poll_interval_s = poll_interval_s

    def run(self, stop):
        with self._listener.subscribe(self._queue_name) as subscription:
            while not stop.is_set():
                for message in (messages := self._queue.read(self._queue_name, 30, 10)):
                    self._handle(message)
                if not messages:
                    subscription.wait(self._poll_interval_s, stop)


@contextlib.contextmanager
def handling(pool, queue_name, listener, **options):
    """Run a reader; yield the handled messages."""
    handled = []

    def handle(message):
        WorkQueue(pool).archive(queue_name, message.msg_id)
        handled.append(message.message)

    with running(Reader(pool, queue_name, listener, handle, **options)):
        yield handled


@contextlib.contextmanager
def waiting(listener, queue_name):
    """Yield a subscription after its first wake-up, at the start of listening."""
    with listener.subscribe(queue_name) as subscription:
        assert subscription.wait(30)
        yield subscription


def poll_of(subscription, poll_interval_s=0.01):
    """True if a wait ends because of the short poll interval."""
    began = time.monotonic()
    subscription.wait(poll_interval_s, stop_after(5))
    return time.monotonic() - began < 4


def stop_after(seconds):
    stop = threading.Event()
    timer = threading.Timer(seconds, stop.set)
    timer.daemon = True
    timer.start()
    return stop


def terminate_listeners(observer):
    return len(rows(observer, SESSIONS.format("pg_terminate_backend(pid, 10000)")))


def test_a_worker_that_never_polls_handles_what_is_sent_at_once(
    pool, observer, queue_name, listener
):
    with handling(pool, queue_name, listener) as handled:
        for n in range(5):
            WorkQueue(observer).send(queue_name, n)
            wait_until(lambda n=n: handled[-1:] == [n], "the message to be handled", deadline_s=10)


def test_messages_sent_before_the_worker_starts_are_handled(pool, observer, queue_name, listener):
    WorkQueue(observer).send(queue_name, "early")

    with handling(pool, queue_name, listener) as handled:
        wait_until(lambda: handled == ["early"], "the message to be handled", deadline_s=10)


@pytest.mark.slow
def test_delayed_and_given_back_messages_are_handled_in_time(pool, observer, queue_name, listener):
    handled = []

    def handle(message):
        handled.append(time.monotonic())
        if message.read_ct == 1:
            Runner(pool).run(claims.release_unstarted(queue_name, [message], delay_s=1))

    with running(Reader(pool, queue_name, listener, handle)):
        WorkQueue(observer).send(queue_name, "given back once", delay=1)
        wait_until(lambda: len(handled) == 2, "the second delivery", deadline_s=15)

    assert 0.9 <= handled[1] - handled[0] <= 5


@pytest.mark.slow
def test_one_connection_serves_many_queues_and_threads(pool, observer, queue_name, listener):
    names = [f"{queue_name}_{n}" for n in range(5)]
    for name in names:
        WorkQueue(observer).create(name)
    with contextlib.ExitStack() as stack:
        handled = [
            stack.enter_context(handling(pool, name, listener)) for name in names for _ in "ab"
        ]
        assert value(observer, SESSIONS.format("count(*)")) == 1
        for name in names:
            WorkQueue(observer).send(name, name)

        wait_until(
            lambda: sorted(name for of_one in handled for name in of_one) == names,
            "each message to be handled",
            deadline_s=20,
        )


@pytest.mark.slow
def test_waiter_of_a_queue_is_not_woken_by_another_queue(observer, queue_name, listener):
    other = f"{queue_name}_other"
    WorkQueue(observer).create(other)
    with waiting(listener, queue_name) as mine, waiting(listener, other) as theirs:
        WorkQueue(observer).send(other, 1)

        assert theirs.wait(30, stop_after(10))
        assert not mine.wait(30, stop_after(0.5))


def test_all_who_wait_for_a_queue_are_woken(observer, queue_name, listener):
    with waiting(listener, queue_name) as one, waiting(listener, queue_name) as other:
        WorkQueue(observer).send(queue_name, 1)

        assert one.wait(30, stop_after(10))
        assert other.wait(30, stop_after(10))


def test_it_no_longer_listens_for_those_who_are_gone(observer, queue_name, listener):
    with waiting(listener, queue_name):
        assert Place(Kind.QUEUE, queue_name) in listener._inner._channels

    wait_until(lambda: listener._inner._channels == {}, "the listener to unlisten the queue")
    with waiting(listener, queue_name) as again:
        WorkQueue(observer).send(queue_name, 1)
        assert again.wait(30, stop_after(10))


def test_waiter_polls_once_after_listen_is_established(queue_name, listener):
    """Messages sent between the first poll and LISTEN were announced to other listeners only."""
    with listener.subscribe(queue_name) as subscription:
        assert subscription.wait(NEVER_S, stop_after(20))
        assert listener.is_reliable(Place(Kind.QUEUE, queue_name))
        assert not subscription.wait(NEVER_S, stop_after(0.3))


def test_a_lost_connection_is_made_anew_and_nothing_is_missed(
    pool, observer, queue_name, listener, caplog
):
    caplog.set_level(logging.INFO)
    with handling(pool, queue_name, listener) as handled:
        for n in range(5):
            wait_until(lambda: listener.state is ListenerState.LISTENING, "the listener to listen")
            assert terminate_listeners(observer) == 1
            WorkQueue(observer).send(queue_name, n)
            wait_until(lambda n=n: n in handled, "the message to be handled", deadline_s=20)
        wait_until(
            lambda: listener.state is ListenerState.LISTENING, "the listener to listen again"
        )

    assert handled == [0, 1, 2, 3, 4]
    lost = [
        record for record in caplog.records if 'listener state="connecting"' in record.getMessage()
    ]
    assert 1 <= len(lost) <= 5
    assert all(record.levelno == logging.WARNING for record in lost)


def test_while_it_is_not_to_be_relied_on_a_worker_polls(pool, observer, queue_name):
    nowhere = "host=127.0.0.1 port=1"
    with (
        Listener(nowhere, heartbeat_s=HEARTBEAT_S, fallback_poll_s=NEVER_S) as listener,
        handling(pool, queue_name, listener, poll_interval_s=0.05) as handled,
    ):
        wait_until(lambda: "port" in listener.reason, "the connection to fail")
        WorkQueue(observer).send(queue_name, 1)
        wait_until(lambda: handled == [1], "the message to be handled", deadline_s=10)
        assert listener.state is ListenerState.CONNECTING


def test_missing_notifier_is_logged_and_waiters_poll(worker_url, observer, queue_name, pool):
    observer.execute("alter sequence sluice.notifier_turn restart")
    with listening(worker_url, ListenerState.NO_NOTIFIER) as listener:
        assert "pgsluice notify" in listener.reason
        with waiting(listener, queue_name) as subscription:
            assert poll_of(subscription)

            with running(Notifier(pool, heartbeat_s=HEARTBEAT_S)):
                wait_until(
                    lambda: listener.state is ListenerState.LISTENING, "the listener to listen"
                )


def test_waiters_poll_immediately_when_the_notifier_stops(pool, worker_url, queue_name):
    with (
        running(Notifier(pool, heartbeat_s=HEARTBEAT_S)) as notifier,
        listening(worker_url) as listener,
        waiting(listener, queue_name) as subscription,
    ):
        assert not subscription.wait(0.01, stop_after(0.2)), "it must not poll"
        notifier.stop_now()

        assert subscription.wait(0.01, stop_after(10)), "a wake-up must start a poll"
        assert listener.state is ListenerState.NO_NOTIFIER
        assert poll_of(subscription)


@pytest.mark.slow
def test_a_connection_into_a_black_hole_is_found_within_two_heartbeats(
    worker_url, observer, queue_name, pool
):
    heartbeat_s = 2.0
    parts = conninfo.conninfo_to_dict(worker_url)
    path = f"{parts['host']}/.s.PGSQL.{parts['port']}"
    with BlackHole(path) as proxy, running(Notifier(pool, heartbeat_s=0.5)):
        url = conninfo.make_conninfo(worker_url, host="127.0.0.1", port=proxy.port)
        with (
            listening(url, heartbeat_s=heartbeat_s) as listener,
            handling(pool, queue_name, listener) as handled,
        ):
            wait_until(
                lambda: listener.is_reliable(Place(Kind.QUEUE, queue_name)),
                "the listener to listen",
            )
            began = time.monotonic()
            proxy.swallow()
            WorkQueue(observer).send(queue_name, "unheard")

            wait_until(lambda: handled == ["unheard"], "the message", deadline_s=30)
            assert time.monotonic() - began < 2 * heartbeat_s + 2
            wait_until(lambda: listener.state is ListenerState.LISTENING, "the listener to listen")
            WorkQueue(observer).send(queue_name, "heard")
            wait_until(lambda: handled[1:] == ["heard"], "the message", deadline_s=10)


@pytest.fixture
def pooler_url(worker_url, servers_folder):
    with pooling(worker_url, servers_folder) as url:
        yield url


def test_transaction_pooling_is_logged_once_and_waiters_poll(
    pooler_url, pool, observer, queue_name, notifier, caplog
):
    caplog.set_level(logging.INFO)
    with listening(pooler_url, ListenerState.POOLED) as listener:
        assert "pooler in transaction mode" in listener.reason
        with handling(pool, queue_name, listener, poll_interval_s=0.05) as handled:
            WorkQueue(observer).send(queue_name, 1)
            wait_until(lambda: handled == [1], "the message to be handled", deadline_s=10)
    warnings = [
        record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
    ]
    assert len(warnings) == 1
    assert warnings[0].startswith('listener state="pooled"')


def test_it_stops_at_once_while_it_waits_while_it_connects_and_when_it_is_deaf(
    worker_url, queue_name, notifier
):
    for url in (worker_url, "host=127.0.0.1 port=1", "host=192.0.2.1 port=1"):
        with Listener(url, heartbeat_s=HEARTBEAT_S) as listener:
            subscription = listener.subscribe(queue_name)
            began = time.monotonic()
        assert time.monotonic() - began < 3
        assert listener.state is ListenerState.CLOSED
        assert subscription.wait(0.01) in (True, False)
        subscription.close()


def test_a_worker_stops_at_once_while_it_waits(pool, queue_name, listener):
    with running(Reader(pool, queue_name, listener, lambda _: None)) as reader:
        wait_until(
            lambda: listener.is_reliable(Place(Kind.QUEUE, queue_name)), "the reader to wait"
        )
        began = time.monotonic()
        reader.stop_now()

    assert time.monotonic() - began < 3


@pytest.mark.slow
def test_tasks_wait_as_threads_do(worker_url, queue_name, notifier):
    async def handle_one():
        async with (
            AsyncListener(worker_url, heartbeat_s=HEARTBEAT_S, fallback_poll_s=NEVER_S) as listener,
            await psycopg.AsyncConnection.connect(worker_url, autocommit=True) as connection,
            asyncio.timeout(60),
        ):
            queue = AsyncWorkQueue(connection)
            with listener.subscribe(queue_name) as subscription:
                while not (
                    await subscription.wait(0.01)
                    and listener.is_reliable(Place(Kind.QUEUE, queue_name))
                ):
                    pass
                await queue.send(queue_name, "awaited", delay=1)
                while not (messages := await queue.read(queue_name, 30)):
                    await subscription.wait(NEVER_S)
        return messages[0].message, listener.state

    assert asyncio.run(handle_one()) == ("awaited", ListenerState.CLOSED)


def test_a_listener_that_was_not_started_lets_poll(queue_name):
    listener = Listener("host=127.0.0.1 port=1")
    with listener.subscribe(queue_name) as subscription:
        assert not subscription.wait(0.01)
    assert (listener.state, listener.reason) == (ListenerState.CLOSED, "not started")


@pytest.mark.parametrize("bad", [0, -1, float("nan")])
@pytest.mark.parametrize("name", ["heartbeat_s", "fallback_poll_s"])
def test_a_time_that_cannot_be_is_refused(name, bad):
    with pytest.raises(ArgumentError, match=f"{name} is "):
        Listener("", **{name: bad})


# Logs ---------------------------------------------------------------------------------------------


@pytest.fixture
def log_name(observer, queue_name):
    observer.execute("select pgq.create_queue(%s)", [f"log_{queue_name}"])
    return f"log_{queue_name}"


@pytest.fixture
def ticker(pool):
    with running(Ticker(pool, period_max_s=0.1, heartbeat_s=HEARTBEAT_S)) as ticker:
        yield ticker


@contextlib.contextmanager
def waiting_for_log(listener, log_name):
    """Yield a subscription to a log after its first wake-up."""
    with listener.subscribe_log(log_name) as subscription:
        assert subscription.wait(30)
        wait_until(lambda: subscription.is_reliable, "a heartbeat of the log's ticker")
        subscription.wait(0.01, stop_after(1))
        yield subscription


@pytest.mark.slow
def test_an_event_wakes_those_who_wait_for_its_log_and_no_others(
    worker_url, observer, queue_name, log_name, notifier, ticker
):
    other = f"{log_name}_other"
    observer.execute("select pgq.create_queue(%s)", [other])
    with (
        listening(worker_url) as listener,
        waiting_for_log(listener, log_name) as mine,
        waiting_for_log(listener, other) as theirs,
        waiting(listener, queue_name) as of_queue,
    ):
        EventLog(observer).insert_event(log_name, "t", "1")

        assert mine.wait(30, stop_after(10))
        assert not theirs.wait(30, stop_after(0.3))
        assert not of_queue.wait(30, stop_after(0.3))


@pytest.mark.slow
def test_without_a_ticker_only_those_who_wait_for_logs_poll(
    worker_url, observer, queue_name, log_name, notifier
):
    with (
        listening(worker_url) as listener,
        waiting(listener, queue_name) as of_queue,
        listener.subscribe_log(log_name) as of_log,
    ):
        wait_until(
            lambda: listener.state is ListenerState.NO_TICKER, "the listener to find no ticker"
        )
        assert "pgsluice maintain" in listener.reason
        of_log.wait(0.01, stop_after(1))
        of_queue.wait(0.01, stop_after(0.3))

        assert poll_of(of_log)
        assert not of_queue.wait(0.01, stop_after(0.3)), "it must not poll"


def test_waiters_of_a_log_poll_immediately_when_the_ticker_stops(
    worker_url, pool, log_name, notifier
):
    # The time after which a listener would detect it by missing heartbeats.
    with (
        running(Ticker(pool, heartbeat_s=HEARTBEAT_S)) as ticker,
        listening(worker_url, heartbeat_s=30) as listener,
        waiting_for_log(listener, log_name) as subscription,
    ):
        ticker.stop_now()

        assert subscription.wait(0.01, stop_after(10)), "a wake-up must start a poll"
        assert listener.state is ListenerState.NO_TICKER
        assert poll_of(subscription)


def test_missing_log_blocks_no_listener_and_is_listened_to_after_creation(
    worker_url, observer, queue_name, log_name, ticker, caplog
):
    observer.execute(
        "alter sequence sluice.notifier_turn restart"
    )  # so that the listener checks often
    missing = f"{log_name}_soon"
    with (
        listening(worker_url, ListenerState.NO_NOTIFIER) as listener,
        listener.subscribe(queue_name),
        waiting_for_log(listener, log_name),
        listener.subscribe_log(missing) as subscription,
    ):
        wait_until(lambda: missing in caplog.text, "the warning")
        assert not subscription.is_reliable
        observer.execute("select pgq.create_queue(%s)", [missing])

        wait_until(lambda: subscription.is_reliable, "the log to be listened to")


def test_a_notifier_that_stops_hands_over_and_is_missed_for_no_heartbeat(
    worker_url, pool, observer, queue_name
):
    with (
        running(Notifier(pool, heartbeat_s=HEARTBEAT_S)) as first,
        listening(worker_url, heartbeat_s=30) as listener,
        waiting(listener, queue_name) as subscription,
    ):
        wait_until(lambda: first.is_leader, "the first notifier to lead")
        with running(Notifier(pool, heartbeat_s=HEARTBEAT_S)) as second:
            assert not second.is_leader
            first.stop_now()
            assert subscription.wait(0.01, stop_after(10)), "a wake-up must start a poll"

            began = time.monotonic()
            wait_until(lambda: subscription.is_reliable, "the second notifier to lead", 5)
            assert second.is_leader
            assert time.monotonic() - began < 3


def test_it_connects_and_trusts_at_once_when_the_server_answers_and_a_notifier_is_at_work(
    worker_url, pool, queue_name
):
    with running(Notifier(pool, heartbeat_s=600)) as notifier:
        wait_until(lambda: notifier.is_leader, "the notifier to lead")
        began = time.monotonic()
        with (
            listening(worker_url, heartbeat_s=60) as listener,
            waiting(listener, queue_name) as one,
        ):
            wait_until(lambda: one.is_reliable, "the listener to listen")
            assert time.monotonic() - began < 10, "no heartbeat has arrived since"


async def test_a_log_that_is_created_again_is_listened_to_on_its_new_channel(worker_url, observer):
    """The listener kept the channel of the dropped log, and its readers polled."""
    observer.execute("select pgq.create_queue('again')")
    async with AsyncListener(worker_url) as listener:
        place = listener.subscribe_log("again").place
        await until(lambda: place in listener._channels, "the listener to listen")
        observer.execute("select pgq.drop_queue('again'), pgq.create_queue('again')")
        channel = value(observer, "select sluice.notify_channel('again', 'log')")
        await until(lambda: listener._channels.get(place) == channel, "the new channel", 5)
        observer.execute("select pgq.drop_queue('again')")
        await until(lambda: place in listener._missing, "the drop to be noticed", 5)
        observer.execute("select pgq.create_queue('again')")
        channel = value(observer, "select sluice.notify_channel('again', 'log')")
        await until(lambda: listener._channels.get(place) == channel, "the third channel", 10)
    observer.execute("select pgq.drop_queue('again')")
