"""A worker on a real server: a handler's effects and its message's outcome are atomic."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import psycopg
import pytest

from pgsluice import WorkQueue
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import Call
from pgsluice.client.calls.call import nothing
from pgsluice.errors import ConnectionFailedError, LeaseLostError
from pgsluice.worker import App, Context, Reject, Release, Retry, RetryPolicy, SyncContext
from pgsluice.worker.engine.connections import connections, sessions
from pgsluice.worker.engine.flow.worker import Worker
from support import rows, value
from support.runtime import running, until

EFFECT = "insert into effect values (%s, %s, %s)"


def left(observer, queue_name):
    """Return the numbers of messages in the queue, its archive and its dead letters."""
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


def make_visible(observer, queue_name):
    observer.execute(f"update pgmq.q_{queue_name} set vt = clock_timestamp()")


@pytest.fixture
def app(worker_url):
    return App(worker_url, name="tests")


@pytest.fixture(params=["loop", "thread"])
def handle(request, app, queue_name):
    """Return a function that adds a handler that runs a callback in its transaction."""

    def make(do, **options):
        given = {"retry": RetryPolicy(max_attempts=2, backoff_base_s=0), **options}

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
async def test_effects_of_a_handler_commit_with_its_acknowledgement(
    app, handle, mode, observer, queue_name
):
    handle(lambda payload, context: None, mode=mode)
    WorkQueue(observer).send_batch(queue_name, [1, 2, 3])

    counts = await drained(app)

    assert (counts.done, left(observer, queue_name)) == (3, (0, 3, 0))
    assert effects(observer, queue_name) == [(1, "1"), (2, "1"), (3, "1")]


@pytest.mark.parametrize("mode", ["lease", "transaction"])
async def test_effects_of_a_failed_attempt_are_rolled_back_and_the_attempt_counts(
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


async def test_a_message_is_archived_in_the_transaction_of_its_effect(
    app, handle, observer, queue_name
):
    handle(lambda payload, context: None)
    WorkQueue(observer).send_batch(queue_name, [1, 2])

    await drained(app)

    transactions = rows(
        observer,
        f"select a.xmin::text = e.xmin::text from pgmq.a_{queue_name} as a "
        "join effect as e using (msg_id) where e.queue_name = %s",
        queue_name,
    )
    assert transactions == [(True,), (True,)]


async def test_a_failed_message_is_tried_again_after_each_delay_of_the_handlers_policy(
    app, observer, queue_name
):
    policy = RetryPolicy(
        max_attempts=4,
        backoff_base_s=100,
        backoff_factor=3,
        backoff_max_s=600,
        backoff_jitter=False,
    )

    @app.handler(queue_name, name="tested", retry=policy)
    async def fail(_payload):
        raise ValueError

    WorkQueue(observer).send(queue_name, 1)
    hidden_s = f"select extract(epoch from vt - clock_timestamp())::float from pgmq.q_{queue_name}"

    for expected in (100, 300, 600):
        assert (await drained(app)).retry == 1
        assert expected - 20 < value(observer, hidden_s) <= expected
        make_visible(observer, queue_name)
    assert (await drained(app)).dead == 1

    assert left(observer, queue_name) == (0, 0, 1)


async def test_a_dead_letter_has_the_message_and_the_trace_of_its_error(app, observer, queue_name):
    @app.handler(queue_name, name="tested", retry=RetryPolicy(max_attempts=1))
    async def fail(payload):
        raise ValueError(
            f"cannot \x00 work \ud83d on {payload}"
        )  # characters that PostgreSQL cannot store

    WorkQueue(observer).send(queue_name, {"n": 1}, headers={"h": 2})

    await drained(app)

    ((message, headers, read_ct, attempts, error_type, error, trace),) = rows(
        observer,
        "select message, headers, read_ct, attempts, error_type, error, trace "
        "from sluice.dead_letter where queue_name = %s",
        queue_name,
    )
    assert (message, headers, read_ct, attempts) == ({"n": 1}, {"h": 2}, 1, 1)
    assert (error_type, error) == ("ValueError", r"cannot \x00 work \ud83d on {'n': 1}")
    assert trace.startswith("Traceback (most recent call last)")
    assert trace.rstrip().endswith(f"ValueError: {error}")
    assert "in fail" in trace


@pytest.mark.parametrize(
    ("answer", "ends"),
    [(Reject("no"), (0, 0, 1)), (Release(60), (1, 0, 0)), (Retry(60), (1, 0, 0))],
)
async def test_in_mode_transaction_only_done_is_committed(
    app, handle, observer, queue_name, answer, ends
):
    handle(lambda payload, context: answer, mode="transaction")
    WorkQueue(observer).send(queue_name, 1)

    await drained(app)

    assert left(observer, queue_name) == ends
    assert effects(observer, queue_name) == []


@pytest.mark.parametrize(
    ("losing", "effect_count"),
    [
        pytest.param(["pgmq.set_vt(%s, 1, 0)", "pgmq.read(%s, 0, 1)"], 1, id="claimed again"),
        pytest.param(["pgmq.archive(%s, 1)"], 0, id="archived"),
    ],
)
async def test_a_transaction_whose_claim_is_over_is_rolled_back(
    app, handle, observer, queue_name, losing, effect_count
):
    seen = []

    def lose(_payload, context):
        if not seen:
            seen.append(context)
            for call in losing:
                observer.execute(f"select {call}", [queue_name])  # as another worker does

    handle(lose)
    WorkQueue(observer).send(queue_name, 1)

    counts = await drained(app)

    assert (counts.lost, counts.done, left(observer, queue_name)) == (1, effect_count, (0, 1, 0))
    assert len(effects(observer, queue_name)) == effect_count
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
    await until(begun.is_set, "the handler to start")
    # As if the lease had expired: the row is locked, so it is neither claimed nor changed.
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
        retry=RetryPolicy(2, backoff_base_s=0),
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
    assert late, "the thread's connection was still open"


async def test_once_runs_a_side_effect_a_single_time(app, observer, queue_name):
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
    attempts, errors = [], []

    @app.handler(queue_name, name="tested", lease_s=60)
    async def tested(_payload: object, context: Context) -> None:
        await context.heartbeat()
        attempts.append(context.attempt)
        if len(attempts) == 1:  # the next attempt may begin before this one's heartbeat is answered
            observer.execute("select pgmq.set_vt(%s, 1, 0)", [queue_name])
            observer.execute("select pgmq.read(%s, 0, 1)", [queue_name])
            try:
                await context.heartbeat()
            except LeaseLostError as error:
                errors.append(error)
                raise

    WorkQueue(observer).send(queue_name, 1)

    counts = await drained(app)

    assert (counts.lost, counts.done) == (1, 1)
    assert "another worker may have claimed it" in str(errors[0])


async def test_messages_released_at_shutdown_count_no_attempt(app, observer, queue_name):
    going = asyncio.Event()

    @app.handler(queue_name, name="tested", concurrency=2, retry=RetryPolicy(1))
    async def tested(_payload: object) -> None:
        await going.wait()

    WorkQueue(observer).send_batch(queue_name, [1, 2, 3])
    for _ in range(3):  # any number of times, although there is only one attempt
        worker = Worker(app)
        running = asyncio.create_task(worker.run())
        await until(lambda at=worker: at.status().handlers[0].running == 2, "two to run")
        worker.stop(now=True)
        await running
    going.set()

    counts = await drained(app)

    assert (counts.done, left(observer, queue_name)) == (3, (0, 3, 0))


KILLED = """
import os, sys
import psycopg
from pgsluice import App, RetryPolicy, SyncContext
from pgsluice.testing import drain

