"""Outcomes, returned and raised, within the handler's transaction and after it."""

from __future__ import annotations

import asyncio
import contextlib

import psycopg
import pytest

from pgsluice import WorkQueue
from pgsluice.errors import ArgumentError, PrivilegeError
from pgsluice.outcome import DELAY_MAX_S
from pgsluice.worker import (
    App,
    Batch,
    Context,
    Done,
    Reject,
    Release,
    Retry,
    RetryPolicy,
    SyncContext,
)
from pgsluice.worker.engine.settle.lost_sessions import UNCOUNTED_MAX
from support import rows, value
from support.runtime import until
from worker.test_worker import EFFECT, drained, effects, left

OUTCOMES = {
    "done": (Done(), (0, 1, 0)),
    "done of tasks": (ExceptionGroup("tasks", [Done(), Done()]), (0, 1, 0)),
    "reject": (Reject("no"), (0, 0, 1)),
    "release": (Release(60), (1, 0, 0)),
    "retry": (Retry(60), (1, 0, 0)),
    "error": (ValueError("no"), (0, 0, 1)),
}


@pytest.fixture
def app(worker_url):
    return App(worker_url, name="tests")


def raised_or_returned(outcome, is_raised):
    if is_raised:
        raise outcome
    return outcome


@pytest.mark.slow
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("is_raised", [False, True], ids=["returned", "raised"])
@pytest.mark.parametrize("is_within", [False, True], ids=["after", "within"])
@pytest.mark.parametrize("mode", ["lease", "transaction"])
@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
async def test_an_outcome_means_the_same_returned_and_raised_in_a_transaction_and_after_it(
    app, observer, queue_name, outcome, is_raised, is_within, mode, is_async
):
    end, ends = OUTCOMES[outcome]
    options = {"name": "tested", "mode": mode, "retry": RetryPolicy(max_attempts=1)}
    parameters = [queue_name, 1, "written"]
    if outcome == "retry":
        options["retry"] = RetryPolicy(max_attempts=2)

    async def in_loop(_payload, context: Context):
        async with context.transaction() as connection:
            await connection.execute(EFFECT, parameters)
            if is_within:
                return raised_or_returned(end, is_raised)
        return raised_or_returned(end, is_raised)

    def in_thread(_payload, context: SyncContext):
        with context.transaction() as connection:
            connection.execute(EFFECT, parameters)
            if is_within:
                return raised_or_returned(end, is_raised)
        return raised_or_returned(end, is_raised)

    app.handler(queue_name, **options)(in_loop if is_async else in_thread)
    WorkQueue(observer).send(queue_name, 1)

    counts = await drained(app)

    assert left(observer, queue_name) == ends
    assert effects(observer, queue_name) == (
        [(1, "written")] if ends == OUTCOMES["done"][1] else []
    )
    assert (counts.done, counts.lost) == (ends[1], 0)


def lose_session(connection, observer):
    pid = connection.info.backend_pid
    observer.execute("select pg_terminate_backend(%s, 10000)", [pid])
    with contextlib.suppress(psycopg.Error):
        connection.execute("select 1")


def close(connection, _observer):
    connection.close()


def fail_a_statement(connection, _observer):
    with contextlib.suppress(psycopg.Error):
        connection.execute("select 1 / 0")


def roll_back(connection, _observer):
    connection.execute("rollback")


def roll_back_and_go_on(connection, _observer):
    connection.execute("rollback")
    connection.execute("select 1")


def commit(connection, _observer):
    connection.commit()


def raise_our_own_error(_connection, _observer):
    raise PrivilegeError("not allowed to do this")


BREAKAGES = {
    lose_session: "the connection was lost",
    close: "the connection was lost",
    fail_a_statement: "a statement in it failed",
    roll_back: "the handler ended the transaction itself",
    roll_back_and_go_on: "the handler ended the transaction itself",
    commit: "Explicit commit() forbidden within a Transaction context",
    raise_our_own_error: "not allowed to do this",
}


@pytest.mark.slow
@pytest.mark.parametrize("breakage", BREAKAGES)
@pytest.mark.parametrize(
    ("mode", "is_within"), [("lease", False), ("lease", True), ("transaction", False)]
)
async def test_a_transaction_that_cannot_be_committed_is_a_failure_that_keeps_its_error(
    app, observer, queue_name, breakage, mode, is_within
):
    @app.handler(queue_name, name="tested", mode=mode, retry=RetryPolicy(max_attempts=1))
    def break_it(_payload, context: SyncContext):
        with context.transaction() as connection:
            connection.execute(EFFECT, [queue_name, 1, "written"])
            if is_within:
                breakage(connection, observer)
        if not is_within:
            breakage(connection, observer)

    WorkQueue(observer).send(queue_name, 1)
    # A lost session counts as an attempt only after this number of uncounted deliveries.
    observer.execute(f"update pgmq.q_{queue_name} set read_ct = {UNCOUNTED_MAX}")

    counts = await drained(app)

    assert effects(observer, queue_name) == []
    assert (counts.done, left(observer, queue_name)) == (0, (0, 0, 1))
    error = value(
        observer,
        "select error from sluice.dead_letter where queue_name = %s",
        queue_name,
    )
    assert BREAKAGES[breakage] in error


