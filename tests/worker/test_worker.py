"""A worker on a real server: what a handler writes, and what becomes of its message, are one."""

from __future__ import annotations

import asyncio
import threading

import psycopg
import pytest

from pgsluice import WorkQueue
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import Call
from pgsluice.client.calls.call import nothing
from pgsluice.errors import ConnectionFailedError, LeaseLostError
from pgsluice.worker import App, Context, Reject, Release, Retry, RetryAfter, SyncContext
from pgsluice.worker.engine import connections
from pgsluice.worker.engine.worker import Worker
from support import rows, value
from support.runtime import running, until

EFFECT = "insert into effect values (%s, %s, %s)"


def left(observer, queue_name):
    """How many are in the queue, in its archive, and among its dead letters."""
    dead = "select count(*) from sluice.dead_letter where queue_name = %s"
    return tuple(
        value(observer, query, *parameters)
        for query, parameters in (
            (f"select count(*) from pgmq.q_{queue_name}", ()),
            (f"select count(*) from pgmq.a_{queue_name}", ()),
            (dead, (queue_name,)),
        )
    )


def effects(observer, queue_name):
    return rows(
        observer, "select msg_id, note from effect where queue_name = %s order by 1, 2", queue_name
    )


@pytest.fixture
def app(worker_url):
    return App(worker_url, name="tests")


@pytest.fixture(params=["loop", "thread"])
def handle(request, app, queue_name):
    """Makes a handler that does what it is told in `context.transaction()` or, in mode `transaction`, around it."""

    def make(do, **options):
        given = {"retry": Retry(max_attempts=2, first_delay_s=0), **options}

        async def in_loop(payload, context: Context):
            async with context.transaction() as connection:
                await connection.execute(
                    EFFECT, [queue_name, context.message_id, str(context.attempt)]
                )
                return await asyncio.to_thread(do, payload, context)

        def in_thread(payload, context: SyncContext):
            with context.transaction() as connection:
                connection.execute(EFFECT, [queue_name, context.message_id, str(context.attempt)])
                return do(payload, context)

        return app.handler(queue_name, name="tested", **given)(
            in_loop if request.param == "loop" else in_thread
        )

    return make


async def drained(app, idle_s=0.2):
    return (await Worker(app).run_until_empty(idle_s=idle_s))["tested"]


@pytest.mark.parametrize("mode", ["lease", "transaction"])
async def test_what_a_handler_writes_is_committed_with_its_acknowledgement(
    app, handle, mode, observer, queue_name
):
    handle(lambda payload, context: None, mode=mode)
    WorkQueue(observer).send_batch(queue_name, [1, 2, 3])

    counts = await drained(app)

    assert (counts.done, left(observer, queue_name)) == (3, (0, 3, 0))
    assert effects(observer, queue_name) == [(1, "1"), (2, "1"), (3, "1")]


@pytest.mark.parametrize("mode", ["lease", "transaction"])
async def test_what_a_failed_attempt_wrote_is_rolled_back_and_the_attempt_counts(
    app, handle, mode, observer, queue_name
):
    def fail_once(_payload, context):
        if context.attempt == 1:
            raise ValueError("first")

    handle(fail_once, mode=mode)
    WorkQueue(observer).send(queue_name, 1)

    counts = await drained(app)

    assert (counts.retry, counts.done, left(observer, queue_name)) == (1, 1, (0, 1, 0))
    assert effects(observer, queue_name) == [(1, "2")]


@pytest.mark.parametrize(
    ("answer", "ends"),
    [(Reject("no"), (0, 0, 1)), (Release(60), (1, 0, 0)), (RetryAfter(60), (1, 0, 0))],
)
async def test_in_mode_transaction_only_done_is_committed(
    app, handle, observer, queue_name, answer, ends
):
    handle(lambda payload, context: answer, mode="transaction")
    WorkQueue(observer).send(queue_name, 1)

    await drained(app)

    assert left(observer, queue_name) == ends
    assert effects(observer, queue_name) == []


async def test_a_transaction_whose_claim_is_over_is_rolled_back(app, handle, observer, queue_name):
    seen = []

    def lose(_payload, context):
        if not seen:
            seen.append(context)
            observer.execute("select pgmq.set_vt(%s, 1, 0)", [queue_name])
            observer.execute("select pgmq.read(%s, 0, 1)", [queue_name])  # another worker has it

    handle(lose)
    WorkQueue(observer).send(queue_name, 1)

    counts = await drained(app)

    assert (counts.lost, counts.done, left(observer, queue_name)) == (1, 1, (0, 1, 0))
    assert len(effects(observer, queue_name)) == 1
    assert seen[0].lost.is_set()


