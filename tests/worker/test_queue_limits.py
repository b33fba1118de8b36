"""Limits that handlers declare: stored at startup, compared with an operator's; key order."""

from __future__ import annotations

import asyncio
import logging

import psycopg
import pytest

from pgsluice import Operations, WorkQueue
from pgsluice.errors import ArgumentError
from pgsluice.worker import App, Context, RetryPolicy
from pgsluice.worker.engine.flow.options import WorkerOptions
from pgsluice.worker.engine.flow.worker import Worker
from support import rows
from support.runtime import until


def stored(observer, queue_name):
    """Return the stored limits of a queue as a tuple, with seconds for the interval, or None."""
    (found,) = rows(
        observer,
        "select fleet_concurrency, key_concurrency, rate, extract(epoch from rate_interval)::integer, when_waiting "
        "from sluice.queue_options(%s)",
        queue_name,
    )
    return found if any(found) else None


async def started(url, queue_name, *, name="tested", **limits):
    """Start and stop a worker with one handler that declares these limits."""
    app = App(url, name="tests")

    @app.handler(queue_name, name=name, **limits)
    async def handle(_payload):
        pass

    await Worker(app).run_until_empty(idle_s=0)


def warnings(caplog):
    return [
        line
        for each in caplog.records
        if each.levelno >= logging.WARNING and "limits" in (line := each.getMessage())
    ]


async def test_declared_limits_that_change_replace_those_declared_before(
    worker_url, observer, queue_name
):
    for limits, wanted in (
        ({"fleet_concurrency": 5}, (5, None, None, None, None)),
        ({"fleet_concurrency": 1}, (1, None, None, None, None)),
        ({"rate": 7, "rate_s": 60}, (None, None, 7, 60, None)),
        ({"key_concurrency": 2}, (None, 2, None, None, None)),
        ({}, None),
    ):
        await started(worker_url, queue_name, **limits)

        assert stored(observer, queue_name) == wanted


async def test_limits_of_an_operator_stay_and_the_difference_is_logged(
    worker_url, observer, queue_name, caplog
):
    WorkQueue(observer).set_queue_options(queue_name, fleet_concurrency=3)

    await started(worker_url, queue_name)
    await started(worker_url, queue_name, fleet_concurrency=3)

    assert warnings(caplog) == []

    await started(worker_url, queue_name, fleet_concurrency=5, rate=2)

    assert stored(observer, queue_name) == (3, None, None, None, None)
    (line,) = warnings(caplog)
    assert "fleet_concurrency=5 rate=2/1s" in line
    assert "fleet_concurrency=3" in line
    assert "an operator" in line
    assert f"pgsluice queue set {queue_name} fleet_concurrency=; then restart" in line


async def test_a_change_of_declared_limits_is_logged_with_both_values(
    worker_url, observer, queue_name, caplog
):
    await started(worker_url, queue_name, name="old", fleet_concurrency=5)
    await started(worker_url, queue_name, name="new", fleet_concurrency=1)

    (line,) = warnings(caplog)
    assert "fleet_concurrency=5" in line
    assert "test_queue_limits.old" in line
    assert "fleet_concurrency=1" in line
    limits = WorkQueue(observer).queue_options(queue_name)
    assert (limits.fleet_concurrency, limits.limits_by) == (1, f"{__name__}.new")


async def test_priorities_are_declared_stored_and_removed_as_limits_are(
    worker_url, observer, queue_name, caplog
):
    work = WorkQueue(observer)

    await started(worker_url, queue_name, priority_weights=[4, 1], rate=5)
    stored_now = work.queue_options(queue_name)
    assert (stored_now.priority_weights, stored_now.rate) == ([4, 1], 5)
    assert stored_now.limits_by == f"{__name__}.tested"

    await started(worker_url, queue_name, priority_weights=(4, 1), rate=5)
    assert warnings(caplog) == []

    await started(worker_url, queue_name)
    assert work.queue_options(queue_name).priority_weights is None

    work.set_queue_options(queue_name, priority_weights=[9, 1])
    caplog.clear()
    await started(worker_url, queue_name, priority_weights=[4, 1])
    assert work.queue_options(queue_name).priority_weights == [9, 1]
    (line,) = warnings(caplog)
    assert 'declared="priority_weights=4,1" stored="priority_weights=9,1"' in line


