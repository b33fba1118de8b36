"""Deduplication that handlers declare or messages are sent with: keys, storage, and sending through both clients."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta

import pytest

from pgsluice import AsyncWorkQueue, Unique, WorkQueue
from pgsluice.client import QueueSettings
from pgsluice.errors import ArgumentError, DeduplicationOffError
from pgsluice.sessions import AsyncSluiceConnection
from pgsluice.worker import App, Retry, RetryPolicy
from pgsluice.worker.engine.flow.options import WorkerOptions
from pgsluice.worker.engine.flow.worker import Worker
from support import rows, value
from support.runtime import running, until
from worker.test_worker import drained, left


@dataclass
class Order:
    id: int
    note: str = ""


@pytest.fixture
def app(worker_url):
    app = App(worker_url, name="tests")
    yield app
    app.close()


def stored(observer, queue_name):
    return rows(observer, f"select msg_id, message from pgmq.q_{queue_name} order by msg_id")


def declared(observer, queue_name):
    of: QueueSettings = WorkQueue(observer).queue_options(queue_name)
    return of.deduplication_window, of.deduplication_until, of.on_duplicate, of.deduplication_by


def test_equal_payloads_of_a_unique_handler_are_one_message_without_a_call_before(
    app, observer, queue_name
):
    @app.handler(queue_name, unique=Unique())
    def mail(order: Order) -> None: ...

    assert [mail.send(Order(1)), mail.send(Order(1)), mail.send(Order(2))] == [1, 1, 2]
    assert mail.send_many([Order(1), Order(3), Order(3)]) == [1, 3, 3]
    assert mail.send(Order(1), deduplication_key="another") == 4
    WorkQueue(observer).delete(queue_name, 1)

    assert mail.send(Order(1)) == 5


def test_a_key_of_the_payload_replaces_a_waiting_message(app, observer, queue_name):
    unique = Unique(until="claimed", on_duplicate="replace", key=lambda order: f"order {order.id}")

    @app.handler(queue_name, unique=unique)
    def index(order: Order) -> None: ...

    assert index.send(Order(1, "first"), delay_s=60) == 1
    assert index.send(Order(1, "second"), headers={"h": 1}) == 1
    assert index.send_many([Order(2, "x"), Order(1, "third")]) == [2, 1]

    assert stored(observer, queue_name) == [
        (1, {"id": 1, "note": "third"}),
        (2, {"id": 2, "note": "x"}),
    ]


async def test_a_message_is_sent_with_other_options_than_the_queue_in_both_clients(
    worker_url, observer, queue_name
):
    work, unique = WorkQueue(observer), Unique(until="done", on_duplicate="debounce")
    with pytest.raises(DeduplicationOffError):
        work.send(queue_name, 1, deduplication_key="k")

    assert work.send(queue_name, 1, deduplication_key="k", unique=unique) == 1
    assert work.send(queue_name, 2, deduplication_key="k", unique=unique, delay=600) == 1
    async with await AsyncSluiceConnection.connect(worker_url) as connection:
        also = AsyncWorkQueue(connection)
        assert await also.send_batch(
            queue_name, [3, 4], deduplication_keys=["k", None], unique=unique, delay=60
        ) == [1, 2]

    delay = f"select round(extract(epoch from vt - clock_timestamp())) from pgmq.q_{queue_name}"
    assert value(observer, f"{delay} where msg_id = 1") in (59, 60)
    assert [message for _, message in stored(observer, queue_name)] == [1, 4]
    for options in ({}, {"deduplication_key": None}):
        with pytest.raises(ArgumentError, match="unique needs a deduplication key"):
            work.send(queue_name, 1, unique=unique, **options)
    with pytest.raises(ArgumentError, match="unique needs a deduplication key"):
        work.send_batch(queue_name, [1], unique=unique)


def test_one_message_is_sent_with_its_own_options(app, observer, queue_name):
    @app.handler(queue_name)
    def mail(order: Order) -> None: ...

    unique = Unique(window_s=60)
    assert mail.send(Order(1), unique=unique) == 1
    assert mail.send(Order(1), unique=unique) == 1
    assert mail.send(Order(1)) == 2
    assert mail.send_many([Order(1), Order(2)], unique=unique) == [1, 3]


async def test_a_worker_stores_what_its_handler_declares_and_keeps_what_an_operator_set(
    worker_url, observer, queue_name, caplog
):
    async def start(unique):
        app = App(worker_url, name="tests")

        @app.handler(queue_name, name="tested", unique=unique, rate=5)
        async def handle(_payload): ...

        await Worker(app).run_until_empty(idle_s=0)

    by = f"{__name__}.tested"
    for unique, wanted in (
        (Unique(), (None, "done", None, by)),
        (Unique(window_s=60), (timedelta(minutes=1), None, None, by)),
        (Unique("claimed", on_duplicate="replace"), (None, "claimed", "replace", by)),
        (None, (None, None, None, None)),
    ):
        await start(unique)
        assert declared(observer, queue_name) == wanted

    WorkQueue(observer).set_queue_options(queue_name, deduplication_window=timedelta(hours=1))
    await start(Unique())
    await start(None)

    assert declared(observer, queue_name) == (timedelta(hours=1), None, None, None)
    assert WorkQueue(observer).queue_options(queue_name).rate == 5
    assert [each for each in caplog.records if each.levelno > logging.WARNING] == []


def test_create_queues_stores_what_handlers_declare_for_other_senders(app, observer, queue_name):
    @app.handler(f"new_{queue_name}", unique=Unique("claimed"))
    def mail(order: Order) -> None: ...

    app.create_queues()
    app.create_queues()

    assert declared(observer, f"new_{queue_name}")[1:] == ("claimed", None, f"{__name__}.mail")
    work = WorkQueue(observer)
    assert [work.send(f"new_{queue_name}", 1, deduplication_key="k") for _ in "12"] == [1, 1]


async def test_a_message_sent_while_the_first_runs_is_handled_after_it_until_claimed(
    app, observer, queue_name
):
    seen, goes_on = [], asyncio.Event()

    @app.handler(
        queue_name, name="tested", unique=Unique("claimed", key=lambda _: "k"), concurrency=1
    )
    async def handle(payload: int) -> None:
        seen.append(payload)
        await goes_on.wait()

    await handle.send_async(1)
    worker = Worker(app, options=WorkerOptions(prefetch=0))
    async with running(worker):
        await until(lambda: seen == [1], "the first to run")
        assert [await handle.send_async(n) for n in (2, 3)] == [2, 2]
        goes_on.set()
        await until(lambda: worker.counts()["tested"].done == 2, "both to be done")
        worker.stop()
    await app.aclose()

    assert seen == [1, 2]


async def test_the_key_of_a_retrying_or_running_message_is_known_until_done(
    app, observer, queue_name
):
    sent = []

    @app.handler(
        queue_name,
        name="tested",
        unique=Unique(),
        retry=RetryPolicy(backoff_base_s=60, backoff_jitter=False),
    )
    async def handle(payload: int):
        sent.append(await handle.send_async(payload))
        return Retry(60) if len(sent) == 1 else None

    assert await handle.send_async(7) == 1
    await drained(app)
    assert await handle.send_async(7) == 1
    assert await handle.retry_now_async(1)
    await drained(app)

    assert (sent, left(observer, queue_name)) == ([1, 1], (0, 1, 0))
    assert await handle.send_async(7) == 2
    assert await handle.cancel_async(2)
    assert await handle.send_async(7) == 3
    await app.aclose()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Unique("read"), "until is 'read'; use claimed, done"),
        (lambda: Unique(on_duplicate="drop"), "on_duplicate is 'drop'; use keep, debounce, replace"),
        (lambda: Unique(window_s=0), "window_s is 0; use more than 0 seconds"),
        (lambda: Unique("done", window_s=1), "mutually exclusive"),
        (lambda: App().handler("q", unique=True)(lambda payload: None), r"is True; use Unique\(…\)"),
        (
            lambda: App().handler(log="l", group="g", unique=Unique())(lambda payload: None),
            "which does not support unique",
        ),
        (
            lambda: App().handler("q", unique=Unique(on_duplicate="replace"))(lambda payload: None).send(1),
            r"needs Unique\(key=…\) or deduplication_key=",
        ),
        (
            lambda: App().handler("q", unique=Unique(key=lambda n: n))(lambda payload: None).send(1),
            "the key of the payload is of type int; return a str",
        ),
        (
            lambda: App().handler(log="l", group="g")(lambda payload: None).send("1", unique=Unique()),
            "does not support unique here",
        ),
    ],
)  # fmt: skip
def test_invalid_declarations_are_refused(make, words):
    with pytest.raises(ArgumentError, match=words):
        make()
