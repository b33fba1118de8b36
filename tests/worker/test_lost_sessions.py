"""Attempts that fail as their session was lost are released uncounted, up to a limit."""

from __future__ import annotations

import asyncio
import contextlib

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from pgsluice import EventLog, WorkQueue
from pgsluice.worker import App, Batch, Context, RetryPolicy, SyncContext
from pgsluice.worker.engine.flow.worker import Worker
from pgsluice.worker.engine.settle.lost_sessions import UNCOUNTED_MAX, LostSessions
from pgsluice.worker.engine.settle.settlement import failed
from support import rows
from support.runtime import MemorySource, until
from worker.test_worker import EFFECT, effects, left

ONCE = RetryPolicy(max_attempts=1)
TERMINATE = "select pg_terminate_backend(pg_backend_pid())"


@pytest.fixture
def app(worker_url):
    return App(worker_url, name="tests")


@contextlib.asynccontextmanager
async def running(app, **options):
    worker = Worker(app, **options)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        async with asyncio.timeout(30):
            await task


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_async", "mode", "is_wrapped"),
    [
        (True, "lease", False),
        (False, "lease", True),
        (True, "transaction", True),
        (False, "transaction", False),
    ],
    ids=["loop", "thread", "loop-transaction", "thread-transaction"],
)
async def test_an_attempt_whose_session_was_terminated_does_not_count(
    app, observer, queue_name, caplog, mode, is_async, is_wrapped
):
    attempts = []

    def begun(context):
        attempts.append(context.attempt)
        return TERMINATE if len(attempts) == 1 else "select 1"

    async def in_loop(_payload, context: Context):
        async with context.transaction() as connection:
            await connection.execute(EFFECT, [queue_name, context.message_id, "written"])
            try:
                await connection.execute(begun(context))
            except psycopg.Error as error:
                raise (ValueError("no result") if is_wrapped else error) from error.__cause__

    def in_thread(_payload, context: SyncContext):
        with context.transaction() as connection:
            connection.execute(EFFECT, [queue_name, context.message_id, "written"])
            try:
                connection.execute(begun(context))
            except psycopg.Error as error:
                raise (ValueError("no result") if is_wrapped else error) from error.__cause__

    app.handler(queue_name, name="tested", mode=mode, retry=ONCE)(
        in_loop if is_async else in_thread
    )
    WorkQueue(observer).send(queue_name, 1)

    async with running(app) as worker:
        await until(
            lambda: left(observer, queue_name) != (1, 0, 0), "the message to leave the queue"
        )

    assert left(observer, queue_name) == (0, 1, 0)
    assert effects(observer, queue_name) == [(1, "written")]
    assert attempts == [1, 1]
    counts = worker.counts()["tested"]
    assert (counts.released, counts.retry, counts.done) == (1, 0, 1)
    (line,) = [each for each in caplog.messages if each.startswith("handler lost its session")]
    assert "outcome=released" in line


@pytest.mark.slow
async def test_of_a_batch_whose_session_was_terminated_no_message_counts(app, observer, queue_name):
    attempts = []

    @app.handler(queue_name, name="tested", batch=Batch(2, 1.0), retry=ONCE)
    async def handle(_payloads: list, contexts: list[Context]):
        attempts.append([context.attempt for context in contexts])
        async with contexts[0].transaction() as connection:
            await connection.execute(TERMINATE if len(attempts) == 1 else "select 1")

    WorkQueue(observer).send_batch(queue_name, [1, 2])

    async with running(app):
        await until(lambda: left(observer, queue_name)[0] == 0, "the messages to leave the queue")

    assert left(observer, queue_name) == (0, 2, 0)
    assert {attempt for call in attempts for attempt in call} == {1}


@pytest.mark.slow
async def test_an_attempt_that_got_no_connection_does_not_count(
    app, worker_url, observer, queue_name
):
    attempts = []

    @app.handler(queue_name, name="tested", retry=ONCE)
    async def handle(_payload, context: Context):
        attempts.append(context.attempt)
        async with context.transaction():
            pass

    WorkQueue(observer).send(queue_name, 1)

    async with (
        AsyncConnectionPool(worker_url, min_size=1, max_size=1, timeout=0.2) as pool,
        running(app, pool=pool),
    ):
        async with pool.connection():
            await until(lambda: len(attempts) == 2, "a second attempt")
        await until(lambda: left(observer, queue_name)[0] == 0, "the message to leave the queue")

    assert left(observer, queue_name) == (0, 1, 0)
    assert set(attempts) == {1}


