"""A row lock of another transaction delays only its own message."""

from __future__ import annotations

import asyncio
from collections import Counter

import psycopg
import pytest

from pgsluice import EventLog, WorkQueue
from pgsluice.worker import App, Done, RetryPolicy, SyncContext
from pgsluice.worker.engine.delivery import Settlement
from pgsluice.worker.engine.flow.options import WorkerOptions
from pgsluice.worker.engine.flow.worker import Worker
from pgsluice.worker.handlers.handler import GroupRoute
from support import rows, value
from support.runtime import running, until
from support.sources import make_source, pool_of, spec
from worker.test_worker import effects, left

LEASE_S = 2.0
SLEEPING = """select count(*) from pg_stat_activity
    where datname = current_database() and state = 'active' and query = 'select pg_sleep(60)'"""


@pytest.fixture
def app(worker_url):
    return App(worker_url, name="tests")


@pytest.fixture
def outsider(worker_url):
    with psycopg.connect(worker_url) as connection:
        yield connection
        connection.rollback()


def archived(observer, queue_name):
    return [row[0] for row in rows(observer, f"select msg_id from pgmq.a_{queue_name} order by 1")]


@pytest.mark.slow
@pytest.mark.parametrize("max_connections", [30, 3], ids=["usual", "one engine connection"])
async def test_a_locked_row_delays_only_its_own_message(
    app, observer, outsider, queue_name, max_connections
):
    starts, going = Counter(), asyncio.Event()

    @app.handler(queue_name, name="tested", lease_s=LEASE_S, concurrency=4)
    async def tested(payload: int) -> None:
        starts[payload] += 1
        await going.wait()

    WorkQueue(observer).send_batch(queue_name, [1, 2, 3, 4])
    worker = Worker(app, options=WorkerOptions(max_connections=max_connections))
    async with running(worker):
        await until(lambda: len(starts) == 4, "all handlers to run")
        outsider.execute(f"select from pgmq.q_{queue_name} where msg_id = 1 for update")
        others = f"select min(vt) from pgmq.q_{queue_name} where msg_id > 1"
        first_end = value(observer, others)
        await until(
            lambda: (value(observer, others) - first_end).total_seconds() > 2 * LEASE_S,
            "the leases of the others to be renewed for more than two leases",
        )
        going.set()
        await until(lambda: archived(observer, queue_name) == [2, 3, 4], "the others to be settled")
        outsider.rollback()
        await until(lambda: worker.counts()["tested"].done == 4, "the first to be settled, too")
        counts = worker.counts()["tested"]

    assert archived(observer, queue_name) == [1, 2, 3, 4]
    assert [starts[payload] for payload in (2, 3, 4)] == [1, 1, 1]
    # Its lease has expired; in rare cases it is read again before the acknowledgement gets the row
    # lock.
    assert starts[1] in (1, 2)
    assert (counts.done, counts.lost) == (4, starts[1] - 1)


@pytest.mark.slow
async def test_a_failed_message_whose_row_is_locked_delays_no_start_of_another(
    app, observer, outsider, queue_name
):
    starts = Counter()

    @app.handler(queue_name, name="tested", concurrency=2, retry=RetryPolicy(2, backoff_base_s=0))
    async def tested(payload: int) -> None:
        starts[payload] += 1
        if payload == 1 and starts[1] == 1:
            outsider.execute(f"select from pgmq.q_{queue_name} where msg_id = 1 for update")
            raise ValueError("first")

    WorkQueue(observer).send_batch(queue_name, [1, 2, 3])
    worker = Worker(app)
    async with running(worker):
        await until(lambda: archived(observer, queue_name) == [2, 3], "the others to be settled")
        outsider.rollback()
        await until(lambda: worker.counts()["tested"].done == 3, "the first to be settled, too")
        counts = worker.counts()["tested"]

    assert archived(observer, queue_name) == [1, 2, 3]
    assert starts == Counter([1, 1, 2, 3])
    assert (counts.done, counts.retry, counts.lost) == (3, 1, 0)


async def test_a_statement_that_outlives_the_timeout_is_cancelled(app, observer, queue_name):
    attempts = []

    @app.handler(
        queue_name,
        name="tested",
        mode="transaction",
        timeout_s=0.5,
        lease_s=LEASE_S,
        concurrency=2,
        retry=RetryPolicy(max_attempts=2, backoff_base_s=0),
    )
    def tested(payload: int, context: SyncContext) -> None:
        if payload == 1 and context.attempt == 1:
            with context.transaction() as connection:
                attempts.append(connection.info.backend_pid)
                connection.execute("select pg_sleep(60)")

    WorkQueue(observer).send_batch(queue_name, [1, 2, 3])
    worker = Worker(app)
    async with running(worker):
        await until(lambda: worker.counts()["tested"].done == 3, "all to be settled")
        counts = worker.counts()["tested"]
        assert value(observer, SLEEPING) == 0

    assert archived(observer, queue_name) == [1, 2, 3]
    assert (counts.done, counts.retry, counts.lost) == (3, 1, 0)
    assert counts.by_error_type == {"timeout": 1}


async def test_a_transaction_that_was_cut_off_is_not_committed(app, observer, queue_name):
    @app.handler(
        queue_name,
        name="tested",
        mode="transaction",
        timeout_s=0.3,
        retry=RetryPolicy(max_attempts=1),
    )
    def tested(_payload: int, context: SyncContext) -> None:
        with context.transaction() as connection:
            connection.execute("insert into effect values (%s, 1, 'written')", [queue_name])
            try:
                with connection.transaction():
                    connection.execute("select pg_sleep(60)")
            except psycopg.Error:
                pass  # a handler that catches all exceptions

    WorkQueue(observer).send(queue_name, 1)

    counts = (await Worker(app).run_until_empty(idle_s=0.2))["tested"]

    assert (counts.done, left(observer, queue_name)) == (0, (0, 0, 1))
    assert effects(observer, queue_name) == []


@pytest.mark.slow
async def test_a_locked_claim_of_a_share_group_delays_no_other_claim(
    app, observer, outsider, queue_name
):
    log_name = f"log_{queue_name}"
    observer.execute("select pgq.create_queue(%s)", [log_name])
    route = GroupRoute(log_name, "group", ())
    async with pool_of(app.dsn) as pool, asyncio.timeout(30):
        source = make_source(spec(route), pool, None, "tester")
        await source.prepare()
        EventLog(observer).insert_event(log_name, "t", "1")
        EventLog(observer).insert_event(log_name, "t", "2")
        observer.execute("select sluice.log_tick(%s)", [log_name])
        deliveries = []
        while len(deliveries) < 2:
            deliveries += await source.claim(1, LEASE_S)
        first, second = deliveries
        outsider.execute("select from sluice.claim where claim_id = %s for update", [first.fence])
        lease_end_s = second.lease_end_s

        assert await source.extend(deliveries, 60.0) == []
        assert (first.is_locked, second.is_locked) == (True, False)
        assert second.lease_end_s > lease_end_s + 50

        settled = await source.settle({each: Settlement(Done()) for each in deliveries})
        assert [each.result for each in settled.values()] == ["locked", "done"]

        settling = asyncio.create_task(source.settle({first: Settlement(Done())}, wait_s=20))
        outsider.rollback()
        assert [each.result for each in (await settling).values()] == ["done"]
