"""Handlers that outlive their timeout: their leases and locks, and replacing their process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from pgsluice import DeadLetters, WorkQueue
from pgsluice.worker import App, Context, RetryPolicy
from pgsluice.worker.engine.flow import worker as worker_module
from pgsluice.worker.engine.flow.worker import Worker
from support import value, wait_until
from support.runtime import running, until
from worker.test_row_locks import archived
from worker.test_worker import left

HANGING = """
import asyncio, os, time
from pgsluice.worker import App

app = App(name="hanging")

@app.handler(os.environ["HANGS"], timeout_s=0.2, concurrency=1)
def hangs(payload: int) -> None:
    time.sleep(600)

@app.handler(os.environ["LONG"], concurrency=1)
async def long(payload: int) -> None:
    await asyncio.sleep(600)

@app.handler(os.environ["OTHER"], concurrency=1)
async def other(payload: int) -> None:
    pass
"""


@pytest.fixture
def app(worker_url):
    return App(worker_url, name="tests")


@pytest.fixture
def queues(observer, queue_name):
    """Three queues, named after the behaviour of their handlers."""
    names = {"HANGS": queue_name, "LONG": f"{queue_name}_long", "OTHER": f"{queue_name}_other"}
    for name in names.values():
        observer.execute("select pgmq.create(%s)", [name])
    return names


def log_of(path):
    return path.read_text(encoding="utf-8")


@pytest.fixture
def start(worker_url, tmp_path, queues):
    """Start `pgsluice worker run` with handlers that hang."""
    (tmp_path / "hanging.py").write_text(HANGING)
    started = []

    def run(*options):
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "pgsluice", "worker", "run", "hanging:app", *options],
                env=os.environ | queues | {"PGSLUICE_DSN": worker_url, "PYTHONPATH": str(tmp_path)},
                cwd=tmp_path,
                stdout=log,
                stderr=log,
            )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_process_whose_threads_hang_exits_after_the_grace_although_an_async_handler_runs(
    start, observer, queues, tmp_path
):
    for name in ("HANGS", "LONG"):
        WorkQueue(observer).send(queues[name], 1)

    process = start("--shutdown-timeout", "1s", "--no-maintenance")

    assert process.wait(30) == 75, log_of(tmp_path / "log")
    # The message of the async handler is released uncounted, and other workers can claim it.
    free = f"select count(*) from pgmq.q_{queues['LONG']} where vt <= clock_timestamp()"
    assert value(observer, free) == 1


@pytest.mark.slow
def test_a_message_whose_last_attempt_hangs_is_dead_lettered_with_the_timeout(
    start, observer, queues, tmp_path
):
    WorkQueue(observer).set_queue_options(queues["HANGS"], max_attempts=1)
    WorkQueue(observer).send(queues["HANGS"], 1)

    process = start("--shutdown-timeout", "1s", "--no-maintenance")

    assert process.wait(30) == 75, log_of(tmp_path / "log")
    (letter,) = DeadLetters(observer, queues["HANGS"]).browse()
    assert "the handler exceeded its timeout of 0.2 s" in letter.error


@pytest.mark.slow
def test_the_process_that_replaces_one_that_hangs_consumes_the_other_queues(
    start, observer, queues, tmp_path
):
    for name in ("HANGS", "LONG"):
        WorkQueue(observer).send(queues[name], 1)
    start("--shutdown-timeout", "1s", "--no-maintenance", "--supervise")
    wait_until(
        lambda: "process stopping to be replaced" in log_of(tmp_path / "log"),
        "the process to be replaced",
        30,
    )

    WorkQueue(observer).send(queues["OTHER"], 1)

    done = f"select count(*) from pgmq.a_{queues['OTHER']}"
    wait_until(lambda: value(observer, done) == 1, "the other queue to be consumed", 30)


@pytest.mark.slow
async def test_a_thread_that_outlives_its_timeout_keeps_its_place_in_the_fleet_limit(
    app, observer, queue_name
):
    starts, going = [], threading.Event()

    @app.handler(
        queue_name,
        name="tested",
        timeout_s=0.2,
        lease_s=1.5,
        fleet_concurrency=1,
        retry=RetryPolicy(max_attempts=2, backoff_base_s=0),
    )
    def tested(payload: int) -> None:
        starts.append(payload)
        if len(starts) == 1:
            going.wait(60)

    WorkQueue(observer).send_batch(queue_name, [1, 2, 3])
    first, second = (Worker(app, ends_when_hung=False) for _ in range(2))
    async with running(first), running(second):
        await until(lambda: len(starts) > 0, "the first to start")
        lease = f"select vt from pgmq.q_{queue_name} where msg_id = 1"
        end = value(observer, lease)
        await until(
            lambda: (value(observer, lease) - end).total_seconds() > 3,
            "its lease to be renewed by more than a lease",
        )
        assert starts == [1]
        statuses = [worker.status() for worker in (first, second)]
        assert sorted(status.hung_threads for status in statuses) == [0, 1]
        going.set()
        await until(lambda: archived(observer, queue_name) == [1, 2, 3], "all to be done")

    assert starts.count(1) == 2


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["lease", "transaction"])
async def test_the_message_of_a_thread_that_hangs_is_not_started_beside_it(
    app, observer, queue_name, mode
):
    running_now, most, going = [], [], threading.Event()

    @app.handler(
        queue_name,
        name="tested",
        mode=mode,
        timeout_s=2.5,  # longer than a lease, which is not renewed in mode transaction
        lease_s=1.5,
        concurrency=2,
        retry=RetryPolicy(max_attempts=2, backoff_base_s=0),
    )
    def tested(payload: int) -> None:
        running_now.append(payload)
        most.append(len(running_now))
        if len(most) == 1:
            going.wait(60)
        running_now.pop()

    WorkQueue(observer).send(queue_name, 1)
    worker = Worker(app)
    async with running(worker):
        await until(lambda: worker.status().hung_threads == 1, "the thread to hang")
        lease = f"select vt from pgmq.q_{queue_name}"
        end = value(observer, lease)
        await until(
            lambda: len(most) > 1 or (value(observer, lease) - end).total_seconds() > 2,
            "its lease to be renewed by more than a lease",
        )
        assert most == [1]
        going.set()
        await until(lambda: worker.counts()["tested"].done == 1, "the second attempt")
        counts = worker.counts()["tested"]

    assert most == [1, 1]
    assert left(observer, queue_name) == (0, 1, 0)
    assert (counts.done, counts.retry, counts.lost) == (1, 1, 0)
    assert counts.by_error_type == {"timeout": 1}


@pytest.mark.slow
async def test_a_process_is_replaced_when_one_of_its_threads_hangs_for_a_minute(
    app, observer, queue_name, monkeypatch
):
    assert worker_module._HUNG_S == 60
    monkeypatch.setattr(worker_module, "_HUNG_S", 2.0)
    going = threading.Event()

    @app.handler(queue_name, name="tested", timeout_s=0.1, concurrency=2)
    def tested(_payload: int) -> None:
        going.wait(60)

    WorkQueue(observer).send(queue_name, 1)
    worker = Worker(app)
    try:
        async with asyncio.timeout(30):
            await worker.run()
    finally:
        going.set()

    assert worker.status().wants_replacement


@pytest.mark.slow
def test_until_empty_exits_with_75_when_only_messages_of_threads_that_hang_are_left(
    start, observer, queues, tmp_path
):
    WorkQueue(observer).send(queues["HANGS"], 1)
    for n in range(5):
        WorkQueue(observer).send(queues["OTHER"], n)

    process = start("--until-empty", "--no-maintenance")

    assert process.wait(30) == 75, log_of(tmp_path / "log")
    assert value(observer, f"select count(*) from pgmq.a_{queues['OTHER']}") == 5


@pytest.mark.slow
async def test_in_mode_transaction_a_message_counts_in_the_fleet_limit_until_its_lease_expires(
    app, observer, queue_name
):
    begun, going = [], asyncio.Event()

    @app.handler(
        queue_name, name="tested", mode="transaction", lease_s=2, fleet_concurrency=1, concurrency=2
    )
    async def tested(payload: int, _context: Context) -> None:
        begun.append(payload)
        await going.wait()

    WorkQueue(observer).send_batch(queue_name, [1, 2])
    expired = f"select vt <= clock_timestamp() from pgmq.q_{queue_name} where msg_id = 1"
    async with running(Worker(app)):
        await until(lambda: begun == [1], "the first to start")
        await until(lambda: begun == [1, 2], "the second to start while the first runs", 45)
        assert value(observer, expired)
        going.set()
        await until(lambda: left(observer, queue_name) == (0, 2, 0), "both to be done")