async def test_declared_priorities_divide_the_claims(worker_url, queue_name):
    app, seen = App(worker_url, name="tests"), []

    @app.handler(queue_name, name="tested", priority_weights=[1, 0], concurrency=1)
    async def handle(payload):
        seen.append(payload)

    app.create_queues()
    await handle.send_many_async([1, 2], priority=2)
    await handle.send_many_async([3, 4], priority=1)

    await Worker(app, options=WorkerOptions(prefetch=0)).run_until_empty(idle_s=0)
    await app.aclose()
    app.close()

    assert seen == [3, 4, 1, 2]


@pytest.mark.parametrize(
    ("declared", "before", "settings"),
    [
        ({"fleet_concurrency": 5}, None, "fleet_concurrency=5"),
        ({"fleet_concurrency": 5}, 2, "fleet_concurrency=5"),
        ({"rate": 5, "rate_s": 60}, 2, "rate=5/60s fleet_concurrency="),
        ({}, 2, "fleet_concurrency="),
    ],
    ids=["nothing-stored", "other-value-stored", "other-limit-stored", "none-declared"],
)
async def test_a_worker_that_may_not_declare_limits_logs_what_is_declared_and_what_is_stored(
    worker_url, observer, queue_name, member, caplog, declared, before, settings
):
    if before is not None:
        await started(worker_url, queue_name, fleet_concurrency=before)
        caplog.clear()

    await started(member("sluice_reader"), queue_name, **declared)

    (line,) = warnings(caplog)
    assert f"""declared="{settings.split(" ")[0] if declared else "none"}" """ in line
    assert f'pgsluice queue set {queue_name} {settings}"' in line
    assert ("fleet_concurrency=2" if before else 'stored="none"') in line
    assert "sluice_admin" in line
    assert stored(observer, queue_name) == (
        None if before is None else (before, None, None, None, None)
    )


async def test_processes_that_start_at_once_with_other_limits_end_with_those_of_one(
    worker_url, observer, queue_name, caplog
):
    WorkQueue(observer).send_batch(queue_name, list(range(40)))
    versions = [{"fleet_concurrency": 5, "key_concurrency": 2}, {"rate": 1_000}, {}] * 2

    async with asyncio.timeout(60):
        await asyncio.gather(*(started(worker_url, queue_name, **limits) for limits in versions))

    assert stored(observer, queue_name) in {
        (5, 2, None, None, None),
        (None, None, 1_000, 1, None),
        None,
    }
    assert not [each for each in caplog.messages if "deadlock" in each]


@pytest.fixture
def member(worker_url, observer):
    """Return a function that creates a login role in a role and returns its URL."""
    names = []

    def make(member_of):
        name = f"limits_{member_of}_{len(names)}"
        observer.execute(f"create role {name} login password 'x' in role {member_of}")
        names.append(name)
        return psycopg.conninfo.make_conninfo(worker_url, user=name, password="x")

    yield make
    for name in names:
        observer.execute(f"drop role {name}")


# The order of messages of a key -------------------------------------------------------------------


@pytest.fixture
def handled(worker_url, observer, queue_name):
    """Handle messages of a key, the first fails once; return the order of starts."""

    async def run(*payloads, wanted, processes=1, **options):
        starts = []

        def app():
            app = App(worker_url, name="tests")

            @app.handler(
                queue_name,
                name="tested",
                retry=RetryPolicy(backoff_base_s=0.3, backoff_jitter=False),
                **options,
            )
            async def handle(payload: int, context: Context):
                starts.append(payload)
                if payload == 1 and context.attempt == 1:
                    raise ValueError("once")

            return app

        queue = WorkQueue(observer)
        for payload in payloads:
            queue.send(queue_name, payload, headers={"x-pgmq-group": "k"})
        workers = [Worker(app()) for _ in range(processes)]
        running = [asyncio.create_task(worker.run()) for worker in workers]
        async with asyncio.timeout(30):
            while len(starts) < wanted:
                assert not [each.result() for each in running if each.done()]
                await asyncio.sleep(0.01)
            for worker in workers:
                worker.stop()
            await asyncio.gather(*running)
        return starts

    return run


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("limits", [{"key_concurrency": 1}, {"when_waiting": "block"}])
async def test_a_retried_message_is_not_overtaken_by_later_ones_of_its_key(
    handled, limits, processes
):
    assert await handled(1, 2, 3, wanted=4, processes=processes, **limits) == [1, 1, 2, 3]


