"""Handlers whose messages run after others, in a real worker."""

from __future__ import annotations

import asyncio
import random

import pytest

from pgsluice import Operations, WorkQueue
from pgsluice.errors import ArgumentError, ServerError
from pgsluice.worker import App, Context, Reject, RetryPolicy, SyncContext, Worker
from support import rows, value
from worker.test_worker import left

ONCE = RetryPolicy(max_attempts=1)


@pytest.fixture
def app(worker_url):
    app = App(worker_url, name="tests")
    yield app
    app.close()


@pytest.fixture
def places(observer, queue_name):
    """Two queues whose messages others may wait for."""
    names = (queue_name, f"{queue_name}_then")
    WorkQueue(observer).create(names[1])
    for name in names:
        Operations(observer).enable_successors(name)
    return names


async def drained(app):
    await Worker(app).run_until_empty(idle_s=1.5)


@pytest.mark.parametrize("keep", ["archive", "delete"])
@pytest.mark.parametrize("mode", ["lease", "own", "transaction"])
async def test_a_message_runs_after_those_that_it_waits_for(app, places, observer, mode, keep):
    order = []
    options = {"keep": keep, "mode": "transaction" if mode == "transaction" else "lease"}

    @app.handler(places[0], name="first", **options)
    async def first(n: int, context: Context) -> None:
        if mode == "own":
            async with context.transaction():
                order.append(n)
        else:
            order.append(n)

    @app.handler(places[1], name="then")
    def then(n: int) -> None:
        order.append(n)

    ids = await first.send_many_async([1, 2])
    own = await first.send_async(3, after=ids)
    await then.send_async(4, after={first: [own], places[0]: ids})
    await then.send_async(0, after=[])

    await drained(app)

    assert sorted(order) == [0, 1, 2, 3, 4]
    assert order.index(3) > max(order.index(1), order.index(2))
    assert order[-1] == 4 or order.index(4) > order.index(3)
    assert left(observer, places[1]) == (0, 2, 0)
    await app.aclose()


async def test_the_failure_of_one_dead_letters_those_behind_it(app, places, observer):
    @app.handler(places[0], name="first", retry=ONCE)
    async def first(_n: int) -> None:
        raise Reject("no such picture")

    ran = []

    @app.handler(places[1], name="then")
    async def then(n: int) -> None:
        ran.append(n)

    msg_id = await first.send_async(1)
    behind = await then.send_async(2, after={first: [msg_id]})
    await then.send_async(3, after=[behind])
    await then.send_async(4, after=[behind], after_failure="continue")

    await drained(app)

    letters = "select message, reason from sluice.dead_letter where queue_name = %s order by msg_id"
    failed = "predecessor failed"
    assert rows(observer, letters, places[1]) == [(2, failed), (3, failed)]
    assert ran == [4]
    await app.aclose()


def test_a_handler_that_sends_after_its_own_message_in_its_transaction(app, places, observer):
    @app.handler(places[0], name="first", mode="transaction")
    def first(n: int, context: SyncContext) -> None:
        with context.transaction() as connection:
            if n == 1:
                first.send(2, after=[context.message_id], connection=connection)

    first.send(1)

    asyncio.run(drained(app))

    assert left(observer, places[0]) == (0, 2, 0)


def test_options_that_cannot_be_are_refused(app, places):
    @app.handler(places[0])
    def first(n: int) -> None: ...

    @app.handler(log="orders", group="mailers", event_types=["paid"])
    def paid(n: int) -> None: ...

    with pytest.raises(ArgumentError, match="after and deduplication are mutually exclusive"):
        first.send(1, after=[1], deduplication_key="a")
    with pytest.raises(ArgumentError, match="after_failure needs after"):
        first.send(1, after_failure="continue")
    with pytest.raises(ArgumentError, match="is for a log, which does not support after here"):
        paid.send(1, after=[1])
    with pytest.raises(ArgumentError, match="use the name of a queue, or its handler"):
        first.send(1, after={paid: [1]})
    with pytest.raises(ArgumentError, match="never had message 99"):
        first.send(1, after=[99])


def test_a_queue_that_was_not_enabled_names_the_remedy(app, queue_name):
    @app.handler(queue_name)
    def first(n: int) -> None: ...

    with pytest.raises(ServerError, match=r"select sluice\.enable_successors"):
        first.send(1, after=[first.send(0)])


@pytest.mark.slow
async def test_random_graphs_run_each_message_once_and_in_order_in_concurrent_workers(
    app, places, observer, seed
):
    random_ = random.Random(seed)
    ended, started_early = [], []
    waits = {}

    async def run(n, name, msg_id):
        missing = waits.get((name, msg_id), set()) - set(ended)
        if missing:
            started_early.append((name, msg_id, missing))
        await asyncio.sleep(0)
        ended.append((name, msg_id))
        return n

    @app.handler(places[0], name="first", mode="transaction", concurrency=4)
    async def first(n: int, context: Context) -> None:
        await run(n, places[0], context.message_id)

    @app.handler(places[1], name="then", keep="delete", concurrency=4)
    async def then(n: int, context: Context) -> None:
        await run(n, places[1], context.message_id)

    workers = [asyncio.create_task(Worker(app).run_until_empty(idle_s=3)) for _ in range(2)]
    sent = []
    for n in range(80):
        handler, place = random_.choice([(first, places[0]), (then, places[1])])
        before = random_.sample(sent, random_.randint(0, min(4, len(sent))))
        after = {}
        for queue, msg_id in before:
            after.setdefault(queue, []).append(msg_id)
        msg_id = await handler.send_async(n, after=after)
        waits[place, msg_id] = set(before)
        sent.append((place, msg_id))
    await asyncio.gather(*workers)
    await drained(app)

    assert sorted(ended) == sorted(sent)
    assert started_early == []
    assert value(observer, "select count(*) from sluice.successor") == 0
    await app.aclose()
