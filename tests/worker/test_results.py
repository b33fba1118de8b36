"""Results of handlers: stored with the acknowledgement, and awaited by other processes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass

import pytest

from pgsluice import DeadLetters, WorkQueue
from pgsluice.errors import (
    ArgumentError,
    MessageFailedError,
    PayloadError,
    QueueNotFoundError,
    ResultNotKeptError,
    ResultTimeoutError,
)
from pgsluice.testing import run_handler_async
from pgsluice.worker import (
    App,
    Batch,
    Context,
    Done,
    ListenerState,
    Reject,
    Retry,
    RetryPolicy,
    SyncContext,
)
from support import rows, value, wait_until
from support.pooler import pooling
from worker.runtime_handlers import size, sizes
from worker.test_worker import drained, left

ONCE = RetryPolicy(max_attempts=1)
LISTENERS = (
    "select count(*) from pg_stat_activity where datname = current_database() "
    "and application_name = 'pgsluice listener'"
)


@dataclass
class Size:
    width: int
    height: int


@pytest.fixture
def app(worker_url):
    app = App(worker_url, name="tests")
    yield app
    app.close()


def of_mode(app, queue_name, mode, **options):
    """Declare a handler that returns a Size, whose message is acknowledged in the given way."""
    declare = app.handler(queue_name, name="tested", keep_result="1h", **options)
    if mode == "loop":

        async def handle(width: int) -> Size:
            return Size(width, 1)

    elif mode == "thread":

        def handle(width: int) -> Size:
            return Size(width, 1)

    elif mode == "own transaction":

        def handle(width: int, context: SyncContext) -> Size:
            with context.transaction() as connection:
                connection.execute("select 1")
            return Size(width, 1)

    else:

        async def handle(width: int, context: Context) -> Size:
            return Size(width, 1)

    if mode == "mode transaction":
        declare = app.handler(
            queue_name, name="tested", keep_result="1h", mode="transaction", **options
        )
    return declare(handle)


MODES = ["loop", "thread", "own transaction", "mode transaction"]


@pytest.mark.parametrize("keep", ["archive", "delete"])
@pytest.mark.parametrize("mode", MODES)
async def test_the_result_of_a_done_message_is_returned_as_the_handlers_type(
    app, observer, queue_name, mode, keep
):
    handler = of_mode(app, queue_name, mode, keep=keep)
    msg_id = await handler.send_async(5)

    await drained(app)

    assert await handler.result_async(msg_id, timeout_s=0) == Size(5, 1)
    assert await asyncio.to_thread(handler.result, msg_id, timeout_s=0) == Size(5, 1)
    assert left(observer, queue_name) == (0, int(keep == "archive"), 0)
    await app.aclose()


@pytest.mark.parametrize("mode", MODES)
async def test_the_result_is_written_in_the_transaction_that_acknowledges(
    app, observer, queue_name, mode
):
    handler = of_mode(app, queue_name, mode)
    await handler.send_async(5)

    await drained(app)

    same = (
        f"select a.xmin::text = r.xmin::text from pgmq.a_{queue_name} as a, sluice.result as r "
        f"where r.incarnation = 'pgmq.q_{queue_name}'::regclass::oid::bigint and r.msg_id = a.msg_id"
    )
    assert rows(observer, same) == [(True,)]
    await app.aclose()


@pytest.mark.parametrize("is_raised", [False, True], ids=["returned", "raised"])
@pytest.mark.parametrize("mode", ["lease", "transaction"])
async def test_done_and_nothing_have_the_result_none(app, queue_name, mode, is_raised):
    @app.handler(queue_name, name="tested", keep_result=60, mode=mode)
    async def handle(payload: str) -> Size | Done | None:
        if payload == "nothing":
            return None
        if is_raised:
            raise Done
        return Done()

    first, second = await handle.send_many_async(["nothing", "done"])
    await drained(app)

    assert await handle.result_async(first, timeout_s=0) is None
    assert await handle.result_async(second, timeout_s=0) is None
    await app.aclose()


@pytest.mark.parametrize("mode", ["lease", "transaction"])
async def test_a_result_that_is_not_of_its_type_fails_the_attempt_and_names_its_path(
    app, observer, queue_name, mode
):
    @app.handler(queue_name, name="tested", keep_result=60, retry=ONCE, mode=mode)
    async def handle(_payload) -> Size:
        return Size(1, "high")  # type: ignore[arg-type]

    msg_id = await handle.send_async(1)
    await drained(app)

    with pytest.raises(MessageFailedError, match=r"PayloadError: result\.height is of type str"):
        await handle.result_async(msg_id, timeout_s=0)
    assert (
        value(
            observer,
            "select count(*) from sluice.result where msg_id = %s and incarnation = "
            f"'pgmq.q_{queue_name}'::regclass::oid::bigint",
            msg_id,
        )
        == 0
    )
    await app.aclose()


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ({"a": [1, object()]}, r"result\['a'\]\[1\] is of type object"),
        ({"a": float("nan")}, r"result\['a'\] is nan"),
        ({1: 2}, "result has the key 1"),
    ],
)
async def test_a_result_without_json_form_names_the_path(app, queue_name, result, problem):
    @app.handler(queue_name, keep_result=60)
    def handle(_payload):
        return result

    settlement = await run_handler_async(handle, 1)

    assert isinstance(settlement.outcome, Retry)
    with pytest.raises(PayloadError, match=problem):
        raise PayloadError(settlement.failure.message)


async def test_without_the_option_results_of_any_type_are_ignored(app, observer, queue_name):
    @app.handler(queue_name, name="tested")
    async def handle(_payload):
        return object()

    msg_id = await handle.send_async(1)
    assert (await drained(app)).done == 1

    with pytest.raises(ArgumentError, match="keeps no results; declare it with keep_result="):
        await handle.result_async(msg_id, timeout_s=0)
    await app.aclose()


async def test_a_wait_ends_with_a_notification_in_threads_and_tasks(
    app, observer, queue_name, monkeypatch
):
    # Longer than the test, so that only notifications end a wait.
    monkeypatch.setattr("pgsluice.worker.handlers.awaiting._NOTIFIED_S", 600.0)
    monkeypatch.setattr("pgsluice.worker.handlers.awaiting._POLL_FIRST_S", 600.0)
    handler = of_mode(app, queue_name, "loop")
    msg_ids = await handler.send_many_async([1, 2, 3, 4])
    waits = [
        *(asyncio.create_task(handler.result_async(each, timeout_s=60)) for each in msg_ids[:2]),
        *(
            asyncio.create_task(asyncio.to_thread(handler.result, each, timeout_s=60))
            for each in msg_ids[2:]
        ),
    ]
    listener = await asyncio.to_thread(app._pools.listener)
    await asyncio.to_thread(
        wait_until, lambda: listener.state is ListenerState.LISTENING, "the listener"
    )
    assert value(observer, LISTENERS) == 1

    await drained(app)

    assert [size.width for size in await asyncio.gather(*waits)] == [1, 2, 3, 4]
    await app.aclose()


async def test_a_wait_ends_with_the_dead_letter_of_its_message(app, queue_name):
    @app.handler(queue_name, name="tested", keep_result="1h")
    async def handle(_payload) -> int:
        raise Reject("no such picture")

    msg_id = await handle.send_async(1)
    wait = asyncio.create_task(handle.result_async(msg_id, timeout_s=60))
    await drained(app)

    with pytest.raises(MessageFailedError, match="was dead-lettered: Reject: no such picture"):
        await wait
    await app.aclose()


async def test_a_redriven_message_has_another_id(app, observer, queue_name):
    @app.handler(queue_name, name="tested", keep_result="1h", retry=ONCE)
    async def handle(fails: bool) -> int:
        if fails and not rows(observer, "select from effect where queue_name = %s", queue_name):
            raise ValueError("no")
        return 1

    msg_id = await handle.send_async(True)
    await drained(app)
    observer.execute("insert into effect values (%s)", [queue_name])
    letters = DeadLetters(observer, queue_name)
    letters.redrive([each.dead_letter_id for each in letters.browse()])
    await drained(app)

    with pytest.raises(ResultNotKeptError):
        await handle.result_async(msg_id, timeout_s=0)
    assert await handle.result_async(msg_id + 1, timeout_s=0) == 1
    await app.aclose()


def test_a_wait_ends_when_the_message_is_deleted(app, observer, queue_name):
    handler = of_mode(app, queue_name, "thread")
    msg_id = handler.send(1)
    timer = threading.Timer(0.2, WorkQueue(observer).delete, [queue_name, msg_id])
    timer.start()

    with pytest.raises(
        ResultNotKeptError,
        match="was deleted, cancelled or never sent.*; if an open transaction has sent it",
    ):
        handler.result(msg_id, timeout_s=60)
    timer.join()


def test_a_wait_ends_after_its_timeout(app, queue_name):
    handler = of_mode(app, queue_name, "thread")
    msg_id = handler.send(1)
    began_s = time.monotonic()

    with pytest.raises(
        ResultTimeoutError, match=r"was not settled within 0\.3 s; .*commit that first"
    ):
        handler.result(msg_id, timeout_s=0.3)

    assert 0.3 <= time.monotonic() - began_s < 5
    with pytest.raises(TimeoutError):
        handler.result(msg_id, timeout_s=0)


def test_an_archived_message_whose_result_expired_has_none(app, observer, queue_name):
    handler = of_mode(app, queue_name, "thread")
    msg_id = handler.send(1)
    WorkQueue(observer).archive(queue_name, msg_id)

    with pytest.raises(ResultNotKeptError, match="is archived without a result"):
        handler.result(msg_id, timeout_s=60)


def test_a_queue_that_does_not_exist_is_an_error(app):
    handler = of_mode(app, "nothing_here", "thread")

    with pytest.raises(QueueNotFoundError):
        handler.result(1, timeout_s=60)


def test_behind_a_pooler_a_wait_polls(app, worker_url, queue_name, servers_folder):
    handler = of_mode(app, queue_name, "thread")
    msg_id = handler.send(1)
    with pooling(worker_url, servers_folder) as url, running_soon(app):
        waiting = App(url, name="behind a pooler")
        remote = of_mode(waiting, queue_name, "thread")
        assert remote.result(msg_id, timeout_s=30) == Size(1, 1)
        waiting.close()


@contextlib.contextmanager
def running_soon(app):
    """Run the handlers of an app in a thread, once the test waits."""
    thread = threading.Timer(0.3, lambda: asyncio.run(drained(app)))
    thread.start()
    yield
    thread.join()


def test_a_wait_survives_the_loss_of_its_connections(app, worker_url, observer, queue_name):
    handler = of_mode(app, queue_name, "thread")
    msg_id = handler.send(1)
    found = []
    thread = threading.Thread(target=lambda: found.append(handler.result(msg_id, timeout_s=60)))
    thread.start()
    wait_until(lambda: value(observer, LISTENERS) == 1, "the listener to connect")
    observer.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    )
    asyncio.run(drained(app))
    thread.join(30)

    assert found == [Size(1, 1)]


def test_an_app_that_is_closed_closes_its_listener(app, observer, queue_name):
    handler = of_mode(app, queue_name, "thread")
    with pytest.raises(ResultTimeoutError):
        handler.result(handler.send(1), timeout_s=0.1)

    app.close()

    wait_until(lambda: value(observer, LISTENERS) == 0, "the listener to be closed")


async def test_a_result_of_a_handler_process_is_kept(worker_url, observer):
    observer.execute("select pgmq.create('sizes')")
    sizes.dsn = worker_url
    msg_id = await size.send_async(5)

    await drained(sizes)

    assert await size.result_async(msg_id, timeout_s=0) == {"width": 5}
    await sizes.aclose()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"keep_result": "soon"}, "keep_result of handler 'handle' is 'soon'"),
        ({"keep_result": 0}, "keep_result of handler 'handle' is 0"),
        ({"keep_result": True}, "keep_result of handler 'handle' is True"),
        ({"keep_result": 60, "batch": Batch(2)}, "batches, which does not support keep_result"),
    ],
)
def test_an_option_that_cannot_be_is_refused(app, options, problem):
    with pytest.raises(ArgumentError, match=problem):

        @app.handler("mail", **options)
        def handle(payload: list): ...


def test_a_handler_of_a_log_keeps_no_results(app):
    with pytest.raises(ArgumentError, match="for a log, which does not support keep_result"):

        @app.handler(log="orders", group="mailers", keep_result=60)
        def handle(payload): ...


def test_a_return_type_without_json_form_is_refused(app):
    with pytest.raises(ArgumentError):

        @app.handler("mail", keep_result=60)
        def handle(payload) -> threading.Lock: ...
