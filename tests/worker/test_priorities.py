"""Priorities with a worker under a continuous load of urgent messages."""

from __future__ import annotations

from collections import Counter

import pytest

from pgsluice import App, WorkQueue
from pgsluice.worker import Context
from pgsluice.worker.engine.flow.options import WorkerOptions
from pgsluice.worker.engine.flow.worker import Worker
from support import value
from support.runtime import running, until

URGENT, LATER = 1, 2
# With prefetch, a claim could include all urgent messages and others.
NOTHING_AHEAD = WorkerOptions(prefetch=0)


class Stream:
    """A worker whose handler sends an urgent message for each message that it handles."""

    def __init__(self, url, observer, queue_name, weights):
        self.handled = Counter()
        self.goes_on = True
        self.queue = WorkQueue(observer)
        self._queue_name = queue_name
        self._observer = observer
        self.queue.set_queue_options(queue_name, priority_weights=weights)
        self.app = App(url)

        @self.app.handler(queue_name, name="handle", concurrency=2)
        async def handle(level: int, context: Context) -> None:
            self.handled[level] += 1
            if level == URGENT and self.goes_on:
                await handle.send_async(URGENT, priority=URGENT)

        handle.send_many([LATER] * 100, priority=LATER)
        handle.send_many([URGENT] * 30, priority=URGENT)

    @property
    def urgent_left(self):
        urgent = f"select count(*) from pgmq.q_{self._queue_name} where message = '1'"
        return value(self._observer, urgent)


async def test_messages_of_a_low_priority_get_their_weight_under_a_stream_of_urgent_ones(
    worker_url, observer, queue_name
):
    stream = Stream(worker_url, observer, queue_name, [4, 1])

    async with running(Worker(stream.app, options=NOTHING_AHEAD)):
        await until(lambda: stream.handled[LATER] >= 20, "twenty of the low priority", 60)
        handled = stream.handled.copy()
        assert stream.urgent_left > 0

    # 80 of 100 claims on average; fewer than 55 or more than 95 with a probability of 1 in 10,000.
    share = handled[URGENT] / handled.total()
    assert 0.55 < share < 0.95, handled
    await stream.app.aclose()


@pytest.mark.slow
async def test_messages_of_weight_zero_wait_as_long_as_there_are_urgent_ones(
    worker_url, observer, queue_name
):
    stream = Stream(worker_url, observer, queue_name, [1, 0])

    async with running(Worker(stream.app, options=NOTHING_AHEAD)):
        await until(lambda: stream.handled[URGENT] >= 100, "a hundred urgent ones", 60)
        assert stream.handled[LATER] == 0
        stream.goes_on = False
        await until(lambda: stream.handled[LATER] == 100, "the others to be handled", 60)

    await stream.app.aclose()
