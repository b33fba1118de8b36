"""A worker written by hand, the lower bound of latency: INSERT and NOTIFY, LISTEN, one claim, one DELETE."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any

import psycopg

from bench.working import Handled, Send, until

TABLE = """
    create table job (
        id bigint primary key generated always as identity,
        payload text not null,
        visible_at timestamptz not null default clock_timestamp()
    )
"""
SEND = "with sent as (insert into job (payload) values (%s)) select pg_notify('job', '')"
CLAIM = """
    update job
    set visible_at = clock_timestamp() + interval '30 seconds'
    where id = (
        select id from job where visible_at <= clock_timestamp() order by id limit 1 for update skip locked
    )
    returning id, payload
"""
FILL = "insert into job (payload) select %s from generate_series(1, %s)"


class Loop:
    """One table, one message at a time; it retries nothing, and delays, renews and records nothing."""

    name = "loop"
    uvloop = False

    def version(self) -> str:
        """Return the version of its driver."""
        return psycopg.__version__

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Create the table."""
        connection.execute(TABLE)

    def beside(self, url: str) -> AbstractContextManager[object]:  # noqa: ARG002
        """Run nothing."""
        return nullcontext()

    async def fill(self, url: str, payload: str, messages: int) -> None:
        """Send in one statement."""
        async with await _connected(url) as connection:
            await connection.execute(FILL, [payload, messages])

    @asynccontextmanager
    async def sender(self, url: str) -> AsyncIterator[Send]:
        """Send with the notification in the same statement."""
        async with await _connected(url) as connection:

            async def send(payload: str) -> None:
                await connection.execute(SEND, [payload])

            yield send

    @asynccontextmanager
    async def worker(
        self,
        url: str,
        concurrency: int,  # noqa: ARG002
        handled: Handled,
    ) -> AsyncIterator[Callable[[asyncio.Event], Awaitable[None]]]:
        """Listen on one connection, claim on another whose claims do not wait for a flush, as ours do not."""
        async with (
            await _connected(url) as listener,
            await _connected(url) as claims,
            await _connected(url) as session,
        ):
            await claims.execute("set synchronous_commit = off")
            await listener.execute("listen job")

            async def drain() -> None:
                while row := await (await claims.execute(CLAIM)).fetchone():
                    handled(row[1])
                    await session.execute("delete from job where id = %s", [row[0]])

            async def run() -> None:
                await drain()
                async for _ in listener.notifies():
                    await drain()

            async def work(done: asyncio.Event) -> None:
                running = asyncio.create_task(run())
                await until(done, running)
                running.cancel()
                await asyncio.wait([running])

            yield work


async def _connected(url: str) -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0)
