"""Our worker on a work queue with parts left out, or used more often, to measure their cost."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from unittest.mock import patch

import psycopg

from bench.systems.worker import QueueWorker
from bench.working import Handled
from pgsluice.client.headers import KEY_HEADER
from pgsluice.worker.engine.flow import registration
from pgsluice.worker.engine.flow import worker as engine

REPORT_S, SAMPLE_S = 30.0, 10.0
# At their own rate the registry and the samples cost less than the variation between two runs.
REPORTS_TIMES, SAMPLES_TIMES = 3_000, 100
KEYS = 500
NO_SAMPLES = """
    create or replace function sluice._maintain_samples()
    returns table (task text, queue_name text, done boolean, detail text)
    language plpgsql
    as 'begin end'
"""

Work = Callable[[asyncio.Event], Awaitable[None]]


class Bare(QueueWorker):
    """Worker that is not registered, with maintenance that takes no samples."""

    name = "no registry, no samples"

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Install our schemas, and replace the sampling step of maintenance."""
        super().install(connection)
        connection.execute(NO_SAMPLES)

    @asynccontextmanager
    async def worker(self, url: str, concurrency: int, handled: Handled) -> AsyncIterator[Work]:
        """Create a worker that sends no reports."""
        with patch.object(engine, "registered", _not_registered):
            async with super().worker(url, concurrency, handled) as work:
                yield work


class Reporting(QueueWorker):
    """Worker that reports more often."""

    name = f"{REPORTS_TIMES:,} times the reports"

    @asynccontextmanager
    async def worker(self, url: str, concurrency: int, handled: Handled) -> AsyncIterator[Work]:
        """Create a worker with a shorter interval of reports."""
        pause_s = REPORT_S / REPORTS_TIMES
        with patch.multiple(registration, _REPORT_S=pause_s, _FIRST_REPORT_S=pause_s):
            async with super().worker(url, concurrency, handled) as work:
                yield work


class Sampling(QueueWorker):
    """Worker with a session that takes samples more often."""

    name = f"{SAMPLES_TIMES:,} times the samples"

    @contextmanager
    def beside(self, url: str) -> Iterator[object]:
        """Run maintenance, and take samples in a thread."""
        is_over = threading.Event()

        def sample() -> None:
            with psycopg.connect(url, autocommit=True) as connection:
                while not is_over.wait(SAMPLE_S / SAMPLES_TIMES):
                    take_samples(connection)

        with super().beside(url) as maintain, ThreadPoolExecutor(1) as pool:
            sampling = pool.submit(sample)
            try:
                yield maintain
            finally:
                is_over.set()
            sampling.result()


class SwitchedOff(QueueWorker):
    """Worker in a program with OpenTelemetry, and with PGSLUICE_TRACING=off."""

    name = "tracing switched off"
    switch = "off"

    @asynccontextmanager
    async def worker(self, url: str, concurrency: int, handled: Handled) -> AsyncIterator[Work]:
        """Configure OpenTelemetry in this process, and create a worker."""
        _configure_telemetry()
        with patch.dict(os.environ, PGSLUICE_TRACING=self.switch):
            async with super().worker(url, concurrency, handled) as work:
                yield work


class Traced(SwitchedOff):
    """Worker that is traced: SDK, SimpleSpanProcessor, an exporter in memory, and metrics."""

    name = "traced"
    switch = "on"

    async def fill(self, url: str, payload: str, messages: int) -> None:
        """Send with trace context, as a traced producer does."""
        await self.send_all(url, payload, messages, _trace_headers)


class Keyed(QueueWorker):
    """Worker that handles one message of each key at a time."""

    name = f"{KEYS} keys, key_concurrency=1"
    limits: dict[str, Any] = {"key_concurrency": 1}  # noqa: RUF012

    async def fill(self, url: str, payload: str, messages: int) -> None:
        """Send with keys, one after the other."""
        numbers = itertools.count()
        await self.send_all(
            url, payload, messages, lambda: {KEY_HEADER: f"tenant-{next(numbers) % KEYS}"}
        )


VARIANTS: dict[str, Callable[[], QueueWorker]] = {
    variant.name: variant for variant in (Bare, Reporting, Sampling, SwitchedOff, Traced, Keyed)
}


def take_samples(connection: psycopg.Connection[Any]) -> None:
    """Take samples as maintenance does, also if the previous ones are less than five seconds old."""
    connection.execute("select setval('sluice.sample_turn', 1)")
    connection.execute("select sluice.take_samples('100 milliseconds')")


@asynccontextmanager
async def _not_registered(*_arguments: object) -> AsyncIterator[None]:
    yield


def _trace_headers() -> dict[str, str]:
    return {"traceparent": f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"}


def _configure_telemetry() -> None:
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
