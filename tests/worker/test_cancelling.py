"""Cancelling messages that wait and messages that run, and retrying them now, with a real worker."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import psycopg
import pytest

from pgsluice import WorkQueue
from pgsluice.errors import ArgumentError, LeaseLostError, QueueNotFoundError
from pgsluice.worker import App, Batch, Context, Release, Retry, RetryPolicy, SyncContext
from pgsluice.worker.engine.flow.options import WorkerOptions
from pgsluice.worker.engine.flow.worker import Worker
from support import wait_for_lock
from support.runtime import running, until
from worker.runtime_handlers import cancellable
from worker.test_worker import EFFECT, drained, effects, left

LEASE_S = 1.5


@pytest.fixture
def app(worker_url):
    app = App(worker_url, name="tests")
    yield app
    app.close()


async def stopped(worker, app, seen, observer, queue_name):
    """Cancel message 1 as soon as it runs; return when the worker has noticed."""
    async with running(worker):
        await until(lambda: bool(seen), "the handler to run")
        assert await app.tested.cancel_async(1)
        await until(lambda: worker.status().handlers[0].running == 0, "the worker to notice")
        worker.stop()
    assert left(observer, queue_name) == (0, 0, 0)
    counts = worker.counts()["tested"]
    assert (counts.lost, counts.done, counts.retry, counts.dead) == (1, 0, 0, 0)
    await app.aclose()


@pytest.mark.parametrize("state", ["visible", "delayed", "retrying"])
async def test_a_message_that_is_cancelled_before_it_runs_never_runs(
    app, observer, queue_name, state
):
    seen = []

    @app.handler(
        queue_name, name="tested", retry=RetryPolicy(backoff_base_s=60, backoff_jitter=False)
    )
    async def handle(_payload, context):
        seen.append(context.message_id)
        return Retry(60)

    handle.send("cancelled", delay_s=60 if state == "delayed" else None)
    if state == "retrying":
        await drained(app)
        assert seen == [1]
    assert WorkQueue(observer).get_messages(queue_name, [1])[0].state == state

    assert handle.cancel(1) is True
    assert handle.cancel(1) is False

    await drained(app)
    assert seen == ([1] if state == "retrying" else [])
    assert left(observer, queue_name) == (0, 0, 0)


async def test_a_cancelled_async_handler_is_cancelled_and_its_transaction_is_rolled_back(
    app, observer, queue_name, caplog
):
    seen = []

    @app.handler(queue_name, name="tested", lease_s=LEASE_S)
    async def handle(_payload, context: Context):
        async with context.transaction() as connection:
            await connection.execute(EFFECT, [queue_name, 1, "written"])
            seen.append("runs")
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

    app.tested = handle
    await handle.send_async(1)

    await stopped(Worker(app), app, seen, observer, queue_name)

    assert seen == ["runs", "cancelled"]
    assert effects(observer, queue_name) == []
    (line,) = [each for each in caplog.messages if "message_id=1" in each]
    assert line.startswith(f'message cancelled source="queue {queue_name}" message_id=1')


async def test_a_cancelled_thread_sees_that_its_message_is_lost_and_cannot_commit(
    app, observer, queue_name
):
    seen, errors = [], []

    @app.handler(queue_name, name="tested", lease_s=LEASE_S)
    def handle(_payload, context: SyncContext):
        try:
            with context.transaction() as connection:
                connection.execute(EFFECT, [queue_name, 1, "written"])
                seen.append("runs")
                seen.append(context.lost.wait(30))
        except LeaseLostError as error:
            errors.append(str(error))
            raise

    app.tested = handle
    await handle.send_async(1)

    await stopped(Worker(app), app, seen, observer, queue_name)

    assert seen == ["runs", True]
    assert "or the message was cancelled" in errors[0]
    assert effects(observer, queue_name) == []


async def test_a_handler_that_ends_before_the_worker_notices_the_cancellation_cannot_commit(
    app, observer, queue_name
):
    cancelled = threading.Event()

    @app.handler(queue_name, name="tested", lease_s=60, retry=RetryPolicy(max_attempts=1))
    def handle(_payload, context: SyncContext):
        with context.transaction() as connection:
            connection.execute(EFFECT, [queue_name, 1, "written"])
            cancelled.wait(30)

    handle.send(1)
    worker = Worker(app)
    async with running(worker):
        await until(lambda: worker.status().handlers[0].running == 1, "the handler to run")
        assert await asyncio.to_thread(handle.cancel, 1)
        cancelled.set()
        await until(lambda: worker.counts()["tested"].lost == 1, "the handler to end")
        worker.stop()

    assert effects(observer, queue_name) == []
    assert left(observer, queue_name) == (0, 0, 0)


@pytest.mark.parametrize("outcome", [ValueError("failed"), Retry(0), Release(0)], ids=repr)
async def test_an_attempt_that_fails_after_its_cancellation_is_no_attempt_and_no_dead_letter(
    app, observer, queue_name, outcome
):
    seen = []

    @app.handler(queue_name, name="tested", lease_s=60, retry=RetryPolicy(max_attempts=1))
    async def handle(_payload):
        seen.append(await handle.cancel_async(1))
        raise outcome

    await handle.send_async(1)

    counts = await drained(app)

    assert (seen, left(observer, queue_name), counts.dead, counts.lost) == ([True], (0, 0, 0), 0, 1)
    await app.aclose()


async def test_the_process_of_a_cancelled_message_is_killed(
    worker_url, observer, queue_name, tmp_path
):
    app = App(worker_url, name="tests")
    function = cancellable.spec.function
    app.handler(queue_name, name="tested", lease_s=LEASE_S, execution="process")(function)
    begun, seen = tmp_path / "begun", []
    WorkQueue(observer).send(queue_name, str(begun))
    worker = Worker(app)
    async with running(worker):
        await until(begun.exists, "the handler to run", deadline_s=30)
        await until(lambda: bool(begun.read_text()), "its pid")
        pid = int(begun.read_text())
        seen.append(WorkQueue(observer).delete(queue_name, 1))
        await until(lambda: worker.counts()["tested"].lost == 1, "the worker to notice")
        await until(lambda: not Path(f"/proc/{pid}/exe").exists(), "the process to be killed")
        worker.stop()

    assert (seen, left(observer, queue_name)) == ([True], (0, 0, 0))
    assert not begun.with_suffix(".end").exists()


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls-back"])
async def test_in_mode_transaction_a_cancellation_waits_for_the_transaction_of_the_handler(
    app, worker_url, observer, queue_name, commits
):
    holds, goes_on, results = threading.Event(), threading.Event(), []

    @app.handler(queue_name, name="tested", mode="transaction")
    def handle(_payload, context: SyncContext):
        with context.transaction() as connection:
            connection.execute(EFFECT, [queue_name, 1, "written"])
        holds.set()
        goes_on.wait(30)
        if not commits:
            raise ValueError("failed")

    handle.send(1)
    worker = Worker(app)
    with psycopg.connect(worker_url, autocommit=True) as other:
        async with running(worker):
            await until(holds.is_set, "the handler to run")
            cancelling = threading.Thread(
                target=lambda: results.append(handle.cancel(1, connection=other))
            )
            cancelling.start()
            await asyncio.to_thread(wait_for_lock, observer, other)
            goes_on.set()
            await asyncio.to_thread(cancelling.join)
            worker.stop()

    assert results == [not commits]
    assert effects(observer, queue_name) == ([(1, "written")] if commits else [])
    assert left(observer, queue_name) == (0, int(commits), 0)


async def test_a_batch_is_cancelled_when_all_its_messages_are(app, observer, queue_name):
    calls, seen = [], []

    @app.handler(queue_name, name="tested", lease_s=LEASE_S, batch=Batch(2, wait_s=5))
    async def handle(payloads, contexts):
        calls.append(contexts)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append(payloads)
            raise

    handle.send_many(["one", "two"])
    worker = Worker(app)
    async with running(worker):
        await until(lambda: bool(calls), "the handler to run")
        assert await handle.cancel_async(1)
        await until(lambda: calls[0][0].is_lost, "the worker to notice the first")
        assert (calls[0][1].is_lost, seen) == (False, [])
        assert await handle.cancel_async(2)
        await until(lambda: bool(seen), "the call to be cancelled")
        worker.stop()

    assert (seen, left(observer, queue_name)) == ([["one", "two"]], (0, 0, 0))
    await app.aclose()


async def test_a_message_that_was_claimed_in_advance_does_not_start_after_the_worker_noticed(
    app, observer, queue_name
):
    seen, goes_on = [], asyncio.Event()

    @app.handler(queue_name, name="tested", lease_s=LEASE_S, concurrency=1)
    async def handle(payload):
        seen.append(payload)
        await goes_on.wait()

    handle.send_many([1, 2])
    worker = Worker(app, options=WorkerOptions(prefetch=1))
    async with running(worker):
        await until(lambda: worker.status().handlers[0].waiting == 1, "the second to be claimed")
        assert await handle.cancel_async(2)
        await until(lambda: worker.counts()["tested"].lost == 1, "the worker to notice")
        goes_on.set()
        await until(lambda: worker.counts()["tested"].done == 1, "the first to end")
        worker.stop()

    assert (seen, left(observer, queue_name)) == ([1], (0, 1, 0))
    await app.aclose()


async def test_the_next_message_of_its_key_runs_after_a_cancelled_one(app, observer, queue_name):
    seen = []

    @app.handler(
        queue_name,
        name="tested",
        key_concurrency=1,
        retry=RetryPolicy(backoff_base_s=60, backoff_jitter=False),
    )
    async def handle(payload):
        seen.append(payload)
        return Retry(60) if payload == 1 else None

    handle.send_many([1, 2], keys=["a", "a"])
    await drained(app)
    assert seen == [1]

    handle.cancel(1)
    await drained(app)

    assert (seen, left(observer, queue_name)) == ([1, 2], (0, 1, 0))


def test_a_cancellation_is_part_of_the_transaction_of_its_connection(app, worker_url, queue_name):
    @app.handler(queue_name)
    def handle(_payload): ...

    handle.send(1)
    with psycopg.connect(worker_url) as connection:
        assert handle.cancel(1, connection=connection)
        connection.rollback()

    assert handle.cancel(1) is True


@pytest.mark.parametrize("verb", ["cancel", "retry_now"])
async def test_events_of_logs_and_missing_queues_are_refused(app, queue_name, verb):
    @app.handler(log="a log", group="readers")
    def of_log(_payload): ...

    @app.handler("no_such_queue")
    def of_queue(_payload): ...

    with pytest.raises(ArgumentError, match=rf"'of_log' is for a log.*; {verb}\(\) is for queues"):
        getattr(of_log, verb)(1)
    with pytest.raises(ArgumentError, match="'of_log' is for a log"):
        await getattr(of_log, f"{verb}_async")(1)
    with pytest.raises(QueueNotFoundError):
        getattr(of_queue, verb)(1)


async def test_a_message_that_waits_for_a_retry_or_a_delay_is_delivered_now_to_a_waiting_worker(
    app, observer, queue_name
):
    seen = []

    @app.handler(
        queue_name, name="tested", retry=RetryPolicy(backoff_base_s=600, backoff_jitter=False)
    )
    async def handle(_payload, context):
        seen.append((context.message_id, context.attempt))
        if context.message_id == 1 and context.attempt == 1:
            return Retry(600)
        return None

    await handle.send_async("retried")
    await handle.send_async("delayed", delay_s=600)
    worker = Worker(app)
    async with running(worker):
        await until(lambda: worker.counts()["tested"].retry == 1, "the first attempt")
        assert await handle.retry_now_async(1) is True
        assert await handle.retry_now_async(2) is True
        await until(lambda: len(seen) == 3, "both to be delivered", deadline_s=20)
        worker.stop()

    assert sorted(seen) == [(1, 1), (1, 2), (2, 1)]
    assert await handle.retry_now_async(2) is False
    await app.aclose()


async def test_a_message_that_runs_is_not_delivered_again_by_retry_now(app, observer, queue_name):
    @app.handler(queue_name)
    def handle(_payload): ...

    handle.send(1)
    assert handle.retry_now(1) is True
    (before,) = WorkQueue(observer).read(queue_name, 60)

    assert handle.retry_now(1) is False

    (after,) = WorkQueue(observer).get_messages(queue_name, [1])
    assert (after.state, after.vt) == ("in flight", before.vt)
