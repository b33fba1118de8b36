"""Exit codes of worker processes, by the way the worker ends; without a database."""

from __future__ import annotations

import asyncio

import pytest

from pgsluice.errors import ConnectionFailedError, NotInstalledError
from pgsluice.worker.engine.delivery import Counts
from pgsluice.worker.engine.flow.status import WorkerStatus
from pgsluice.worker.process.process import EXIT_DONE, EXIT_LEFT, EXIT_REPLACE, serve
from pgsluice.worker.process.shutdown import Level, Shutdown


class FakeWorker:
    """A worker that stops on request, unless it hangs."""

    def __init__(self, *, counts=None, wants_replacement=False, hangs=False, retrying=0):
        self.counts = counts
        self.retrying = retrying
        self.wants_replacement = wants_replacement
        self.hangs = hangs
        self.runs, self.stopped = asyncio.Event(), asyncio.Event()

    async def run(self):
        self.runs.set()
        if self.hangs:
            await asyncio.Event().wait()
        elif not self.wants_replacement:
            await self.stopped.wait()

    async def run_until_empty(self, *, idle_s):
        return self.counts

    def stop(self, *, now=False):
        self.stopped.set()

    def status(self):
        return WorkerStatus("running", (), (), None, 0, self.wants_replacement, self.retrying)


async def nothing():
    return {}


async def served(worker, *, then=None, begin=nothing, **options):
    shutdown = Shutdown(60)
    reports = []
    serving = asyncio.create_task(
        serve(lambda _found: worker, shutdown, begin=begin, report=reports.append, **options)
    )
    if then is not None:
        await worker.runs.wait()
        then(shutdown)
    async with asyncio.timeout(20):
        return await serving, reports


def finish(shutdown):
    shutdown.request(Level.FINISH, "test")


def at_once(shutdown):
    shutdown.request(Level.AT_ONCE, "test")


async def test_process_stopped_on_request_exits_cleanly():
    code, reports = await served(FakeWorker(), then=finish)

    assert code == EXIT_DONE
    assert [status["state"] for status in reports[:2]] == ["starting", "running"]


@pytest.mark.slow
async def test_hard_stopped_process_reports_unfinished_work():
    assert (await served(FakeWorker(), then=at_once))[0] == EXIT_LEFT
    assert (await served(FakeWorker(hangs=True), then=at_once))[0] == EXIT_LEFT


async def test_one_whose_handlers_hang_is_replaced():
    assert (await served(FakeWorker(wants_replacement=True)))[0] == EXIT_REPLACE


@pytest.mark.parametrize(("dead", "expected"), [(0, EXIT_DONE), (1, EXIT_LEFT)])
async def test_when_it_is_empty_dead_letters_tell(dead, expected):
    worker = FakeWorker(counts={"mail": Counts(done=3, dead=dead)})

    assert (await served(worker, until_empty_s=0.0))[0] == expected


async def test_unreachable_server_is_awaited_and_permanent_error_is_raised():
    answers = [
        ConnectionFailedError("away"),
        ConnectionFailedError("away"),
        NotInstalledError("none"),
    ]

    async def begin():
        raise answers.pop(0)

    with pytest.raises(NotInstalledError):
        await served(FakeWorker(), begin=begin)
    assert not answers


@pytest.mark.parametrize(("retrying", "code"), [(0, EXIT_DONE), (2, EXIT_LEFT)])
async def test_worker_until_empty_exits_with_1_while_messages_wait_for_a_retry(retrying, code):
    worker = FakeWorker(counts={"h": Counts(done=1, retry=2)}, retrying=retrying)

    assert (await served(worker, until_empty_s=0.0))[0] == code
