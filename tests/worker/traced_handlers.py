"""Handlers that run in processes of their own, and send on."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from pgsluice import App

app = App()


@app.handler("compute", execution="process", concurrency=1)
def compute(has_provider: bool) -> None:
    if has_provider:
        trace.set_tracer_provider(TracerProvider())
    computed.send(has_provider)


@app.handler("computed")
def computed(has_provider: bool) -> None: ...