async def test_a_deferred_constraint_that_fails_at_commit_is_a_failure(app, observer, queue_name):
    observer.execute(
        f"create table one_{queue_name} (n integer unique deferrable initially deferred)"
    )

    @app.handler(queue_name, name="tested", retry=RetryPolicy(max_attempts=1))
    async def insert_twice(_payload, context: Context):
        async with context.transaction() as connection:
            await connection.execute(f"insert into one_{queue_name} values (1), (1)")

    WorkQueue(observer).send(queue_name, 1)

    counts = await drained(app)

    assert (counts.done, left(observer, queue_name)) == (0, (0, 0, 1))
    assert counts.by_error_type == {"UniqueViolation": 1}


SLOW_COMMIT = """
    create table slow_{0} (n integer);
    create function commit_{0}() returns trigger language plpgsql as $$
    begin
        perform pg_sleep(60);
        return null;
    exception when query_canceled then
        return null;
    end $$;
    create constraint trigger wait after insert on slow_{0} deferrable initially deferred
        for each row execute function commit_{0}()"""


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
async def test_a_handler_that_times_out_during_a_commit_that_succeeds_is_done(
    app, observer, queue_name, caplog, is_async
):
    observer.execute(SLOW_COMMIT.format(queue_name))
    insert = f"insert into slow_{queue_name} values (1)"

    async def in_loop(_payload, context: Context):
        async with context.transaction() as connection:
            await connection.execute(insert)

    def in_thread(_payload, context: SyncContext):
        with context.transaction() as connection:
            connection.execute(insert)

    app.handler(queue_name, name="tested", timeout_s=0.5, retry=RetryPolicy(max_attempts=1))(
        in_loop if is_async else in_thread
    )
    WorkQueue(observer).send(queue_name, 1)

    counts = await drained(app)

    assert left(observer, queue_name) == (0, 1, 0)
    assert (counts.done, counts.lost, counts.by_error_type) == (1, 0, {})
    (line,) = [each for each in caplog.messages if each.startswith("handler failed")]
    assert "outcome=acknowledged" in line
    assert "timeout" in line


async def test_code_after_the_block_runs_before_the_commit(app, observer, queue_name):
    seen = []

    @app.handler(queue_name, name="tested")
    async def look_after_the_block(_payload, context: Context):
        async with context.transaction() as connection:
            await connection.execute(EFFECT, [queue_name, 1, "written"])
        seen.append(await asyncio.to_thread(effects, observer, queue_name))

    WorkQueue(observer).send(queue_name, 1)

    await drained(app)

    assert seen == [[]]
    assert effects(observer, queue_name) == [(1, "written")]


async def test_a_handler_that_times_out_after_its_block_has_written_nothing(
    app, observer, queue_name
):
    @app.handler(queue_name, name="tested", timeout_s=0.3, retry=RetryPolicy(max_attempts=1))
    def hang(_payload, context: SyncContext):
        with context.transaction() as connection:
            connection.execute(EFFECT, [queue_name, 1, "written"])
        context.lost.wait(20)

    WorkQueue(observer).send(queue_name, 1)

    counts = await drained(app)
    await until(lambda: not locks_of(observer, queue_name), "the transaction to end", 30)

    assert effects(observer, queue_name) == []
    assert (counts.done, left(observer, queue_name)) == (0, (0, 0, 1))


def locks_of(observer, queue_name):
    return rows(
        observer,
        "select 1 from pg_locks where relation = %s::regclass and pid <> pg_backend_pid()",
        f"pgmq.q_{queue_name}",
    )


async def test_each_message_of_a_batch_is_committed_at_the_end_of_its_block(
    app, observer, queue_name
):
    @app.handler(queue_name, name="tested", batch=Batch(10), retry=RetryPolicy(max_attempts=1))
    async def write_each(payloads: list, contexts: list[Context]):
        for context in contexts:
            async with context.transaction() as connection:
                await connection.execute(EFFECT, [queue_name, context.message_id, "written"])
            found = await asyncio.to_thread(effects, observer, queue_name)
            assert (context.message_id, "written") in found

    WorkQueue(observer).send_batch(queue_name, list(range(20)))

    counts = await drained(app)

    assert (counts.done, left(observer, queue_name)) == (20, (0, 20, 0))