async def test_in_mode_transaction_the_row_is_held_without_a_lease(
    app, handle, observer, queue_name
):
    begun, going = threading.Event(), threading.Event()

    def hold(_payload, _context):
        begun.set()
        assert going.wait(20)

    handle(hold, mode="transaction")
    WorkQueue(observer).send(queue_name, 1)
    worker = Worker(app)
    running = asyncio.create_task(worker.run_until_empty(idle_s=0.2))
    await until(begun.is_set, "it to begin")
    # As if the lease were over: the row is locked, so nobody else gets it, and nobody can change it.
    read = await asyncio.to_thread(
        rows, observer, f"select * from pgmq.read('{queue_name}', 30, 1)"
    )
    impatient = psycopg.connect(app.dsn, autocommit=True, options="-c lock_timeout=100")
    with impatient, pytest.raises(psycopg.errors.LockNotAvailable):
        impatient.execute("select pgmq.set_vt(%s, 1, 0)", [queue_name])
    going.set()
    await running

    assert read == []
    assert left(observer, queue_name) == (0, 1, 0)


async def test_a_thread_that_hangs_in_its_transaction_is_cut_off_from_it(app, observer, queue_name):
    going, late = threading.Event(), []

    @app.handler(
        queue_name,
        name="tested",
        mode="transaction",
        timeout_s=0.3,
        retry=Retry(2, first_delay_s=0),
    )
    def tested(_payload: object, context: SyncContext) -> None:
        if context.attempt == 1:
            going.wait(20)
            try:
                with context.transaction() as connection:
                    connection.execute("select 1")
            except psycopg.OperationalError as error:
                late.append(error)
                raise

    WorkQueue(observer).send(queue_name, 1)
    worker = Worker(app)

    async with running(worker):
        await until(lambda: worker.status().hung_threads == 1, "the thread to hang")
        idle = "select count(*) from pg_stat_activity where state = 'idle in transaction' and datname = current_database()"
        await until(lambda: value(observer, idle) == 0, "its transaction to end")
        going.set()
        await until(lambda: worker.counts()["tested"].done == 1, "the second attempt")
        assert left(observer, queue_name) == (0, 1, 0)
        counts = worker.counts()["tested"]

    assert counts.retry == 1
    assert counts.by_error_type == {"timeout": 1}
    assert late, "the thread found its connection open"


async def test_what_a_handler_did_once_it_does_not_do_again(app, observer, queue_name):
    @app.handler(queue_name, name="tested")
    async def tested(payload: str, context: Context) -> None:
        async with context.transaction() as connection:
            if await context.once(payload):
                await connection.execute(EFFECT, [queue_name, context.message_id, payload])

    WorkQueue(observer).send_batch(queue_name, ["order 1", "order 2", "order 1"])

    counts = await drained(app)

    assert counts.done == 3
    assert sorted(note for _, note in effects(observer, queue_name)) == ["order 1", "order 2"]


async def test_a_heartbeat_tells_a_handler_that_its_claim_is_over(app, observer, queue_name):
    told = []

    @app.handler(queue_name, name="tested", lease_s=60)
    async def tested(_payload: object, context: Context) -> None:
        await context.heartbeat()
        if not told:
            observer.execute("select pgmq.set_vt(%s, 1, 0)", [queue_name])
            observer.execute("select pgmq.read(%s, 0, 1)", [queue_name])
            try:
                await context.heartbeat()
            except LeaseLostError as error:
                told.append(error)
                raise

    WorkQueue(observer).send(queue_name, 1)

    counts = await drained(app)

    assert (counts.lost, counts.done) == (1, 1)
    assert "another worker may have begun" in str(told[0])


async def test_what_is_given_back_at_a_stop_does_not_count(app, observer, queue_name):
    going = asyncio.Event()

    @app.handler(queue_name, name="tested", concurrency=2, retry=Retry(1))
    async def tested(_payload: object) -> None:
        await going.wait()

    WorkQueue(observer).send_batch(queue_name, [1, 2, 3])
    for _ in range(3):  # as often as it likes, although there is only one attempt
        worker = Worker(app)
        running = asyncio.create_task(worker.run())
        await until(lambda at=worker: at.status().handlers[0].running == 2, "two to run")
        worker.stop(now=True)
        await running
    going.set()

    counts = await drained(app)

    assert (counts.done, left(observer, queue_name)) == (3, (0, 3, 0))


async def test_a_server_that_does_not_answer_is_given_up_by_the_engine_only(
    monkeypatch, worker_url
):
    monkeypatch.setattr(connections, "_ANSWER_S", 0.1)
    pools = connections.Connections(worker_url, engine_size=1, handlers_size=1)
    slow = Call("select pg_sleep(0.5)", (), nothing)

    await pools.open()
    try:
        with pytest.raises(ConnectionFailedError):
            await AsyncRunner(pools.engine).run(slow)
        with connections.unhurried():
            await AsyncRunner(pools.engine).run(slow)
        await AsyncRunner(pools.consumers).run(slow)
        async with pools.lend() as connection:
            await AsyncRunner(connection).run(slow)
    finally:
        await pools.close()
