"""Workers and messages that Python cannot load: they are dead-lettered, and the others are handled."""

from __future__ import annotations

import asyncio

import pytest

from pgsluice import (
    App,
    Batch,
    Context,
    DeadLetters,
    EventLog,
    NewEvent,
    ShareGroup,
    UnloadableJson,
    WorkQueue,
)
from pgsluice.tracing.carrier import carrier_of
from pgsluice.worker.engine.flow.worker import Worker
from support.sources import until

DEEP = "[" * 3000 + "]" * 3000
DIGITS = "1" + "0" * 5000


async def handled_by(worker, is_done):
    working = asyncio.create_task(worker.run())
    try:
        await until(lambda: is_done() or working.done(), "the messages to be handled")
    finally:
        worker.stop()
        await working


@pytest.mark.parametrize("is_batch", [False, True], ids=["one by one", "batch"])
@pytest.mark.parametrize("text", [DEEP, DIGITS], ids=["deep", "digits"])
async def test_a_message_that_cannot_be_loaded_is_dead_lettered_and_the_others_are_handled(
    worker_url, observer, queue_name, text, is_batch
):
    app = App(worker_url)
    handled = []
    work = WorkQueue(observer)

    if is_batch:

        @app.handler(queue_name, batch=Batch(10))
        def handle_batch(payloads: list[str]) -> None:
            handled.extend(payloads)

    else:

        @app.handler(queue_name)
        async def handle(payload) -> None:
            handled.append(payload)

    work.send_batch(queue_name, ["first", UnloadableJson(text), "last"])

    letters = DeadLetters(observer, queue_name)

    await handled_by(Worker(app), lambda: len(handled) == 2 and letters.count())

    (dead,) = letters.browse()
    assert handled == ["first", "last"]
    assert (dead.msg_id, dead.reason, dead.message) == (2, "payload", text)
    assert "cannot load" in dead.error


def test_trace_context_of_a_deeply_nested_text_is_none():
    assert carrier_of('{"traceparent": "00-1-1-01", "deep": ' + DEEP + "}") is None


async def test_headers_that_cannot_be_loaded_are_left_out(worker_url, observer, queue_name):
    app = App(worker_url)
    handled = []

    @app.handler(queue_name)
    async def handle(payload: str, context: Context) -> None:
        handled.append((payload, context.headers))

    work = WorkQueue(observer)
    work.send(queue_name, "first", headers=UnloadableJson(f'{{"deep": {DEEP}}}'))
    work.send(queue_name, "last", headers={"h": 1})

    await handled_by(Worker(app), lambda: len(handled) == 2)

    assert sorted(handled, key=str) == [("first", {}), ("last", {"h": 1})]


@pytest.mark.parametrize("text", [f'{{"k": {DEEP}}}', f'{{"k": {DIGITS}}}'], ids=["deep", "digits"])
async def test_an_event_that_cannot_be_loaded_is_dead_lettered_and_the_others_are_handled(
    worker_url, observer, queue_name, text
):
    app = App(worker_url)
    log_name = f"log_{queue_name}"
    log = EventLog(observer)
    log.create(log_name)
    ShareGroup(observer, log_name, "mailers").create(key="$.k")
    handled = []

    @app.handler(group="mailers", log=log_name)
    async def handle(payload: dict) -> None:
        handled.append(payload)

    events = ['{"k": "first"}', text, '{"k": "last"}']
    log.insert_many(log_name, [NewEvent("t", event) for event in events])
    log.ticker(log_name)
    letters = DeadLetters(observer, log_name, "mailers")

    await handled_by(Worker(app), lambda: len(handled) == 2 and letters.count())

    (dead,) = letters.browse()
    assert handled == [{"k": "first"}, {"k": "last"}]
    assert (dead.reason, dead.ev_data) == ("payload", text)


async def test_a_consumer_handles_an_event_with_an_infinite_time(worker_url, observer, queue_name):
    app = App(worker_url)
    log_name = f"log_{queue_name}"
    log = EventLog(observer)
    log.create(log_name)
    log.register_consumer(log_name, "ledger")
    handled = []

    @app.handler(log=log_name, consumer="ledger")
    def handle(payload: dict) -> None:
        handled.append(payload["k"])

    observer.execute(
        "select pgq.insert_event_raw(%s, null, 'infinity', null, null, 't', %s, "
        "null, null, null, null)",
        [log_name, '{"k": "first"}'],
    )
    log.insert_event(log_name, "t", '{"k": "last"}')
    log.ticker(log_name)

    await handled_by(Worker(app), lambda: len(handled) == 2)

    assert handled == ["first", "last"]
