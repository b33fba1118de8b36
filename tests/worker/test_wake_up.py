"""When sources claim on a real server: on notifications, at due times, and rarely otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import timedelta

import psycopg
import pytest

from pgsluice import App, AsyncListener, EventLog, ListenerState, Notifier, Ticker, WorkQueue
from pgsluice.outcome import Done, Retry
from pgsluice.worker.engine.delivery import Settlement
from pgsluice.worker.engine.flow.worker import Worker
from pgsluice.worker.handlers.handler import GroupRoute, Limits, QueueRoute
from support import value
from support.listen import running
from support.sources import make_source, pool_of, spec, until

HEARTBEAT_S = 0.4
# Longer than any test, so that only notifications and due times cause claims.
NEVER_S = 600.0


class Counting(psycopg.AsyncCursor):
    """A cursor that counts the statements of a test."""

    statements = 0

    async def execute(self, *args, **kwargs):
        type(self).statements += 1
        return await super().execute(*args, **kwargs)


@pytest.fixture
def counting():
    Counting.statements = 0
    return Counting


@pytest.fixture
def log_name(observer, queue_name):
    observer.execute("select pgq.create_queue(%s)", [f"log_{queue_name}"])
    return f"log_{queue_name}"


@contextlib.asynccontextmanager
async def listening(url, **options):
    async with AsyncListener(
        url, **{"heartbeat_s": HEARTBEAT_S, "fallback_poll_s": NEVER_S, **options}
    ) as listener:
        yield listener


async def reliable(source):
    """Wait until the source's subscription is reliable."""
    await until(lambda: source._polling.subscription.is_reliable, "a reliable subscription")


async def look(source, arrived):
    """Claim and wait, as a lane with unlimited slots does."""
    while True:
        for delivery in await source.claim(10, 30):
            arrived.append((time.monotonic(), delivery))
            if not arrived[-1][1].attempt > 1:
                await source.settle({delivery: Settlement(Done())})
        await source.wait(NEVER_S)


@contextlib.asynccontextmanager
async def looking(*sources):
    """Claim from each source in a task; yield the deliveries."""
    arrived = []
    tasks = [asyncio.create_task(look(source, arrived)) for source in sources]
    try:
        yield arrived
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def arrival(arrived, count, deadline_s=30):
    await until(lambda: len(arrived) >= count, "a delivery", deadline_s)


@pytest.mark.slow
def test_all_sources_of_an_idle_process_ask_no_more_often_together_than_the_listener_says(
    worker_url, pool, observer, queue_name, log_name, counting
):
    """With the default of 30 s these are two statements a minute."""
    other = f"{queue_name}_other"
    WorkQueue(observer).create(other)
    fallback_poll_s, seconds = 0.25, 5.0

    async def main():
        async with (
            pool_of(worker_url, cursor_factory=counting) as counted,
            listening(worker_url, heartbeat_s=5, fallback_poll_s=fallback_poll_s) as listener,
        ):
            routes = (QueueRoute(queue_name), QueueRoute(other), GroupRoute(log_name, "mailers"))
            sources = [make_source(spec(route), counted, listener, "tester") for route in routes]
            for source in sources:
                await source.prepare()
                await reliable(source)
            async with looking(*sources):
                await asyncio.sleep(fallback_poll_s)  # the first claim of each
                counting.statements = 0
                await asyncio.sleep(seconds)
                return counting.statements

    with (
        running(Notifier(pool, heartbeat_s=HEARTBEAT_S)),
        running(Ticker(pool, heartbeat_s=HEARTBEAT_S)),
    ):
        statements = asyncio.run(main())

    assert 5 <= statements <= seconds / fallback_poll_s


@pytest.mark.long
def test_an_idle_worker_polls_twice_and_reports_twice_a_minute(
    worker_url, pool, observer, queue_name, counting
):
    app = App()

    @app.handler(queue_name)
    async def handle(payload: dict) -> None:
        pass

    worker = Worker(app, conninfo=worker_url, connection_options={"cursor_factory": counting})

    async def main():
        running_worker = asyncio.create_task(worker.run())
        await asyncio.sleep(15)
        counting.statements = 0
        await asyncio.sleep(120)
        seen = counting.statements
        worker.stop()
        await running_worker
        return seen

    with running(Notifier(pool)):
        assert asyncio.run(main()) <= 8