async def test_a_message_that_was_delivered_twenty_times_uncounted_counts_its_lost_sessions(
    app, observer, queue_name
):
    """A handler that always terminates its own session must not be retried forever."""

    @app.handler(queue_name, name="tested", retry=ONCE)
    def handle(_payload, context: SyncContext):
        with context.transaction() as connection:
            connection.execute(TERMINATE)

    WorkQueue(observer).send(queue_name, 1)
    observer.execute(f"update pgmq.q_{queue_name} set read_ct = 20")

    async with running(app):
        await until(lambda: left(observer, queue_name)[0] == 0, "the message to leave the queue")

    query = "select attempts, error_type from sluice.dead_letter where queue_name = %s"
    assert rows(observer, query, queue_name) == [(1, "AdminShutdown")]


async def test_an_error_of_another_connection_of_the_handler_counts(
    app, worker_url, observer, queue_name
):
    @app.handler(queue_name, name="tested", retry=ONCE)
    def handle(_payload, context: SyncContext):
        with context.transaction(), psycopg.connect(worker_url) as other:
            other.execute(TERMINATE)

    WorkQueue(observer).send(queue_name, 1)

    async with running(app):
        await until(lambda: left(observer, queue_name)[0] == 0, "the message to leave the queue")

    assert left(observer, queue_name) == (0, 0, 1)


@pytest.mark.slow
async def test_an_error_of_another_connection_does_not_count_if_the_session_was_lost_too(
    app, worker_url, observer, queue_name
):
    attempts = []

    @app.handler(queue_name, name="tested", retry=ONCE)
    def handle(_payload, context: SyncContext):
        attempts.append(context.attempt)
        with context.transaction() as connection, psycopg.connect(worker_url) as other:
            if len(attempts) == 1:
                with contextlib.suppress(psycopg.OperationalError):
                    connection.execute(TERMINATE)
                other.execute(TERMINATE)

    WorkQueue(observer).send(queue_name, 1)

    async with running(app):
        await until(lambda: left(observer, queue_name)[0] == 0, "the message to leave the queue")

    assert attempts == [1, 1]
    assert left(observer, queue_name) == (0, 1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("is_group", [True, False], ids=["group", "consumer"])
async def test_an_event_whose_session_was_terminated_does_not_count(
    app, observer, queue_name, is_group
):
    log_name = f"log_{queue_name}"
    log = EventLog(observer)
    log.create(log_name)
    attempts = []
    route = {"group": "readers"} if is_group else {"consumer": "reader"}

    @app.handler(log=log_name, name="tested", retry=ONCE, **route)
    async def handle(_payload, context: Context):
        attempts.append(context.attempt)
        async with context.transaction() as connection:
            await connection.execute(TERMINATE if len(attempts) == 1 else "select 1")
            await connection.execute(EFFECT, [log_name, 1, "written"])

    async with running(app) as worker:
        await until(lambda: worker.status().state == "running", "the worker to run")
        log.insert_event(log_name, "t", '"x"')
        log.force_tick(log_name)
        log.ticker(log_name)
        await until(lambda: effects(observer, log_name) != [], "an effect", 20)

    assert attempts == [1, 1]
    counts = worker.counts()["tested"]
    assert (counts.dead, counts.retry) == (0, 0)


async def test_the_delay_doubles_up_to_a_minute_until_a_lost_session_counts():
    """If the source does not count claims, each process counts its own."""
    (delivery,) = await MemorySource([1]).claim(1, 30)
    lost, here = failed(psycopg.OperationalError("lost")), LostSessions()

    delays = [here.settlement(delivery, lost).outcome.delay_s for _ in range(UNCOUNTED_MAX)]
    after = here.settlement(delivery, lost)
    elsewhere = LostSessions().settlement(delivery, lost)

    longest = [1, 2, 4, 8, 16, 32, *[60] * (UNCOUNTED_MAX - 6)]
    assert all(most / 2 <= delay <= most for delay, most in zip(delays, longest, strict=True))
    assert after == lost
    assert elsewhere.outcome.delay_s <= 1
