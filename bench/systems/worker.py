"""Our worker on a work queue and on a share group, with `pgsluice maintain` running."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from typing import Any

import psycopg

from bench.working import Handled, Send, until
from pgsluice import schema
from pgsluice.worker.app.app import App
from pgsluice.worker.engine.flow.worker import Worker

COMMAND = "from pgsluice.cli.main import main; main()"
TRANSACTION = 10_000


class QueueWorker:
    """Worker on a work queue."""

    name = "work queue"
    uvloop = False
    places: dict[str, Any] = {"queue": "bench"}  # noqa: RUF012
    limits: dict[str, Any] = {}  # noqa: RUF012

    def version(self) -> str:
        """Return the package version."""
        return version("pgsluice")

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Install our schemas, and create a queue."""
        schema.install(connection)
        connection.execute("select pgmq.create('bench')")

    @contextmanager
    def beside(self, url: str) -> Iterator[object]:
        """Run `pgsluice maintain` in a separate process for ticks and notifications."""
        command = [sys.executable, "-c", COMMAND, "maintain", "--dsn", url]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as maintain:
            try:
                yield maintain
            finally:
                maintain.terminate()

    async def fill(self, url: str, payload: str, messages: int) -> None:
        """Send through the handler."""
        await self.send_all(url, payload, messages)

    async def send_all(
        self,
        url: str,
        payload: str,
        messages: int,
        headers: Callable[[], dict[str, str] | None] = lambda: None,
    ) -> None:
        """Send through the handler, with headers for each message."""
        _, handler = self._app(url, 1, print)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            for first in range(0, messages, TRANSACTION):
                payloads = [payload] * min(TRANSACTION, messages - first)
                each = [headers() for _ in payloads]
                await handler.send_many_async(
                    payloads, headers=each if any(each) else None, connection=connection
                )

    @asynccontextmanager
    async def sender(self, url: str) -> AsyncIterator[Send]:
        """Send through the handler."""
        _, handler = self._app(url, 1, print)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

            async def send(payload: str) -> None:
                await handler.send_async(payload, connection=connection)

            yield send

    @asynccontextmanager
    async def worker(
        self, url: str, concurrency: int, handled: Handled
    ) -> AsyncIterator[Callable[[asyncio.Event], Awaitable[None]]]:
        """Create a worker with one handler; it connects when it starts."""
        app, _ = self._app(url, concurrency, handled)
        worker = Worker(app)

        async def work(done: asyncio.Event) -> None:
            running = asyncio.create_task(worker.run())
            await until(done, running)
            worker.stop()
            await running

        yield work

    def _app(self, url: str, concurrency: int, handled: Handled) -> tuple[App, Any]:
        app = App(url)

        @app.handler(**self.places, **self.limits, concurrency=concurrency)
        async def bench(payload: str) -> None:
            handled(payload)

        return app, bench


class GroupWorker(QueueWorker):
    """Worker on a share group of a log."""

    name = "share group"
    places: dict[str, Any] = {"log": "bench", "group": "bench", "event_types": ["bench"]}  # noqa: RUF012

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Install our schemas, and create a log and a group."""
        schema.install(connection)
        connection.execute("select pgq.create_queue('bench')")
        connection.execute("select sluice.create_group('bench', 'bench')")

    async def fill(self, url: str, payload: str, messages: int) -> None:
        """Send through the handler, then tick as maintenance would."""
        await super().fill(url, payload, messages)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute("select pgq.force_tick('bench'), pgq.ticker('bench')")
