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
    """The arguments of a job; its name is the job's kind."""

    payload: str


class Awa:
    """The peer."""

    name = "awa"
    uvloop = False

    def version(self) -> str:
        """The package's version."""
        try:
            return version("awa-pg")
        except PackageNotFoundError:
            raise MissingExtraError(
                "the peer awa is not installed; run pip install awa-pg"
            ) from None

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Run what `awa migrate` runs."""
        info = connection.info
        url = f"postgresql://{info.user}@/{info.dbname}?host={info.host}&port={info.port}"

        async def migrate() -> None:
            async with self._client(url) as client:
                await client.migrate()
            done = asyncio.Event()
            done.set()
            async with self.worker(url, 1, print) as work:
                await work(done)  # its queue storage is used when a worker was there

        asyncio.run(migrate())

    def beside(self, url: str) -> AbstractContextManager[object]:  # noqa: ARG002
        """Nothing: its workers elect one that maintains."""
        return nullcontext()

    async def fill(self, url: str, payload: str, messages: int) -> None:
        """Send by COPY."""
        async with self._client(url) as client:
            for first in range(0, messages, TRANSACTION):
                jobs = [Bench(payload)] * min(TRANSACTION, messages - first)
                await client.enqueue_many_copy(jobs, queue="bench")

    @asynccontextmanager
    async def sender(self, url: str) -> AsyncIterator[Send]:
        """Send by its client."""
        async with self._client(url) as client:

            async def send(payload: str) -> None:
                await client.insert(Bench(payload), queue="bench")

            yield send

    @asynccontextmanager
    async def worker(
        self, url: str, concurrency: int, handled: Handled
    ) -> AsyncIterator[Callable[[asyncio.Event], Awaitable[None]]]:
        """Its runtime, with a pool that fits."""
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

        # Its driver wants a host before the one that is a socket's folder.
        async with awa.AsyncClient(url.replace("@/", "@localhost/"), connections) as client:
            yield client
