"""Decide whether messages are traced. Imports OpenTelemetry only if the program already has."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from pgsluice.settings import is_tracing_allowed

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from pgsluice.tracing.spans import Tracing

# A program that has configured a provider has imported one of these.
_MODULES = ("opentelemetry.trace", "opentelemetry.metrics")


def tracing() -> Tracing | None:
    """Return what records spans and metrics; None if tracing is off.

    It is on if the program has configured a tracer provider or a meter provider, and neither `PGSLUICE_TRACING=off`
    nor `OTEL_SDK_DISABLED=true` is set.

    Raises:
        ConfigurationError: `PGSLUICE_TRACING` is neither `on` nor `off`.
    """
    if not any(module in sys.modules for module in _MODULES):
        return None
    if not is_tracing_allowed(os.environ):
        return None
    from pgsluice.tracing.spans import configured

    return configured()


def quiet() -> AbstractContextManager[None]:
    """Ask other instrumentations to leave out the statements of a block, such as polls, if tracing is on."""
    if tracing() is None:
        return nullcontext()
    from pgsluice.tracing.spans import without_instrumentation

    return without_instrumentation()


def joined(span: SpanContext | None) -> AbstractContextManager[None]:
    """Continue the trace of a span of another process, if there is one."""
    if span is None:
        return nullcontext()
    from pgsluice.tracing import spans

    return spans.joined(span)
