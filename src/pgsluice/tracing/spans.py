"""Spans and metrics of messages, by OpenTelemetry's messaging conventions. Imported only when tracing is on.

One rule decides how spans relate. A span of a single message joins the message's trace: it is a child of the span that
sent it. A span of several messages, or of a redelivered one, starts a trace of its own and links to the spans that
sent its messages. A span that settles relates to the handler calls of its messages: it is the child of a single call.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pgsluice.tracing.carrier import Carrier, Sends, SpanPlace

# SDKs keep 128 links of a span by default.
LINKS_MAX = 128
_BUCKETS_S = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
_MESSAGES_UNIT = "{message}"
_KINDS = {
    "receive": SpanKind.CLIENT,
    "process": SpanKind.CONSUMER,
    "settle": SpanKind.CLIENT,
}
# Set in handler processes, which continue traces even if they have no provider.
_JOINED = otel_context.create_key("pgsluice-joined")
_SUPPRESSED = "_SUPPRESS_INSTRUMENTATION_KEY"
_SUPPRESSED_PLAIN = "suppress_instrumentation"
_w3c = TraceContextTextMapPropagator()

Attributes = dict[str, str | int]


def configured() -> Tracing | None:
    """Return the tracing of the process's global providers; None if it has configured neither."""
    tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    if _is_real(tracers) or _is_real(meters) or otel_context.get_value(_JOINED):
        return _tracing_of(tracers, meters)
    return None


@functools.lru_cache(maxsize=4)  # a process has one provider of each kind, and a test a few
def _tracing_of(tracers: TracerProvider, meters: MeterProvider) -> Tracing:
    return Tracing(tracers, meters)


def _is_real(provider: object) -> bool:
    """True if a provider does something: the API's own ones do not."""
    return not type(provider).__module__.startswith(
        ("opentelemetry.trace", "opentelemetry.metrics")
    )


def origin_of(carrier: Carrier | None) -> SpanContext | None:
    """Return the span of a trace context; None if there is none or it is invalid."""
    if carrier is None:
        return None
    found = trace.get_current_span(_w3c.extract(carrier, Context())).get_span_context()
    return found if found.is_valid else None


@contextmanager
def joined(origin: SpanContext) -> Iterator[None]:
    """Continue a trace of another process."""
    parent = trace.set_span_in_context(trace.NonRecordingSpan(origin), Context())
    with _attached(otel_context.set_value(_JOINED, True, parent)):
        yield


@contextmanager
def without_instrumentation() -> Iterator[None]:
    """Ask instrumentations, such as that of psycopg, to create no spans."""
    quiet = otel_context.set_value(_SUPPRESSED_PLAIN, True)
    key = getattr(otel_context, _SUPPRESSED, None)  # instrumentations import it by this name
    if key is not None:
        quiet = otel_context.set_value(key, True, quiet)
    with _attached(quiet):
        yield


@contextmanager
def _attached(context: Context) -> Iterator[None]:
    token = otel_context.attach(context)
    try:
        yield
    finally:
        otel_context.detach(token)


class Operation:
    """A span under way, and its attributes for metrics.

    Attributes:
        span: The span.
        carrier: Of a send: the trace context to store in its messages; empty: none.
        count: Of a send: the number of messages.
    """

    __slots__ = ("_measured", "carrier", "count", "span")

    def __init__(self, span: Span, measured: Attributes, count: int = 0) -> None:
        self.span = span
        self.carrier: dict[str, str] = {}
        self.count = count
        self._measured = measured

    @property
    def context(self) -> SpanContext | None:
        """Context of the span; None if the program has no tracer provider."""
        found = self.span.get_span_context()
        return found if found.is_valid else None

    def identify(self, message_id: object) -> None:
        """Record the id of the message that was sent."""
        self.span.set_attribute("messaging.message.id", str(message_id))

    def failed(self, error_type: str, message: str = "", trace: str | None = None) -> None:
        """Record a failure.

        Args:
            error_type: Class of the exception, or a word.
            message: Its text, without secrets.
            trace: Its traceback; None: it was not raised, or its traceback is of no use.
        """
        self._measured["error.type"] = error_type
        self.span.set_attribute("error.type", error_type)
        self.span.set_status(Status(StatusCode.ERROR, error_type))
        event: Attributes = {"exception.type": error_type, "exception.message": message}
        if trace is not None:
            event["exception.stacktrace"] = trace
        self.span.add_event("exception", event)


