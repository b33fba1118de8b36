"""Workers and paused queues: running handlers finish, nothing is claimed, and a resume wakes."""

from __future__ import annotations

import asyncio
import time

from pgsluice import App, Notifier, WorkerOptions, WorkQueue
from pgsluice.worker.engine.flow.worker import Worker
from support.listen import running
from support.sources import until


async def test_worker_finishes_what_it_runs_and_continues_after_resume(
    worker_url, pool, observer, queue_name
):
    app = App(worker_url, name="tests")
    work = WorkQueue(observer)
    begun: list[int] = []
    ended: list[int] = []
    go = asyncio.Event()

    @app.handler(queue_name, concurrency=1)
    async def handle(payload: int) -> None:
        begun.append(payload)
        await go.wait()
        ended.append(payload)

    worker = Worker(app, options=WorkerOptions(prefetch=0))
    with running(Notifier(pool)):
        task = asyncio.create_task(worker.run())
        work.send(queue_name, 1)
        await until(lambda: begun == [1], "the first handler to start")
        work.set_queue_options(queue_name, paused=True)
        work.send(queue_name, 2)
        go.set()
        await until(lambda: ended == [1], "the running handler to finish")
        (lane,) = worker._lanes
        ended_s = time.monotonic()
        await until(lambda: (lane.empty_s or 0) > ended_s, "an empty claim")
        await asyncio.sleep(0)
        assert begun == [1]

        resumed_s = time.monotonic()
        work.set_queue_options(queue_name, paused=False)
        await until(lambda: ended == [1, 2], "the message of the resumed queue")
        assert time.monotonic() - resumed_s < 5
        worker.stop()
        await task