url, queue_name, concurrency = sys.argv[1:]
app = App(url)
EFFECT = "insert into effect values (%s, %s, %s)"

@app.handler(queue_name, concurrency=int(concurrency), retry=RetryPolicy(max_attempts=2))
def handle(payload, context: SyncContext):
    with context.transaction() as connection, psycopg.connect(url, autocommit=True) as other:
        other.execute(EFFECT, [queue_name, context.message_id, "started"])
        connection.execute(EFFECT, [queue_name, context.message_id, "done"])
        if payload == "poison":
            os._exit(86)

drain(app)
"""


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 10])
def test_a_message_that_kills_its_process_is_a_dead_letter_after_the_last_attempt_and_no_other_is(
    worker_url, observer, queue_name, concurrency
):
    WorkQueue(observer).send_batch(queue_name, ["good", "poison", "good", "good"])

    codes = []
    for _ in range(4):
        process = subprocess.run(
            [sys.executable, "-c", KILLED, worker_url, queue_name, str(concurrency)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        codes.append(process.returncode)
        make_visible(observer, queue_name)

    assert codes == [86, 86, 0, 0], process.stderr
    assert left(observer, queue_name) == (0, 3, 1)
    found = effects(observer, queue_name)
    assert [msg_id for msg_id, note in found if note == "done"] == [1, 3, 4]
    assert found.count((2, "started")) == 2
    dead = rows(
        observer,
        "select msg_id, reason from sluice.dead_letter where queue_name = %s",
        queue_name,
    )
    assert dead == [(2, "delivered too often without an outcome")]


async def test_workers_side_by_side_give_every_message_one_effect(
    app, handle, observer, queue_name
):
    count = 200

    def fail_some(_payload, context):
        if context.message_id % 5 == 0 and context.attempt < 3:
            raise ValueError("not yet")

    handle(fail_some, retry=RetryPolicy(max_attempts=5, backoff_base_s=0))
    WorkQueue(observer).send_batch(queue_name, list(range(count)))

    await asyncio.gather(*(drained(app) for _ in range(4)))

    assert left(observer, queue_name) == (0, count, 0)
    assert [msg_id for msg_id, _ in effects(observer, queue_name)] == list(range(1, count + 1))


@pytest.mark.slow
async def test_a_server_that_does_not_answer_is_given_up_by_the_engine_only(
    monkeypatch, worker_url
):
    monkeypatch.setattr(sessions, "ANSWER_S", 0.1)
    pools = connections.Connections(worker_url, engine_size=1, handlers_size=1)
    slow = Call("select pg_sleep(0.5)", (), nothing)

    await pools.open()
    try:
        with pytest.raises(ConnectionFailedError):
            await AsyncRunner(pools.engine).run(slow)
        with sessions.unhurried():
            await AsyncRunner(pools.engine).run(slow)
        await AsyncRunner(pools.consumers).run(slow)
        async with pools.lend() as lent:
            await AsyncRunner(lent.connection).run(slow)
    finally:
        await pools.close()
