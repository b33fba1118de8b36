"""Worker processes in the registry: what they run, how they end, and servers that have no registry."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from datetime import datetime, timedelta

import psycopg
import pytest

from pgsluice import App, Batch, EventLog, Operations, RetryPolicy, ShareGroup, WorkQueue
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls.listeners import request_reports
from pgsluice.worker.engine.flow import registration
from pgsluice.worker.engine.flow.worker import Worker
from support.sources import until


def app_of(url, queue_name, go, **options):
    app = App(url, name=f"app {queue_name}")

    @app.handler(queue_name, name="pack", **options)
    async def pack(payload):
        await go.wait()

    return app


def mine(observer, queue_name):
    return [one for one in Operations(observer).list_workers() if one.app == f"app {queue_name}"]


@contextlib.asynccontextmanager
async def working(app, **options):
    worker = Worker(app, **options)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await task


@pytest.fixture
def often(monkeypatch):
    """Reports follow each other quickly."""
    monkeypatch.setattr(registration, "_REPORT_S", 0.05)
    monkeypatch.setattr(registration, "_FIRST_REPORT_S", 0.05)


async def test_retry_policy_of_a_handler_is_reported_and_explains_its_messages(
    worker_url, observer, queue_name, often
):
    app = App(worker_url, name=f"app {queue_name}")

    @app.handler(
        queue_name,
        name="pack",
        retry=RetryPolicy(max_attempts=20, backoff_base_s=600, backoff_jitter=False),
    )
    def pack(payload):
        raise ValueError("no carton")

    operations = Operations(observer)
    msg_id = WorkQueue(observer).send(queue_name, 1)
    async with working(app):
        await until(
            lambda: operations.handler_policies(f"queue {queue_name.upper()}"), "the report"
        )
        (policy,) = operations.handler_policies(f"queue {queue_name}")
        assert (policy.handler, policy.workers, policy.max_attempts) == ("pack", 1, 20)
        assert policy.backoff_base == timedelta(minutes=10)

        def facts():
            return [fact.fact for fact in operations.explain_message(queue_name, msg_id)]

        await until(lambda: any("back-off" in fact for fact in facts()), "the back-off")
        assert "It failed; its back-off before attempt 2 of 20 ends" in facts()
        assert "1 of 20 attempts used" in facts()
        (state,) = (s for s in operations.list_queue_states() if s.queue_name == queue_name)
        assert (state.in_flight, state.retrying) == (0, 1)


async def test_worker_reports_what_it_runs_within_seconds_of_a_request(
    worker_url, observer, queue_name
):
    go = asyncio.Event()
    app = app_of(worker_url, queue_name, go)
    work = WorkQueue(observer)
    async with working(app):
        await until(lambda: mine(observer, queue_name), "the first report", deadline_s=10)
        work.send(queue_name, 1)
        began_s = time.monotonic()
        await until(
            lambda: (
                Runner(observer).run(request_reports())
                or any(w.running for w in mine(observer, queue_name))
            ),
            "the running call",
            deadline_s=20,
        )
        assert time.monotonic() - began_s < 10  # reports follow each other in 30 seconds
        go.set()


async def test_worker_is_listed_with_what_it_runs_until_it_stops(
    worker_url, observer, queue_name, often
):
    go = asyncio.Event()
    work = WorkQueue(observer)
    msg_id = work.send(queue_name, 1)
    observer.execute("select pgq.create_queue(%s)", [f"log_{queue_name}"])
    app = app_of(worker_url, queue_name, go)

    @app.handler(log=f"log_{queue_name}", group="g")
    async def of_group(payload):
        pass

    @app.handler(log=f"log_{queue_name}", consumer="c")
    async def of_consumer(payload):
        pass

    async with working(app):
        await until(lambda: any(w.running for w in mine(observer, queue_name)), "a running call")
        (listed,) = mine(observer, queue_name)
        assert listed.sources == [
            f"log log_{queue_name} consumer c",
            f"log log_{queue_name} group g",
            f"queue {queue_name}",
        ]
        assert (listed.pid, listed.is_live) == (os.getpid(), True)
        (call,) = listed.running
        assert (call["handler"], call["queue"], call["msg_id"]) == ("pack", queue_name, msg_id)
        assert listed.worker_id.startswith(f"{listed.host}:{listed.pid}:")
        go.set()
        await until(
            lambda: mine(observer, queue_name)[0].counts.get("pack") == {"done": 1}, "the count"
        )
        await until(lambda: mine(observer, queue_name)[0].has_session is True, "the session")

    assert mine(observer, queue_name) == []


async def test_times_of_calls_are_reported_by_handler_with_the_slowest(
    worker_url, observer, queue_name, often
):
    """Of a queue, a batch, a thread, a share group and a consumer; failures count, too."""
    log_name, many = f"log_{queue_name}", f"many_{queue_name}"
    log, work, operations = EventLog(observer), WorkQueue(observer), Operations(observer)
    work.create(many)
    log.create(log_name)
    log.register_consumer(log_name, "c")
    ShareGroup(observer, log_name, "g").create(start="earliest")
    app = App(worker_url, name=f"app {queue_name}")

    @app.handler(queue_name, name="pack", retry=RetryPolicy(max_attempts=1))
    async def pack(payload):
        await asyncio.sleep(payload)
        raise ValueError

    @app.handler(many, name="load", batch=Batch(3, 5.0))
    def load(payloads):
        pass

    @app.handler(log=log_name, group="g", name="post")
    async def post(payload):
        pass

    @app.handler(log=log_name, consumer="c", name="bill")
    async def bill(payload):
        pass

    ids = work.send_batch(queue_name, [0.06, 0.0])
    first = work.send_batch(many, [1, 2, 3])[0]
    ev_id = log.insert_event(log_name, "t", "1")
    log.force_tick(log_name)
    async with working(app):
        await until(
            lambda: (
                [(one.handler, one.calls) for one in times_of(operations, app)]
                == [("bill", 1), ("post", 1), ("load", 1), ("pack", 2)]
            ),
            "the times of all calls",
        )
        (packed,) = operations.list_handler_times(of_source=f"queue {queue_name}")
        (listed,) = mine(observer, queue_name)

    assert (packed.workers, packed.app) == (1, app.name)
    assert 0.06 <= packed.max_s < 5
    assert packed.p50_s < packed.p95_s <= packed.max_s
    slowest = {call["handler"]: call for call in reversed(listed.slowest)}
    assert slowest["pack"]["msg_id"] == ids[0]
    assert slowest["pack"]["seconds"] == pytest.approx(packed.max_s)
    assert datetime.fromisoformat(slowest["pack"]["ended_at"]) < listed.reported_at
    assert (slowest["load"]["queue"], slowest["load"]["msg_id"]) == (many, first)
    assert (slowest["post"]["group"], slowest["post"]["ev_id"]) == ("g", ev_id)
    assert (slowest["bill"]["consumer"], slowest["bill"]["ev_id"]) == ("c", ev_id)
    assert times_of(operations, app) == []  # it has ended


def times_of(operations, app):
    return [each for each in operations.list_handler_times() if each.app == app.name]


async def test_event_in_a_batch_is_listed_with_its_consumer(
    worker_url, observer, queue_name, often
):
    go = asyncio.Event()
    log_name = f"log_{queue_name}"
    log = EventLog(observer)
    log.create(log_name)
    log.register_consumer(log_name, "c")
    ev_id = log.insert_event(log_name, "t", "1")
    log.force_tick(log_name)
    app = App(worker_url, name=f"app {queue_name}")

    @app.handler(log=log_name, consumer="c", name="pack")
    async def pack(payload):
        await go.wait()

    async with working(app):
        await until(lambda: any(w.running for w in mine(observer, queue_name)), "a running call")
        ((call,),) = (worker.running for worker in mine(observer, queue_name))
        assert (call["log"], call["consumer"], call["ev_id"]) == (log_name, "c", ev_id)
        go.set()


@pytest.mark.parametrize("missing", ["functions", "rights"])
async def test_worker_runs_without_a_registry(
    server_18, queue_name, worker_url, observer, missing, often
):
    app = app_of(worker_url, queue_name, asyncio.Event())
    app.handlers.clear()
    done = []

    @app.handler(queue_name)
    async def handle(payload):
        done.append(payload)

    signature = "sluice.report_worker(text, text, text, integer, text, text[], integer, interval, jsonb, jsonb, integer, jsonb, jsonb, jsonb)"
    if missing == "functions":
        broken = f"alter function {signature} rename to away"
        repair = "alter function sluice.away rename to report_worker"
        options = {}
    else:
        observer.execute("create role limited login; grant sluice_reader to limited")
        broken = f"revoke execute on function {signature} from sluice_reader"
        repair = f"grant execute on function {signature} to sluice_reader"
        options = {"connection_options": {"user": "limited"}}
    observer.execute(broken)
    try:
        WorkQueue(observer).send(queue_name, 1)
        async with working(app, **options):
            await until(lambda: done == [1], "the message")
            assert mine(observer, queue_name) == []
    finally:
        observer.execute(repair)
        if missing == "rights":
            observer.execute("drop role limited")


async def test_locked_registry_does_not_hold_up_a_worker(worker_url, observer, queue_name, often):
    go = asyncio.Event()
    go.set()
    work = WorkQueue(observer)
    with psycopg.connect(worker_url) as holder:
        holder.execute("lock table sluice.process_report in access exclusive mode")
        async with working(app_of(worker_url, queue_name, go)) as worker:
            work.send(queue_name, 1)
            await until(lambda: worker.counts()["pack"].done == 1, "the message")


def test_idle_worker_reports_twice_a_minute():
    assert 60 / registration._REPORT_S <= 2
    assert registration._REPORT_S * 3 <= 90
