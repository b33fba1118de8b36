"""pgqueuer, as in its own benchmark: asyncpg, uvloop, five consumers per process, ten jobs per fetch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psycopg

from bench.working import Handled, Send, until
from pgsluice.errors import MissingExtraError

CONSUMERS = 5
TRANSACTION = 10_000


class Pgqueuer:
    """Peer; it moves finished jobs from the job table to its log table."""

    name = "pgqueuer"
    uvloop = True

    def version(self) -> str:
        """Return the package version."""
        try:
            return version("pgqueuer")
        except PackageNotFoundError:
            raise MissingExtraError(
                "the peer pgqueuer is not installed; run pip install 'pgqueuer==1.6.*' asyncpg uvloop"
            ) from None

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Run the SQL of `pgq install`."""
        from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment

        connection.execute(QueryBuilderEnvironment().build_install_query())

    def beside(self, url: str) -> AbstractContextManager[object]:  # noqa: ARG002
        """Run nothing."""
        return nullcontext()

    async def fill(self, url: str, payload: str, messages: int) -> None:
        """Send with its client."""
        async with self._queries(url) as queries:
            for first in range(0, messages, TRANSACTION):
                qty = min(TRANSACTION, messages - first)
                await queries.enqueue(["bench"] * qty, [payload.encode()] * qty, [0] * qty)

    @asynccontextmanager
    async def sender(self, url: str) -> AsyncIterator[Send]:
        """Send with its client."""
        async with self._queries(url) as queries:

            async def send(payload: str) -> None:
                await queries.enqueue("bench", payload.encode())

            yield send

    @asynccontextmanager
    async def worker(
        self, url: str, concurrency: int, handled: Handled
    ) -> AsyncIterator[Callable[[asyncio.Event], Awaitable[None]]]:
        """Run consumers with separate connections."""
        from pgqueuer import PgQueuer

        async def handle(job: Any) -> None:
            handled(job.payload.decode())

        async with AsyncExitStack() as stack:
            consumers = []
            for _ in range(CONSUMERS):
                queries = await stack.enter_async_context(self._queries(url))
                consumer = PgQueuer(queries.driver)
                consumer.entrypoint("bench")(handle)
                consumers.append(consumer)

            async def work(done: asyncio.Event) -> None:
                running = [
                    asyncio.create_task(consumer.run(batch_size=concurrency // CONSUMERS))
                    for consumer in consumers
                ]
                await until(done, *running)
                for consumer in consumers:
                    consumer.shutdown.set()
                await asyncio.gather(*running)

            yield work

    @asynccontextmanager
    async def _queries(self, url: str) -> AsyncIterator[Any]:
        import asyncpg
        from pgqueuer.db import AsyncpgDriver
        from pgqueuer.queries import Queries

        connection = await asyncpg.connect(url)
        try:
            yield Queries(AsyncpgDriver(connection))
        finally:
            await connection.close()