def test_a_message_is_handled_as_soon_as_it_is_sent(worker_url, pool, observer, queue_name):
    app = App()
    started = {}

    @app.handler(queue_name)
    async def handle(number: int) -> None:
        started[number] = time.monotonic()

    worker = Worker(app, conninfo=worker_url)
    sent = {}

    async def main():
        working = asyncio.create_task(worker.run())
        await until(
            lambda: worker.status().listener == ListenerState.LISTENING, "the worker to listen"
        )
        for number in range(30):
            sent[number] = time.monotonic()
            await asyncio.to_thread(WorkQueue(observer).send, queue_name, number)
            await asyncio.sleep(0.02)
        await until(lambda: len(started) == 30, "the messages to be handled")
        worker.stop()
        await working

    with running(Notifier(pool)):
        asyncio.run(main())

    assert max(started[number] - sent[number] for number in sent) < 10, "it polls twice a minute"


def lateness(observer, arrived):
    """Return by how many seconds each delivery came after its due time, an epoch in its payload."""
    now_s, server_s = (
        time.monotonic(),
        value(observer, "select extract(epoch from clock_timestamp())::float8"),
    )
    return [at_s - (now_s + delivery.payload - server_s) for at_s, delivery in arrived]


@pytest.mark.slow
@pytest.mark.parametrize("is_listening", [False, True], ids=["polling", "listening"])
def test_a_delayed_message_is_handled_at_its_time(
    worker_url, pool, observer, queue_name, is_listening, counting
):
    """A polling source claims each second, so one of these due times is 0.6 s from its polls; a listening one never."""
    now = value(observer, "select clock_timestamp()")
    due_times = [now + timedelta(seconds=after_s) for after_s in (2, 3.33, 4.66)]

    async def main():
        async with (
            pool_of(worker_url, cursor_factory=counting) as counted,
            listening(worker_url) as listener,
        ):
            used_listener = listener if is_listening else None
            source = make_source(spec(QueueRoute(queue_name)), counted, used_listener, "tester")
            await source.prepare()
            if is_listening:
                await reliable(source)
            for due in due_times:
                WorkQueue(observer).send(queue_name, due.timestamp(), delay=due)
            async with looking(source) as arrived:
                await arrival(arrived, 3)
            return arrived, counting.statements

    with running(Notifier(pool, heartbeat_s=HEARTBEAT_S)):
        arrived, statements = asyncio.run(main())

    late = lateness(observer, arrived)
    assert all(-0.005 <= seconds < 0.4 for seconds in late), late
    assert statements < 40


@pytest.mark.parametrize("far", ["20000-01-01", "infinity"])
def test_a_message_delayed_beyond_the_year_9999_stops_no_worker(
    worker_url, observer, queue_name, far
):
    app = App()
    handled = []

    @app.handler(queue_name)
    async def handle(payload: str) -> None:
        handled.append(payload)

    worker = Worker(app, conninfo=worker_url)

    async def main():
        working = asyncio.create_task(worker.run())
        await until(lambda: handled == ["now"] or working.done(), "the message to be handled")
        worker.stop()
        await working

    observer.execute(
        "select pgmq.send(%s, '\"never\"'::jsonb, %s::text::timestamptz)", [queue_name, far]
    )
    WorkQueue(observer).send(queue_name, "now")
    asyncio.run(main())

    assert handled == ["now"]


def test_an_event_is_handled_as_soon_as_it_is_inserted_and_again_at_its_time(
    worker_url, pool, observer, log_name
):
    async def main():
        async with pool_of(worker_url) as pool_of_source, listening(worker_url) as listener:
            source = make_source(
                spec(GroupRoute(log_name, "mailers")), pool_of_source, listener, "tester"
            )
            await source.prepare()
            await reliable(source)
            async with looking(source) as arrived:
                for number in range(5):
                    EventLog(observer).insert_event(log_name, "t", str(number))
                    await arrival(arrived, number + 1, 10)
            EventLog(observer).insert_event(log_name, "t", "fails")
            (failing,) = await source.claim(1, 30)
            await source.settle({failing: Settlement(Retry(1.5))})
            due_s = time.monotonic() + 1.5
            async with looking(source) as again:
                await arrival(again, 1)
                late_s = [again[0][0] - due_s]
            EventLog(observer).insert_delayed_event(log_name, "t", "later", delay=2)
            due_s = time.monotonic() + 2
            # A new source, as the first one may have fetched the next due time before this event
            # existed.
            source = make_source(
                spec(GroupRoute(log_name, "mailers")), pool_of_source, listener, "tester"
            )
            await source.prepare()
            async with looking(source) as later:
                await arrival(later, 1)
                late_s.append(later[0][0] - due_s)
            return [(d.payload, d.attempt) for _, d in (*arrived, *again, *later)], late_s

    with running(Ticker(pool, period_max_s=0.1, heartbeat_s=HEARTBEAT_S)):
        payloads, late_s = asyncio.run(main())

    assert payloads == [
        *((str(number), 1) for number in range(5)),
        ("fails", 2),
        ("later", 1),
    ]
    assert all(-0.1 < late < 0.3 for late in late_s), late_s