class Tracing:
    """Records spans and metrics with one tracer and one meter."""

    def __init__(self, tracers: TracerProvider, meters: MeterProvider) -> None:
        """Create the tracer and the instruments."""
        release = version("pgsluice")
        self._tracer = tracers.get_tracer("pgsluice", release)
        meter = meters.get_meter("pgsluice", release)
        self._operation_s = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Duration of sends, non-empty receives and settlements.",
            explicit_bucket_boundaries_advisory=_BUCKETS_S,
        )
        self._process_s = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of handler calls.",
            explicit_bucket_boundaries_advisory=_BUCKETS_S,
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            unit=_MESSAGES_UNIT,
            description="Messages that producers tried to send.",
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            unit=_MESSAGES_UNIT,
            description="Messages delivered to workers.",
        )

    @contextmanager
    def sending(self, sends: Sends, given: Sequence[Carrier]) -> Iterator[Operation]:
        """Record a send. Its span is the origin of the messages that have no trace context yet.

        Args:
            sends: What is sent.
            given: Trace contexts that the caller put into messages.
        """
        place = SpanPlace(sends.system, sends.destination)
        is_origin = len(given) < sends.messages
        attributes, measured = _attributes("send", place)
        if sends.qty is not None:
            attributes["messaging.batch.message_count"] = sends.qty
        began_s = time.perf_counter()
        with self._tracer.start_as_current_span(
            f"send {place.destination}",
            kind=SpanKind.PRODUCER if is_origin else SpanKind.CLIENT,
            attributes=attributes,
            links=[Link(each) for each in _distinct(list(filter(None, map(origin_of, given))))],
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            operation = Operation(span, measured, sends.messages)
            if is_origin:
                _w3c.inject(operation.carrier)
            try:
                yield operation
            except BaseException as error:
                operation.failed(type(error).__name__, str(error))
                raise
            finally:
                if operation.count != sends.messages:  # a COPY, counted by the server
                    span.set_attribute("messaging.batch.message_count", operation.count)
                self._operation_s.record(time.perf_counter() - began_s, measured)
                self._sent.add(operation.count, measured)

    @contextmanager
    def processing(
        self,
        place: SpanPlace,
        origins: Sequence[SpanContext],
        *,
        joins: bool,
        attributes: Mapping[str, str | int],
        counts: int,
    ) -> Iterator[Operation]:
        """Record a handler call; its span is the parent of what the handler does.

        Args:
            place: Source of the messages.
            origins: Spans that sent the messages.
            joins: True if the span may join their trace.
            attributes: Attributes of the span.
            counts: Messages to count as consumed; 0 if they were counted when they were received.
        """
        parent, links = _relations(origins, joins=joins)
        all_attributes, measured = _attributes("process", place)
        began_s = time.perf_counter()
        span = self._tracer.start_span(
            f"process {place.destination}",
            parent,
            kind=SpanKind.CONSUMER,
            attributes={**all_attributes, **attributes},
            links=links,
        )
        operation = Operation(span, measured)
        if counts:
            self._consumed.add(counts, measured)
        try:
            with _attached(trace.set_span_in_context(span, Context())):
                yield operation
        except BaseException as error:
            operation.failed(type(error).__name__)
            raise
        finally:
            span.end()
            self._process_s.record(time.perf_counter() - began_s, measured)

    def record(
        self,
        name: str,
        place: SpanPlace,
        began_ns: int,
        lasted_s: float,
        origins: Sequence[SpanContext],
        *,
        joins: bool,
        attributes: Mapping[str, str | int],
        error: BaseException | None = None,
        received: int = 0,
    ) -> None:
        """Record an operation that has ended: `receive` or `settle`.

        Args:
            name: The operation.
            place: Source of the messages.
            began_ns: Its start, by `time.time_ns`.
            lasted_s: Its duration.
            origins: Spans that sent or processed the messages.
            joins: True if the span may join their trace.
            attributes: Attributes of the span.
            error: Error that ended it.
            received: Messages to count as consumed.
        """
        parent, links = _relations(origins, joins=joins)
        all_attributes, measured = _attributes(name, place)
        span = self._tracer.start_span(
            f"{name} {place.destination}",
            parent,
            kind=_KINDS[name],
            attributes={**all_attributes, **attributes},
            links=links,
            start_time=began_ns,
        )
        if error is not None:
            Operation(span, measured).failed(type(error).__name__, str(error))
        span.end(began_ns + int(lasted_s * 1e9))
        self._operation_s.record(lasted_s, measured)
        if received:
            self._consumed.add(received, measured)


def _attributes(operation: str, place: SpanPlace) -> tuple[Attributes, Attributes]:
    """Return the attributes of a span and of its metrics."""
    measured: Attributes = {
        "messaging.system": place.system,
        "messaging.destination.name": place.destination,
        "messaging.operation.name": operation,
    }
    if place.group is not None:
        measured["messaging.consumer.group.name"] = place.group
    return {**measured, "messaging.operation.type": operation}, measured


def _relations(origins: Sequence[SpanContext], *, joins: bool) -> tuple[Context, list[Link]]:
    """Return the context and the links of a span: see the module."""
    distinct = _distinct(origins)
    if joins and len(distinct) == 1:
        return trace.set_span_in_context(trace.NonRecordingSpan(distinct[0]), Context()), []
    return Context(), [Link(each) for each in distinct]


def _distinct(origins: Sequence[SpanContext]) -> list[SpanContext]:
    """Return different spans, at most those a span can link to."""
    found = {(each.trace_id, each.span_id): each for each in origins}
    return list(found.values())[:LINKS_MAX]
