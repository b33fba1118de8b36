"""Send within a span of a provider: the message has its trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from pgsluice import WorkQueue, connect, schema

CONTEXT = SpanContext(0xA1, 0xB2, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


class Tracer(trace.Tracer):
    """Spans that are not recorded; the SDK, which records, is not in the extra."""

    def start_span(self, *_arguments: Any, **_options: Any) -> trace.Span:
        """Return the span of CONTEXT."""
        return NonRecordingSpan(CONTEXT)

    @contextmanager
    def start_as_current_span(  # type: ignore[override]
        self, *_arguments: Any, **_options: Any
    ) -> Iterator[trace.Span]:
        """Set the span of CONTEXT as the current one."""
        with trace.use_span(self.start_span()) as span:
            yield span


class Provider(trace.TracerProvider):
    """A configured provider."""

    def get_tracer(self, *_arguments: Any, **_options: Any) -> trace.Tracer:
        """Return the tracer."""
        return Tracer()


trace.set_tracer_provider(Provider())
with connect() as connection:
    schema.install(connection)
    queue = WorkQueue(connection)
    queue.create("orders")
    queue.send("orders", {"order": 1})
    (message,) = queue.read("orders", vt=30)
assert message.headers is not None
assert f"{CONTEXT.trace_id:032x}" in str(message.headers), message.headers
