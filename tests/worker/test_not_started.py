"""Attempts that are not counted, as nothing of the handler ran: no connection, no process, no thread."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from dataclasses import asdict, replace
from multiprocessing.context import SpawnProcess

import pytest

from pgsluice import WorkQueue
from pgsluice.worker import App, Context, RetryPolicy, SyncContext
from pgsluice.worker.engine.connections import sessions
from pgsluice.worker.engine.run import threads
from pgsluice.worker.process.health import Health
from support import rows
from support.runtime import MemorySource, spec_for, until, worker_for
from support.runtime import running as running_alone
from worker.runtime_handlers import do
from worker.test_lost_sessions import running
from worker.test_worker import left

ONCE = RetryPolicy(max_attempts=1)
QTY = 6


@pytest.fixture
def app(worker_url):
    return App(worker_url, name="tests")


def terminate(observer):
    """Terminate the sessions of handlers, consumers and the engine."""
    query = """
        select count(*) from (
            select pg_terminate_backend(pid, 5000) from pg_stat_activity
            where datname = current_database() and application_name = 'pgsluice tests'
        ) as terminated"""
    ((count,),) = rows(observer, query)
    return count


@pytest.mark.parametrize("style", ["loop", "thread"])
async def test_connections_lost_while_idle_cost_no_attempt_and_no_time(
    app, observer, queue_name, monkeypatch, style
):
    """Each idle connection was found lost in turn, a second apart, within the timeout of the handler."""
    monkeypatch.setattr(sessions, "_UNUSED_S", 0.0)
    together = threading.Barrier(QTY)
    meeting = asyncio.Barrier(QTY)
    options = {"name": "tested", "concurrency": QTY, "timeout_s": 5, "retry": ONCE}

    async def in_loop(payload, context: Context):
        async with context.transaction():
            if payload < QTY:
                await meeting.wait()

    def in_thread(payload, context: SyncContext):
        with context.transaction():
            if payload < QTY:
                together.wait(30)

    app.handler(queue_name, **options)(in_loop if style == "loop" else in_thread)
    queue = WorkQueue(observer)

    async with running(app) as worker:
        queue.send_batch(queue_name, list(range(QTY)))
        await until(lambda: left(observer, queue_name) == (0, QTY, 0), "the first messages")
        assert terminate(observer) > QTY
        queue.send(queue_name, QTY)
        began_s = time.monotonic()
        await until(lambda: left(observer, queue_name)[0] == 0, "the last message", 30)

    assert left(observer, queue_name) == (0, QTY + 1, 0)
    assert worker.counts()["tested"].dead == 0
    assert time.monotonic() - began_s < 4


@pytest.mark.parametrize("style", ["loop", "thread"])
async def test_the_wait_for_a_connection_is_not_part_of_the_timeout(
    app, worker_url, observer, queue_name, style
):
    """One connection for two handlers: the second waits longer than its timeout, and works within it."""
    begun, may_end = threading.Event(), threading.Event()
    attempts = []

    async def in_loop(_payload, context: Context):
        attempts.append(context.attempt)
        async with context.transaction():
            assert context.deadline_s > time.monotonic()

    def in_thread(_payload, context: SyncContext):
        attempts.append(context.attempt)
        with context.transaction():
            assert context.deadline_s > time.monotonic()

    async def hold(_payload, context: Context):
        async with context.transaction():
            begun.set()
            await asyncio.to_thread(may_end.wait, 30)

    def hold_in_thread(_payload, context: SyncContext):
        with context.transaction():
            begun.set()
            may_end.wait(30)

    observer.execute("select pgmq.create(%s)", [f"{queue_name}_held"])
    app.handler(f"{queue_name}_held", name="holder", concurrency=1)(
        hold if style == "loop" else hold_in_thread
    )
    app.handler(queue_name, name="tested", concurrency=1, timeout_s=0.3, retry=ONCE)(
        in_loop if style == "loop" else in_thread
    )
    queue = WorkQueue(observer)

    async with running(app) as worker:
        worker._shares = replace(worker._shares, loop=1, threads=1)  # before it connects
        queue.send(f"{queue_name}_held", 0)
        await until(begun.is_set, "the connection to be in use")
        queue.send(queue_name, 1)
        await until(lambda: attempts, "the handler to begin")
        await asyncio.sleep(0.6)  # twice its timeout
        may_end.set()
        await until(lambda: left(observer, queue_name)[0] == 0, "the message to leave the queue")

    assert attempts == [1]
    assert left(observer, queue_name) == (0, 1, 0)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        pytest.param(
            BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
            marks=pytest.mark.slow,
        ),
        pytest.param(MemoryError(), marks=pytest.mark.slow),
    ],
    ids=["files", "processes", "memory"],
)
async def test_a_process_that_cannot_be_started_costs_no_attempt(
    monkeypatch, caplog, tmp_path, error
):
    start, starts = SpawnProcess.start, []

    def failing(process):
        starts.append(process)
        if len(starts) in (2, 3):  # the first one serves the check at the start
            raise error
        start(process)

    monkeypatch.setattr(SpawnProcess, "start", failing)
    payloads = [{"wait": str(tmp_path / "end")}, "nothing", "nothing"]
    source = MemorySource(payloads, max_attempts=1)
    spec = replace(do.spec, limits=replace(do.spec.limits, concurrency=3), timeout_s=20)
    worker = worker_for((source, spec))
    health = Health(processes=1, stall_s=0)

    async with running_alone(worker):
        await until(lambda: worker.status().handlers[0].unstarted, "the report", 20)
        health.record(0, asdict(worker.status()))
        assert not health.is_ready
        assert "cannot start a handler process" in worker.status().handlers[0].unstarted
        (tmp_path / "end").touch()
        await until(lambda: not source.open, "the messages to end", 20)
        health.record(0, asdict(worker.status()))
        assert health.is_ready

    assert source.ends() == {"done": 3}
    (line, *_) = [each for each in caplog.messages if each.startswith("handler not started")]
    assert "cannot start a handler process" in line


async def test_a_thread_that_cannot_be_started_costs_no_attempt(monkeypatch, caplog):
    thread, starts = threads._Thread, []

    def failing(pool):
        starts.append(pool)
        if len(starts) == 1:
            raise RuntimeError("can't start new thread")
        return thread(pool)

    monkeypatch.setattr(threads, "_Thread", failing)
    source = MemorySource([1], max_attempts=1)
    worker = worker_for((source, spec_for(lambda payload: None)))

    async with running_alone(worker):
        await until(lambda: not source.open, "the message to end")

    assert source.ends() == {"done": 1}
    assert "can't start new thread" in caplog.text
    assert worker.status().handlers[0].unstarted is None


async def test_a_process_that_dies_before_it_calls_the_handler_costs_no_attempt(monkeypatch):
    source = MemorySource(max_attempts=1)
    worker = worker_for((source, replace(do.spec, timeout_s=20)))

    async with running_alone(worker):
        await until(lambda: source.called("wait"), "the worker to wait")
        (child,) = worker._executor._processes._idle
        monkeypatch.setattr(child, "is_alive", lambda: True)  # it dies right after the check
        child._process.kill()
        source.send("nothing")
        await until(lambda: not source.open, "the message to end", 20)

    assert source.ends() == {"done": 1}
    (first, _) = source.messages[1].outcomes
    assert first[1].error_type == "process died"
