"""procrastinate: async workers that delete finished jobs, as its documentation advises for high throughput."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psycopg

from bench.working import Handled, Send, until
from pgsluice.errors import MissingExtraError

WORKERS = 5
TRANSACTION = 5_000


class Procrastinate:
    """Peer; a worker fetches one job at a time, so several run per process."""

    name = "procrastinate"
    uvloop = False

    def version(self) -> str:
        """Return the package version."""
        try:
            return version("procrastinate")
        except PackageNotFoundError:
            raise MissingExtraError(
                "the peer procrastinate is not installed; run pip install 'procrastinate==3.10.*'"
            ) from None

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Run the SQL of `procrastinate schema --apply`."""
        from procrastinate.schema import SchemaManager

        connection.execute(SchemaManager.get_schema())

    def beside(self, url: str) -> AbstractContextManager[object]:  # noqa: ARG002
        """Run nothing."""
        return nullcontext()

    async def fill(self, url: str, payload: str, messages: int) -> None:
        """Send with its client."""
        async with self._task(url, print) as (_, task):
            for first in range(0, messages, TRANSACTION):
                jobs = [{"payload": payload}] * min(TRANSACTION, messages - first)
                await task.batch_defer_async(*jobs)

    @asynccontextmanager
    async def sender(self, url: str) -> AsyncIterator[Send]:
        """Send with its client."""
        async with self._task(url, print) as (_, task):

            async def send(payload: str) -> None:
                await task.defer_async(payload=payload)

            yield send

    @asynccontextmanager
    async def worker(
        self, url: str, concurrency: int, handled: Handled
    ) -> AsyncIterator[Callable[[asyncio.Event], Awaitable[None]]]:
        """Run workers that share a pool."""
        async with self._task(url, handled) as (app, _):

            async def work(done: asyncio.Event) -> None:
                running = [
                    asyncio.create_task(
                        app.run_worker_async(
                            queues=["bench"],
                            concurrency=concurrency // WORKERS,
                            delete_jobs="always",
                            install_signal_handlers=False,
                        )
                    )
                    for _ in range(WORKERS)
                ]
                await until(done, *running)
                for worker in running:
                    worker.cancel()
                for worker in running:
                    with contextlib.suppress(asyncio.CancelledError):
                        await worker

            yield work

    @asynccontextmanager
    async def _task(self, url: str, handled: Handled) -> AsyncIterator[tuple[Any, Any]]:
        import procrastinate

        connector = procrastinate.PsycopgConnector(
            conninfo=url, min_size=4 * WORKERS, max_size=4 * WORKERS
        )
        app = procrastinate.App(connector=connector)

        @app.task(queue="bench", name="bench")
        async def bench(payload: str) -> None:
            handled(payload)

        async with app.open_async():
            yield app, bench
