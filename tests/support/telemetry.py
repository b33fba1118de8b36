"""OpenTelemetry with exporters in memory, for tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
from opentelemetry import metrics, trace
from opentelemetry.instrumentation.psycopg import PsycopgInstrumentor
from opentelemetry.metrics import _internal as metrics_api
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext
from opentelemetry.util._once import Once


class Telemetry:
    """Spans and metrics recorded so far."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])

    def spans(self, name: str = "") -> list[ReadableSpan]:
        """Return the ended spans whose name starts with `name`, by start."""
        spans = [span for span in self._exporter.get_finished_spans() if span.name.startswith(name)]
        return sorted(spans, key=lambda span: span.start_time or 0)

    def span(self, name: str) -> ReadableSpan:
        """Return the only ended span with this name."""
        (span,) = [span for span in self.spans() if span.name == name]
        return span

    def points(self, name: str) -> list[Any]:
        """Return the data points of a metric."""
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in data.resource_metrics if data is not None
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]  # fmt: skip

    def clear(self) -> None:
        """Forget the spans."""
        self._exporter.clear()


@contextlib.contextmanager
def telemetry() -> Iterator[Telemetry]:
    """Set the global providers of this process, which programs may set only once, and unset them again."""
    recorded = Telemetry()
    trace.set_tracer_provider(recorded.tracers)
    metrics.set_meter_provider(recorded.meters)
    try:
        yield recorded
    finally:
        recorded.tracers.shutdown()
        recorded.meters.shutdown()
        trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE = None, Once()
        metrics_api._METER_PROVIDER, metrics_api._METER_PROVIDER_SET_ONCE = None, Once()


@contextlib.contextmanager
def psycopg_instrumented() -> Iterator[None]:
    """Instrument psycopg. Its own `uninstrument` leaves a `connect` that ignores subclasses of a connection."""
    places = (psycopg, psycopg.Connection, psycopg.AsyncConnection)
    before = [vars(place)["connect"] for place in places]
    instrumentor = PsycopgInstrumentor()
    instrumentor.instrument()
    try:
        yield
    finally:
        instrumentor.uninstrument()
        for place, connect in zip(places, before, strict=True):
            place.connect = connect


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    """True if `parent` is the parent of `span`."""
    return (
        span.parent is not None
        and span.parent.span_id == parent.context.span_id
        and span.context.trace_id == parent.context.trace_id
    )


def linked(span: ReadableSpan) -> list[int]:
    """Return the span ids of the links of a span."""
    return [link.context.span_id for link in span.links]


def ids_of(*spans: ReadableSpan) -> list[int]:
    """Return the ids of spans."""
    return [span.context.span_id for span in spans]


def traceparent(context: SpanContext) -> str:
    """Return a span's context as the header that carries it."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
