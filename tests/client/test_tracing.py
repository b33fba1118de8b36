"""Traces of sends: one span for each call, and its trace context in each message."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from pgsluice import NewEvent
from pgsluice.errors import ConfigurationError, LogNotFoundError, QueueNotFoundError
from support import on_functions_and_tables
from support.telemetry import Telemetry, linked, telemetry, traceparent

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def autocommit(make, shared_url):
    return make.connection(shared_url, autocommit=True)


@pytest.fixture
def recorded() -> Iterator[Telemetry]:
    with telemetry() as recorded:
        yield recorded


@on_functions_and_tables
def test_a_send_is_a_producer_span_whose_context_is_in_the_headers(
    autocommit, queue_name, recorded
):
    msg_id = autocommit.queue.send(queue_name, {"n": 1})

    (message,) = autocommit.queue.read(queue_name)
    span = recorded.span(f"send {queue_name}")
    assert message.headers == {"traceparent": traceparent(span.context)}
    assert span.kind is SpanKind.PRODUCER
    assert dict(span.attributes) == {
        "messaging.system": "pgmq",
        "messaging.destination.name": queue_name,
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.message.id": str(msg_id),
    }


@on_functions_and_tables
def test_headers_of_the_caller_are_kept(autocommit, queue_name, recorded):
    autocommit.queue.send(queue_name, 1, headers={"x": [1.5, None]}, delay=0)
    autocommit.queue.send_batch(queue_name, [1, 2], headers=[{"y": 1}, None])

    first, second, third = autocommit.queue.read(queue_name, qty=3)
    one, many = recorded.spans(f"send {queue_name}")
    assert first.headers == {"x": [1.5, None], "traceparent": traceparent(one.context)}
    assert second.headers == {"y": 1, "traceparent": traceparent(many.context)}
    assert third.headers == {"traceparent": traceparent(many.context)}
    assert many.attributes["messaging.batch.message_count"] == 2


@on_functions_and_tables
def test_a_trace_context_of_the_caller_is_kept_and_linked(autocommit, queue_name, recorded):
    autocommit.queue.send(queue_name, 1, headers={"traceparent": GIVEN})

    (message,) = autocommit.queue.read(queue_name)
    span = recorded.span(f"send {queue_name}")
    assert message.headers == {"traceparent": GIVEN}
    assert span.kind is SpanKind.CLIENT
    assert linked(span) == [0xB7AD6B7169203331]


@on_functions_and_tables
@pytest.mark.parametrize("off", ["PGSLUICE_TRACING=off", "OTEL_SDK_DISABLED=true"])
def test_tracing_that_is_off_writes_no_headers(autocommit, queue_name, recorded, monkeypatch, off):
    monkeypatch.setenv(*off.split("="))

    with trace.get_tracer("test").start_as_current_span("request"):
        autocommit.queue.send(queue_name, 1)

    (message,) = autocommit.queue.read(queue_name)
    assert message.headers is None
    assert recorded.spans("send") == []


@on_functions_and_tables
def test_without_a_provider_no_headers_are_written(autocommit, queue_name):
    autocommit.queue.send(queue_name, 1)

    (message,) = autocommit.queue.read(queue_name)
    assert message.headers is None


def test_an_invalid_setting_is_refused_by_name(autocommit, queue_name, recorded, monkeypatch):
    monkeypatch.setenv("PGSLUICE_TRACING", "yes")

    with pytest.raises(ConfigurationError, match="PGSLUICE_TRACING is 'yes'; use on or off"):
        autocommit.queue.send(queue_name, 1)


@pytest.mark.parametrize("delay", [None, 0])
def test_sends_with_a_key_and_to_a_topic_carry_the_context_too(
    autocommit, queue_name, recorded, delay
):
    autocommit.queue.set_queue_options(queue_name, deduplication_window=timedelta(hours=1))
    autocommit.queue.bind_topic(f"{queue_name}.*", queue_name)

    autocommit.queue.send(queue_name, 1, deduplication_key="a", delay=delay)
    autocommit.queue.send_batch(queue_name, [2, 3], deduplication_keys=["b", None], delay=delay)
    autocommit.queue.send_topic(f"{queue_name}.a", 4)
    autocommit.queue.send_batch_topic(f"{queue_name}.b", [5, 6], delay=delay)

    messages = autocommit.queue.read(queue_name, qty=6)
    key, keys, topic, topics = map(_traceparent, recorded.spans("send"))
    found = [message.headers["traceparent"] for message in messages]
    assert found == [key, keys, keys, topic, topics, topics]
    assert recorded.span(f"send {queue_name}.a").attributes.get("messaging.message.id") is None


def test_events_carry_the_context_in_their_last_field(autocommit, log_name, recorded):
    autocommit.log.insert_event(log_name, "t", "1")
    autocommit.log.insert_event(log_name, "t", "2", ev_extra4="mine")
    autocommit.log.insert_events(log_name, [NewEvent("t", "3"), NewEvent("t", "4", ev_extra4="")])
    autocommit.log.insert_delayed_event(log_name, "t", "5", 0, ev_extra1="key")
    autocommit.log.insert_many(log_name, [NewEvent("t", str(n)) for n in range(200)])

    table = autocommit.value(f"select pgq.current_event_table('{log_name}')")
    found = autocommit.value(
        f"select json_agg(array[ev_extra1, ev_extra4] order by ev_id) from {table}"
    )
    spans = recorded.spans("send")
    one, _, some, delayed, many = (
        json.dumps({"traceparent": _traceparent(span)}, separators=(",", ":")) for span in spans
    )
    assert found[:5] == [[None, one], [None, "mine"], [None, some], [None, ""], ["key", delayed]]
    assert found[5:] == [[None, many]] * 200
    assert [span.attributes.get("messaging.batch.message_count") for span in spans] == [
        None, None, 2, None, 200,
    ]  # fmt: skip
    assert {span.attributes["messaging.system"] for span in spans} == {"pgq"}


def test_a_failed_send_is_an_error_span(autocommit, recorded):
    with pytest.raises(QueueNotFoundError):
        autocommit.queue.send("nowhere", 1)
    with pytest.raises(LogNotFoundError):
        autocommit.log.insert_event("nowhere", "t", "1")

    for span, error in zip(
        recorded.spans("send nowhere"), ("QueueNotFoundError", "LogNotFoundError"), strict=True
    ):
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes["error.type"] == error
        (event,) = span.events
        assert event.name == "exception"
        assert event.attributes["exception.type"] == error
        assert "nowhere" in event.attributes["exception.message"]


def test_sends_are_counted_and_timed(autocommit, queue_name, recorded):
    autocommit.queue.send_batch(queue_name, [1, 2, 3])
    with pytest.raises(QueueNotFoundError):
        autocommit.queue.send("nowhere", 1)

    sent = recorded.points("messaging.client.sent.messages")
    assert {
        (point.attributes["messaging.destination.name"], point.attributes.get("error.type")): (
            point.value
        )
        for point in sent
    } == {(queue_name, None): 3, ("nowhere", "QueueNotFoundError"): 1}
    durations = recorded.points("messaging.client.operation.duration")
    assert [point.count for point in durations] == [1, 1]
    assert durations[0].explicit_bounds[:2] == (0.005, 0.01)


def test_the_current_span_of_the_program_is_the_parent(autocommit, queue_name, recorded):
    send = autocommit.queue._inner.send

    async def request() -> None:
        with trace.get_tracer("test").start_as_current_span("request"):
            await send(queue_name, 1)

    if inspect.iscoroutinefunction(send):
        autocommit.run(request())
    else:
        with trace.get_tracer("test").start_as_current_span("request"):
            send(queue_name, 1)

    request, send = recorded.span("request"), recorded.span(f"send {queue_name}")
    assert send.parent.span_id == request.context.span_id


def test_opentelemetry_is_not_imported_unless_the_program_does(database_18):
    script = (
        "import sys, psycopg, pgsluice\n"
        "from pgsluice import App, EventLog, Worker, WorkQueue\n"
        "with pgsluice.connect(sys.argv[1], autocommit=True) as connection:\n"
        "    queue = WorkQueue(connection)\n"
        "    queue.create('a')\n"
        "    queue.send('a', 1)\n"
        "app = App(sys.argv[1])\n"
        "@app.handler('a')\n"
        "async def work(payload: int) -> None: ...\n"
        "import asyncio\n"
        "counts = asyncio.run(Worker(app).run_until_empty(idle_s=0))\n"
        "assert counts['work'].done == 1, counts\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", script, database_18.url], check=True, timeout=60)


def _traceparent(span):
    return traceparent(span.context)