async def test_with_skip_later_messages_of_the_key_go_on_while_one_waits_for_its_retry(handled):
    assert await handled(1, 2, 3, wanted=4, key_concurrency=1, when_waiting="skip") == [1, 2, 3, 1]


async def test_with_park_no_message_of_the_key_is_handled_until_it_is_unparked(
    handled, observer, queue_name
):
    operations = Operations(observer)
    assert await handled(1, 2, 3, wanted=1, when_waiting="park") == [1]

    def is_retry_due():
        queue_table = f"pgmq.q_{queue_name}"
        return rows(
            observer, f"select vt <= clock_timestamp() from {queue_table} where msg_id = 1"
        ) == [(True,)]

    await until(is_retry_due, "the retry to be due")
    assert rows(observer, f"select * from sluice.claim_messages('{queue_name}', 30, 9)") == []
    (blocked,) = operations.list_blocked_messages(queue_name)
    assert (blocked.key, blocked.reason) == ("k", "parked")

    operations.unpark_messages(queue_name, "k")

    assert await handled(wanted=3, when_waiting="park") == [1, 2, 3]


def test_an_order_of_keys_that_cannot_be_kept_is_refused_where_it_is_declared():
    app = App()
    for options, message in (
        (
            {"when_waiting": "wait"},
            "when_waiting of handler '_handle_nothing' is 'wait'; use block, skip, park",
        ),
        (
            {"when_waiting": "skip", "key_concurrency": 2},
            "key_concurrency of handler '_handle_nothing' is 2",
        ),
        ({"log": "l", "group": "g", "when_waiting": "skip"}, "does not support when_waiting"),
        (
            {"priority_weights": [1]},
            r"priority_weights of handler '_handle_nothing' is \[1\]; use 2 to 9",
        ),
        ({"priority_weights": [0, 0]}, "not all 0"),
        ({"priority_weights": "41"}, "use 2 to 9 whole numbers"),
        (
            {"priority_weights": [2, 1], "key_concurrency": 1},
            "with limits of keys; use one of them",
        ),
        (
            {"log": "l", "group": "g", "priority_weights": [2, 1]},
            "does not support priority_weights",
        ),
    ):
        queue = None if "log" in options else "orders"
        with pytest.raises(ArgumentError, match=message):
            app.handler(queue, **options)(_handle_nothing)


def _handle_nothing(_payload):
    pass


async def test_limits_hold_for_a_queue_that_is_created_again_under_a_running_worker(
    worker_url, observer, queue_name
):
    """The limits go with the queue; the worker declares them before it claims from its successor."""
    app = App(worker_url, name="tests")
    running, most, handled = set(), [], []

    @app.handler(queue_name, key_concurrency=1, concurrency=4)
    async def handle(payload: int):
        running.add(payload)
        most.append(len(running))
        await asyncio.sleep(0.05)
        running.remove(payload)
        handled.append(payload)

    worker = Worker(app)
    task = asyncio.create_task(worker.run())
    queue = WorkQueue(observer)
    await until(lambda: worker.status().state == "running", "the worker to run")
    with observer.transaction():
        observer.execute("select pgmq.drop_queue(%s), pgmq.create(%s)", [queue_name, queue_name])
        queue.send_batch(queue_name, list(range(4)), headers=[{"x-pgmq-group": "one"}] * 4)
    await until(lambda: len(handled) == 4, "the messages to be handled", 20)
    worker.stop()
    await task

    assert (handled, max(most)) == ([0, 1, 2, 3], 1)
    assert stored(observer, queue_name) == (None, 1, None, None, "block")