def gathered(payloads):
    async def one(payload):
        if payload == 2:
            raise ValueError("no 2")
        return payload

    return asyncio.gather(*map(one, payloads), return_exceptions=True)


RESULTS = {
    "gather with return_exceptions": (gathered, (0, 2, 1)),
    "an exception": (lambda payloads: ValueError("all"), (0, 0, 3)),
    "a list with an exception": (lambda payloads: [None, ValueError("no 2"), Done()], (0, 2, 1)),
    "a generator": (lambda payloads: (Done() for _ in payloads), (0, 0, 3)),
    "a dict": (lambda payloads: {n: Reject("no") for n in payloads}, (0, 0, 3)),
    "a set": (lambda payloads: {Reject("no")}, (0, 0, 3)),
    "too few": (lambda payloads: [None], (0, 0, 3)),
    "text": (lambda payloads: "done", (0, 3, 0)),
    "nothing": (lambda payloads: None, (0, 3, 0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("result", RESULTS)
async def test_batch_handler_returns_one_outcome_per_message_or_fails(
    app, observer, queue_name, result
):
    make, ends = RESULTS[result]

    @app.handler(queue_name, name="tested", batch=Batch(10), retry=RetryPolicy(max_attempts=1))
    async def handle(payloads: list[int]):
        made = make(payloads)
        return await made if asyncio.isfuture(made) else made

    WorkQueue(observer).send_batch(queue_name, [1, 2, 3])

    counts = await drained(app)

    assert left(observer, queue_name) == ends
    assert (counts.done, counts.dead) == (ends[1], ends[2])


def a_generator():
    yield Done()


async def an_async_generator():
    yield Done()


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(lambda: ValueError("no"), id="an exception"),
        pytest.param(lambda: "retry", id="the name of an outcome"),
        pytest.param(lambda: [1, ValueError("no")], id="a list with an exception"),
        pytest.param(lambda: {"a": ValueError("no")}, id="a dict with an exception"),
        pytest.param(a_generator, id="a generator"),
        pytest.param(an_async_generator, id="an async generator"),
    ],
)
async def test_a_result_that_is_no_success_is_a_failure_of_its_message(
    app, observer, queue_name, result
):
    @app.handler(queue_name, name="tested", retry=RetryPolicy(max_attempts=1))
    async def handle(_payload):
        return result()

    WorkQueue(observer).send(queue_name, 1)

    counts = await drained(app)

    assert (counts.done, left(observer, queue_name)) == (0, (0, 0, 1))


@pytest.mark.parametrize(
    ("errors", "ends"),
    [
        ([Reject("no"), Reject("no")], (0, 0, 1)),
        ([Reject("no"), ExceptionGroup("inner", [Reject("no")])], (0, 0, 1)),
        ([Reject("no"), ValueError("other")], (1, 0, 0)),
    ],
)
async def test_a_group_of_rejects_only_is_a_reject(app, observer, queue_name, errors, ends):
    @app.handler(
        queue_name,
        name="tested",
        retry=RetryPolicy(max_attempts=5, backoff_base_s=60, backoff_jitter=False),
    )
    async def handle(_payload):
        raise ExceptionGroup("tasks", errors)

    WorkQueue(observer).send(queue_name, 1)

    await drained(app)

    assert left(observer, queue_name) == ends


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retry(1e10),
        lambda: Release(1e15),
        lambda: Retry(-1),
        lambda: Release(float("nan")),
    ],
)
def test_a_delay_that_the_server_cannot_add_is_refused(make):
    with pytest.raises(ArgumentError, match="use 0 to 2147483647 seconds"):
        make()


@pytest.mark.parametrize(
    "outcome", [Retry(DELAY_MAX_S), Release(DELAY_MAX_S)], ids=["retry", "release"]
)
async def test_the_longest_delay_is_kept(app, observer, queue_name, outcome):
    @app.handler(queue_name, name="tested", retry=RetryPolicy(max_attempts=2))
    async def handle(_payload):
        return outcome

    WorkQueue(observer).send(queue_name, 1)

    counts = await drained(app)

    assert (counts.retry + counts.released, counts.dead) == (1, 0)
    assert value(observer, f"select vt > now() + '67 years' from pgmq.q_{queue_name}")


async def test_an_exception_as_a_reason_is_kept_as_its_text(app, observer, queue_name):
    @app.handler(queue_name, name="tested")
    async def handle(_payload):
        return Reject(ValueError("no such account"))

    WorkQueue(observer).send(queue_name, 1)

    await drained(app)

    query = "select reason, error from sluice.dead_letter where queue_name = %s"
    assert rows(observer, query, queue_name) == [
        ("ValueError: no such account", "ValueError: no such account")
    ]
