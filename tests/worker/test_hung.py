"""Handlers that outlive their timeout: what they keep, and how their process is replaced."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pgsluice import WorkQueue
from pgsluice.worker import App
from support import value, wait_until

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
    """Three queues, by what their handlers do."""
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


def test_a_process_whose_threads_hang_exits_after_the_grace_although_an_async_handler_runs(
    start, observer, queues, tmp_path
):
    for name in ("HANGS", "LONG"):
        WorkQueue(observer).send(queues[name], 1)

    process = start("--grace-s", "1", "--no-maintenance")

    assert process.wait(30) == 75, log_of(tmp_path / "log")
    # What the async handler had begun is released: it counts as no attempt, and others can have it.
    free = f"select count(*) from pgmq.q_{queues['LONG']} where vt <= clock_timestamp()"
    assert value(observer, free) == 1


def test_the_process_that_replaces_one_that_hangs_consumes_the_other_queues(
    start, observer, queues, tmp_path
):
    for name in ("HANGS", "LONG"):
        WorkQueue(observer).send(queues[name], 1)
    start("--grace-s", "1", "--no-maintenance", "--supervise")
    wait_until(lambda: "asked to be replaced" in log_of(tmp_path / "log"), "it to be replaced", 30)

    WorkQueue(observer).send(queues["OTHER"], 1)

    done = f"select count(*) from pgmq.a_{queues['OTHER']}"
    wait_until(lambda: value(observer, done) == 1, "the other queue to be consumed", 30)
