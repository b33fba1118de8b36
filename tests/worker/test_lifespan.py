"""A worker in the lifespan of a web application."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from pgsluice import App, RetryPolicy, WorkQueue
from pgsluice.errors import NotInstalledError
from support import value, wait_until
from support.runtime import until

fastapi = pytest.importorskip("fastapi", reason="FastAPI is a dependency of development")


@pytest.fixture
def jobs(worker_url, observer, queue_name):
    app = App(worker_url)
    app.seen = []

    @app.handler(queue_name, lease_s=5)
    async def note(payload: dict) -> None:
        app.seen.append(payload["n"])
        if payload["n"] == "slow":
            app.has_begun.set()
            await app.may_end.wait()

    app.has_begun, app.may_end = asyncio.Event(), asyncio.Event()
    app.note = note
    return app


def test_a_fastapi_application_works_on_messages_that_its_requests_send(jobs, observer, queue_name):
    from fastapi.testclient import TestClient

    api = fastapi.FastAPI(lifespan=jobs.lifespan)

    @api.post("/orders/{n}")
    async def order(n: int, request: fastapi.Request) -> dict:
        await jobs.note.send_async({"n": n})
        return {"state": request.state.worker.status().state}

    before = signal.getsignal(signal.SIGTERM)
    with TestClient(api) as client:
        wait_until(
            lambda: client.post("/orders/1").json() == {"state": "running"}, "the worker to run"
        )
        wait_until(lambda: 1 in jobs.seen, "the message to be handled")
        assert signal.getsignal(signal.SIGTERM) is before

    assert (
        value(observer, f"select count(*) from pgmq.q_{queue_name} where vt > clock_timestamp()")
        == 0
    )


async def test_at_the_end_what_has_begun_may_finish(jobs, observer, queue_name):
    async with asyncio.timeout(30):
        async with jobs.lifespan(maintenance=False) as state:
            WorkQueue(observer).send_batch(queue_name, [{"n": "slow"}])
            await jobs.has_begun.wait()
            asyncio.get_running_loop().call_later(0.2, jobs.may_end.set)

        assert state["worker"].status().state == "stopped"
    assert value(observer, f"select count(*) from pgmq.a_{queue_name}") == 1


async def test_at_the_end_no_thread_of_maintenance_and_no_connection_is_left(jobs, observer):
    open_sessions = """select count(*) from pg_stat_activity
        where datname = current_database() and application_name = %s"""
    async with asyncio.timeout(30):
        async with jobs.lifespan():
            await jobs.note.send_async({"n": 1})
            for name in ("pgsluice maintenance", f"pgsluice {jobs.name}"):
                await until(lambda name=name: value(observer, open_sessions, name), name)

        assert "pgsluice maintainer" not in {thread.name for thread in threading.enumerate()}
        for name in ("pgsluice maintenance", f"pgsluice {jobs.name}"):
            await until(lambda name=name: not value(observer, open_sessions, name), name)


async def test_permanent_error_is_raised_at_startup(server_18, jobs):
    jobs.dsn = server_18.url("template1")

    with pytest.raises(NotInstalledError, match="pgsluice schema install"):
        async with jobs.lifespan():
            pass


async def test_a_server_that_is_away_is_waited_for_in_the_background(jobs):
    jobs.dsn = "host=127.0.0.1 port=1"

    async with jobs.lifespan(grace_s=1) as state:
        assert state["worker"].status().state == "starting"


@pytest.mark.slow
async def test_hanging_threads_are_bounded_and_reported_to_the_host(
    jobs, observer, queue_name, caplog
):
    going, before = threading.Event(), threading.active_count()
    other = f"{queue_name}_other"
    observer.execute("select pgmq.create(%s)", [other])

    @jobs.handler(
        other, timeout_s=0.1, lease_s=2, concurrency=2, retry=RetryPolicy(5, backoff_base_s=0)
    )
    def hangs(_payload: int) -> None:
        going.wait(60)

    WorkQueue(observer).send_batch(other, [1, 2, 3, 4])
    async with asyncio.timeout(60), jobs.lifespan(maintenance=False, grace_s=0.2) as state:
        worker = state["worker"]
        await until(lambda: worker.status().wants_replacement, "the callback to be called")
        status = worker.status()
        assert (status.state, status.hung_threads) == ("running", 2)
        restart = 'restart required reason="all threads of handler hangs hang"'
        assert any(message.startswith(restart) for message in caplog.messages)
        # The other queue is consumed, and no more threads are started.
        for n in range(20):
            WorkQueue(observer).send(queue_name, {"n": n})
        await until(lambda: len(jobs.seen) == 20, "the other queue to be consumed")
        claimed_again = f"select count(*) from pgmq.q_{other} where read_ct > 1"
        assert value(observer, claimed_again) == 0
        assert threading.active_count() < before + 10
        going.set()
        await until(lambda: not worker.status().wants_replacement, "the threads to return")
        await until(
            lambda: value(observer, f"select count(*) from pgmq.a_{other}") == 4, "all to be done"
        )
