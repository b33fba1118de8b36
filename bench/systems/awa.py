"""awa: its Rust runtime with Python handlers, and its queue storage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psycopg

from bench.working import Handled, Send
from pgsluice.errors import MissingExtraError

TRANSACTION = 10_000


@dataclass
class Bench:
    """Arguments of a job; the class name is the job kind."""

    payload: str


class Awa:
    """Peer."""

    name = "awa"
    uvloop = False

    def version(self) -> str:
        """Return the package version."""
        try:
            return version("awa-pg")
        except PackageNotFoundError:
            raise MissingExtraError(
                "the peer awa is not installed; run pip install awa-pg"
            ) from None

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Run the migrations of `awa migrate`."""
        info = connection.info
        url = f"postgresql://{info.user}@/{info.dbname}?host={info.host}&port={info.port}"

        async def migrate() -> None:
            async with self._client(url) as client:
                await client.migrate()
            done = asyncio.Event()
            done.set()
            async with self.worker(url, 1, print) as work:
                await work(done)  # its queue storage is enabled once a worker has started

        asyncio.run(migrate())

    def beside(self, url: str) -> AbstractContextManager[object]:  # noqa: ARG002
        """Run nothing: its workers elect a leader for maintenance."""
        return nullcontext()

    async def fill(self, url: str, payload: str, messages: int) -> None:
        """Send with COPY."""
        async with self._client(url) as client:
            for first in range(0, messages, TRANSACTION):
                jobs = [Bench(payload)] * min(TRANSACTION, messages - first)
                await client.enqueue_many_copy(jobs, queue="bench")

    @asynccontextmanager
    async def sender(self, url: str) -> AsyncIterator[Send]:
        """Send with its client."""
        async with self._client(url) as client:

            async def send(payload: str) -> None:
                await client.insert(Bench(payload), queue="bench")

            yield send

    @asynccontextmanager
    async def worker(
        self, url: str, concurrency: int, handled: Handled
    ) -> AsyncIterator[Callable[[asyncio.Event], Awaitable[None]]]:
        """Run its runtime with a pool of matching size."""
        async with self._client(url, 20) as client:

            @client.task(Bench, queue="bench")
            async def handle(job: Any) -> None:
                handled(job.args.payload)

            async def work(done: asyncio.Event) -> None:
                await client.start([("bench", concurrency)])
                await done.wait()
                await client.shutdown()

            yield work

    @asynccontextmanager
    async def _client(self, url: str, connections: int = 2) -> AsyncIterator[Any]:
        import awa

        # Its driver requires a host before the socket folder.
        async with awa.AsyncClient(url.replace("@/", "@localhost/"), connections) as client:
            yield client
