"""Traces of workers: from a web request through a handler to what it sends, and of retries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from psycopg.types.json import Jsonb

from pgsluice import App, Batch, Context, Maintenance, RetryPolicy, SyncContext, Worker
from pgsluice.outcome import Reject, Release, Retry
from support import rows
from support.listen import running
from support.sources import until
from support.telemetry import (
    Telemetry,
    ids_of,
    is_child,
    linked,
    psycopg_instrumented,
    telemetry,
    traceparent,
)

AT_ONCE = RetryPolicy(3, backoff_base_s=0, backoff_jitter=False)


@pytest.fixture
def recorded() -> Iterator[Telemetry]:
    with telemetry() as recorded:
        yield recorded


@pytest.fixture
def app(worker_url) -> Iterator[App]:
    app = App(worker_url)
    yield app
    app.close()


@pytest.fixture
def other(observer, queue_name) -> str:
    observer.execute("select pgmq.create(%s)", [f"{queue_name}_other"])
    return f"{queue_name}_other"


@pytest.fixture
def log_name(observer, queue_name) -> str:
    name = f"log_{queue_name}"
    observer.execute("select pgq.create_queue(%s)", [name])
    observer.execute(
        "update pgq.queue set queue_ticker_max_count = 1 where queue_name = %s", [name]
    )
    return name


def work(app: App) -> None:
    """Run a worker until its queues are empty."""
    asyncio.run(Worker(app).run_until_empty(idle_s=0.1))


def test_a_trace_leads_from_a_web_request_to_what_its_handler_sends(
    app, queue_name, other, recorded
):
    """FastAPI and psycopg are instrumented too."""
    import fastapi
    from fastapi.testclient import TestClient
    from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor

    @app.handler(queue_name)
    async def pack(order: int) -> None:
        await ship.send_async(order, connection=None)
        await app.aclose()

    @app.handler(other, mode="transaction")
    def ship(order: int, context: SyncContext) -> None:
        with context.transaction() as connection:
            connection.execute("select 1")

    api = fastapi.FastAPI()

    @api.post("/orders/{n}")
    def order(n: int) -> int | None:
        return pack.send(n)

    FastAPIInstrumentor.instrument_app(api, exclude_spans=["receive", "send"])
    with psycopg_instrumented():
        msg_id = TestClient(api).post("/orders/7").json()
        work(app)

    request = recorded.span("POST /orders/{n}")
    send, receive, process, settle = (
        recorded.span(f"{operation} {queue_name}")
        for operation in ("send", "receive", "process", "settle")
    )
    send_on, process_on = recorded.span(f"send {other}"), recorded.span(f"process {other}")
    assert is_child(send, request)
    assert is_child(receive, send)
    assert is_child(process, send)
    assert is_child(settle, process)
    assert is_child(send_on, process)
    assert is_child(process_on, send_on)
    assert {span.context.trace_id for span in recorded.spans()} == {request.context.trace_id}
    kinds = [span.kind for span in (send, receive, process, settle)]
    assert kinds == [SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CONSUMER, SpanKind.CLIENT]
    assert dict(process.attributes) == {
        "messaging.system": "pgmq",
        "messaging.destination.name": queue_name,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": str(msg_id),
        "pgsluice.handler": "pack",
        "pgsluice.attempt": 1,
        "pgsluice.outcome": "done",
    }
    assert settle.attributes["pgsluice.result"] == "done"
    # Of psycopg's spans, there is one in each send, and none of a poll or a settlement.
    statements = recorded.spans("select") + recorded.spans("SELECT")
    for span in statements:
        assert span.parent.span_id in ids_of(send, send_on, process_on)
    assert any(is_child(span, process_on) for span in statements)
    assert sum(is_child(span, send) for span in statements) == 1


def test_a_retry_is_a_trace_of_its_own_that_links_to_the_send(app, queue_name, recorded):
    @app.handler(queue_name, retry=AT_ONCE)
    async def fails(payload: str, context: Context) -> None:
        if context.attempt < 3:
            raise LookupError(f"no box for {payload}")

    fails.send("the order of Ada Lovelace")
    work(app)

    send = recorded.span(f"send {queue_name}")
    first, second, third = recorded.spans(f"process {queue_name}")
    assert is_child(first, send)
    for span in (second, third):
        assert span.parent is None
        assert linked(span) == ids_of(send)
    assert len({span.context.trace_id for span in (send, second, third)}) == 3
    assert [span.attributes["pgsluice.attempt"] for span in (first, second, third)] == [1, 2, 3]
    outcomes = [span.attributes["pgsluice.outcome"] for span in (first, second, third)]
    assert outcomes == ["retry", "retry", "done"]
    assert first.status.status_code is StatusCode.ERROR
    assert first.attributes["error.type"] == "LookupError"
    (event,) = first.events
    assert event.name == "exception"
    assert event.attributes["exception.type"] == "LookupError"
    assert event.attributes["exception.message"] == "no box for ***"
    assert "in fails" in event.attributes["exception.stacktrace"]
    assert "Ada" not in event.attributes["exception.stacktrace"]
    assert third.status.status_code is StatusCode.UNSET
    settles = recorded.spans(f"settle {queue_name}")
    assert [span.attributes["pgsluice.result"] for span in settles] == ["retry", "retry", "done"]
    for settle, process in zip(settles, (first, second, third), strict=True):
        assert is_child(settle, process)
    receives = recorded.spans(f"receive {queue_name}")
    assert [bool(span.parent) for span in receives] == [True, False, False]


@pytest.mark.parametrize(
    ("outcome", "is_error", "words"),
    [
        (Retry(0, reason="later"), True, ("retry", "retry")),
        (Reject("misfit"), True, ("reject", "dead")),
        (Release(0), False, ("release", "released")),
    ],
    ids=["retry", "reject", "release"],
)
def test_outcomes_are_attributes(app, queue_name, recorded, outcome, is_error, words):
    calls = []

    @app.handler(queue_name)
    def answers(_payload: int) -> object:
        calls.append(1)
        return outcome if len(calls) == 1 else None

    answers.send(1)
    work(app)

    process, settle = (recorded.spans(f"{name} {queue_name}")[0] for name in ("process", "settle"))
    found = (process.attributes["pgsluice.outcome"], settle.attributes["pgsluice.result"])
    assert found == words
    assert (process.status.status_code is StatusCode.ERROR) is is_error


def test_a_replayed_message_is_a_trace_of_its_own(app, observer, queue_name, recorded):
    @app.handler(queue_name, retry=RetryPolicy(1))
    def fails(_payload: int) -> None:
        raise LookupError

    fails.send(1)
    work(app)
    observer.execute("select sluice.redrive(%s)", [queue_name])
    work(app)

    send = recorded.span(f"send {queue_name}")
    first, replayed = recorded.spans(f"process {queue_name}")
    assert is_child(first, send)
    assert replayed.parent is None
    assert linked(replayed) == ids_of(send)


def test_a_batch_links_to_each_send(app, queue_name, other, recorded):
    @app.handler(queue_name, batch=Batch(10, wait_s=0.2))
    def pack(orders: list[int]) -> list[object]:
        ship.send_many(orders)
        return [Reject("misfit") if order == 2 else None for order in orders]

    @app.handler(other)
    def ship(order: int) -> None: ...

    for order in (1, 2, 3):
        pack.send(order)
    work(app)

    sends = recorded.spans(f"send {queue_name}")
    sends = [span for span in sends if span.name == f"send {queue_name}"]
    receive, process, settle = (
        recorded.span(f"{operation} {queue_name}") for operation in ("receive", "process", "settle")
    )
    for span in (receive, process):
        assert span.parent is None
        assert sorted(linked(span)) == sorted(ids_of(*sends))
        assert span.attributes["messaging.batch.message_count"] == 3
    assert process.attributes["pgsluice.outcome"] == "mixed"
    assert process.attributes["error.type"] == "Reject"
    assert is_child(settle, process)
    assert settle.attributes["messaging.batch.message_count"] == 3
    assert is_child(recorded.span(f"send {other}"), process)
    # Each message of a batch joins the trace of its send, which is one for all.
    for span in recorded.spans(f"process {other}"):
        assert is_child(span, recorded.span(f"send {other}"))


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
def test_the_process_span_is_current_in_the_handler(app, queue_name, recorded, is_async):
    found = []

    def note(context: SyncContext | Context) -> None:
        found.append((trace.get_current_span().get_span_context(), context.headers))

    @app.middleware
    async def around(call, payload, context):
        note(context)
        return await call(payload, context)

    if is_async:

        @app.handler(queue_name)
        async def handle(_payload: int, context: Context) -> None:
            note(context)
    else:

        @app.handler(queue_name)
        def handle(_payload: int, context: SyncContext) -> None:
            note(context)

    handle.send(1)
    work(app)

    context = recorded.span(f"process {queue_name}").context
    send = recorded.span(f"send {queue_name}")
    assert found == [(context, {"traceparent": traceparent(send.context)})] * 2


def test_a_transaction_of_the_handler_is_within_its_span(app, observer, queue_name, recorded):
    @app.handler(queue_name, mode="transaction")
    async def pack(_payload: int, context: Context) -> None: ...

    pack.send(1)
    work(app)

    assert is_child(recorded.span(f"process {queue_name}"), recorded.span(f"send {queue_name}"))
    assert recorded.spans(f"settle {queue_name}") == []


def test_a_message_without_trace_context_is_a_trace_of_its_own(app, observer, queue_name, recorded):
    @app.handler(queue_name)
    async def pack(_payload: int) -> None: ...

    observer.execute("select pgmq.send(%s, '1'::jsonb)", [queue_name])
    for context in ("nonsense", 7):
        headers = Jsonb({"traceparent": context})
        observer.execute("select pgmq.send(%s, '1'::jsonb, %s::jsonb)", [queue_name, headers])
    work(app)

    spans = recorded.spans(f"process {queue_name}")
    assert [(span.parent, linked(span)) for span in spans] == [(None, [])] * 3


def test_events_of_a_share_group_continue_the_trace(app, log_name, recorded, pool):
    seen = []

    @app.handler(log=log_name, group="packers", event_types=["order"], retry=AT_ONCE)
    async def pack(_payload: int, context: Context) -> None:
        seen.append(context.attempt)
        if context.attempt == 1:
            raise LookupError("no box")

    async def main() -> None:
        worker = Worker(app)
        task = asyncio.create_task(worker.run())
        await until(lambda: worker.status().state == "running", "the worker to run")
        await asyncio.to_thread(pack.send, 1)
        await until(lambda: seen == [1, 2], "the second attempt")
        worker.stop()
        await task

    with running(Maintenance(pool)):
        asyncio.run(main())

    send = recorded.span(f"send {log_name}")
    first, second = recorded.spans(f"process {log_name}")
    assert is_child(first, send)
    assert (second.parent, linked(second)) == (None, ids_of(send))
    assert first.attributes["messaging.system"] == "pgq"
    assert first.attributes["messaging.consumer.group.name"] == "packers"
    for receive, parent in zip(recorded.spans(f"receive {log_name}"), (send, None), strict=True):
        assert (receive.parent and receive.parent.span_id) == (parent and parent.context.span_id)
    results = [span.attributes["pgsluice.result"] for span in recorded.spans("settle")]
    assert results == ["retry", "done"]


def test_events_of_a_consumer_continue_the_trace(app, observer, log_name, other, recorded, pool):
    seen = []

    @app.handler(log=log_name, consumer="ledger", event_types=["order"])
    async def post(_payload: int, context: Context) -> None:
        await next_step.send_async(context.attempt, connection=None)
        await app.aclose()
        seen.append(context.attempt)

    @app.handler(other)
    def next_step(_payload: int) -> None: ...

    async def main() -> None:
        worker = Worker(app)
        task = asyncio.create_task(worker.run())
        await until(lambda: worker.status().state == "running", "the worker to run")
        await asyncio.to_thread(post.send, 1)
        counts = worker.counts
        await until(lambda: counts()["post"].done and counts()["next_step"].done, "both to be done")
        worker.stop()
        await task

    with running(Maintenance(pool)):
        asyncio.run(main())

    send, process = recorded.span(f"send {log_name}"), recorded.span(f"process {log_name}")
    send_on = recorded.span(f"send {other}")
    assert is_child(process, send)
    assert process.attributes["messaging.consumer.group.name"] == "ledger"
    assert is_child(send_on, process)
    assert is_child(recorded.span(f"process {other}"), send_on)
    consumed = recorded.points("messaging.client.consumed.messages")
    assert sorted(point.value for point in consumed) == [1, 1]


def test_polls_of_an_idle_worker_have_no_spans(app, queue_name, recorded):

    @app.handler(queue_name)
    async def pack(_payload: int) -> None: ...

    with psycopg_instrumented(), trace.get_tracer("test").start_as_current_span("program"):
        asyncio.run(Worker(app).run_until_empty(idle_s=0.5))

    assert [span.name for span in recorded.spans()] == ["program"]


def test_a_worker_counts_and_times_what_it_consumes(app, queue_name, recorded):
    @app.handler(queue_name, retry=RetryPolicy(1))
    async def pack(payload: int) -> None:
        if payload == 2:
            raise LookupError

    pack.send_many([1, 2])
    work(app)

    (consumed,) = recorded.points("messaging.client.consumed.messages")
    assert consumed.value == 2
    durations = {
        point.attributes.get("error.type"): point.count
        for point in recorded.points("messaging.process.duration")
    }
    assert durations == {None: 1, "LookupError": 1}
    operations = {
        point.attributes["messaging.operation.name"]
        for point in recorded.points("messaging.client.operation.duration")
    }
    assert operations == {"send", "receive", "settle"}


@pytest.mark.parametrize("off", ["app", "PGSLUICE_TRACING", "OTEL_SDK_DISABLED"])
def test_tracing_that_is_off_records_nothing(
    app, observer, queue_name, other, recorded, monkeypatch, off
):
    @app.handler(queue_name)
    def pack(order: int) -> None:
        ship.send(order)

    @app.handler(other, keep="archive")
    def ship(order: int) -> None: ...

    if off == "app":
        app.tracing = False
    else:
        monkeypatch.setenv(off, "off" if off.startswith("PG") else "true")
    with trace.get_tracer("test").start_as_current_span("request"):
        pack.send(1)
    work(app)

    assert [span.name for span in recorded.spans()] == ["request"]
    assert rows(observer, f"select headers from pgmq.a_{other}") == [(None,)]


@pytest.mark.slow
def test_a_handler_process_continues_the_trace(observer, worker_url, recorded, monkeypatch):
    """With a provider of its own its send is a span, and without one the trace is passed on."""
    from worker.traced_handlers import app, compute

    for name in ("compute", "computed"):
        observer.execute("select pgmq.create(%s)", [name])
    monkeypatch.setenv("PGSLUICE_DSN", worker_url)
    try:
        for has_provider in (False, True):
            compute.send(has_provider)
            work(app)
    finally:
        app.close()

    passed_on, sent_on = recorded.spans("process computed")
    first, second = (span for span in recorded.spans("process compute") if span.name[-1] == "e")
    assert is_child(passed_on, first)
    assert sent_on.context.trace_id == second.context.trace_id
    assert sent_on.parent.span_id not in ids_of(*recorded.spans())