@pytest.mark.slow
def test_expired_claim_is_found_at_its_expiry(worker_url, pool, observer, queue_name, log_name):
    async def main():
        async with pool_of(worker_url) as pool_of_source, listening(worker_url) as listener:
            for route in (QueueRoute(queue_name), GroupRoute(log_name, "mailers")):
                source = make_source(spec(route), pool_of_source, listener, "tester")
                await source.prepare()
                await reliable(source)
                if route == QueueRoute(queue_name):
                    WorkQueue(observer).send(queue_name, "1")
                else:
                    EventLog(observer).insert_event(log_name, "t", "1")
                while not await source.claim(1, 1):
                    await source.wait(1)
                expires_s = time.monotonic() + 1
                async with looking(source) as arrived:
                    await arrival(arrived, 1, 10)
                yield arrived[0][0] - expires_s

    async def collect():
        return [late async for late in main()]

    with (
        running(Notifier(pool, heartbeat_s=HEARTBEAT_S)),
        running(Ticker(pool, heartbeat_s=HEARTBEAT_S)),
    ):
        late = asyncio.run(collect())

    assert all(-0.1 < seconds < 0.5 for seconds in late), late


@pytest.mark.slow
def test_whatever_happens_to_the_listener_nothing_is_missed(worker_url, pool, observer, queue_name):
    """Messages sent between two connections of the listener are found by the claim after each."""
    kill = (
        "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
        "where application_name = 'pgsluice listener' and datname = current_database()"
    )

    async def main():
        async with pool_of(worker_url) as pool_of_source, listening(worker_url) as listener:
            source = make_source(spec(QueueRoute(queue_name)), pool_of_source, listener, "tester")
            await source.prepare()
            async with looking(source) as arrived:
                for number in range(10):
                    await reliable(source)
                    await asyncio.to_thread(observer.execute, kill)
                    await asyncio.to_thread(WorkQueue(observer).send, queue_name, number)
                    await arrival(arrived, number + 1, 10)
            return [delivery.payload for _, delivery in arrived]

    with running(Notifier(pool, heartbeat_s=HEARTBEAT_S)):
        assert asyncio.run(main()) == list(range(10))


@pytest.mark.slow
def test_without_anybody_who_notifies_it_polls_once_a_second_at_the_most_rarely(
    worker_url, observer, queue_name, counting
):
    observer.execute("alter sequence sluice.notifier_turn restart")

    async def main():
        async with (
            pool_of(worker_url, cursor_factory=counting) as counted,
            listening(worker_url) as listener,
        ):
            source = make_source(spec(QueueRoute(queue_name)), counted, listener, "tester")
            await source.prepare()
            async with looking(source) as arrived:
                await asyncio.sleep(4)
                statements = counting.statements
                WorkQueue(observer).send(queue_name, "seldom")
                sent_s = time.monotonic()
                await arrival(arrived, 1, 5)
            return listener.state, statements, arrived[0][0] - sent_s

    state, statements, latency_s = asyncio.run(main())

    assert state is ListenerState.NO_NOTIFIER
    assert 8 <= statements <= 20, "each poll is a claim and a query for the next due time"
    assert latency_s < 1.5


@pytest.mark.slow
def test_a_limited_queue_is_looked_at_when_it_has_room_again(
    worker_url, pool, observer, queue_name
):
    """A listener is notified once of readable messages, and never of free limits."""
    WorkQueue(observer).send_batch(queue_name, list(range(12)))
    rate = Limits(rate=4, rate_s=0.5)

    async def main():
        async with pool_of(worker_url) as engine, listening(worker_url) as listener:
            limited = spec(QueueRoute(queue_name), limits=rate)
            source = make_source(limited, engine, listener, "tester")
            await source.prepare()
            await reliable(source)
            async with looking(source) as arrived:
                await arrival(arrived, 12, 10)
            return [at_s - arrived[0][0] for at_s, _ in arrived]

    with running(Notifier(pool, heartbeat_s=HEARTBEAT_S)):
        times = asyncio.run(main())

    stored = WorkQueue(observer).queue_options(queue_name)
    assert (stored.rate, stored.rate_interval) == (4, timedelta(seconds=0.5))
    assert 0.4 <= times[4] < 0.9
    assert 0.9 <= times[8] < 1.8
