"""Connections of a worker whose server answers no more, though nothing says that they are lost."""

from __future__ import annotations

import asyncio
import contextlib
import time

import psycopg
import pytest

from pgsluice.worker.engine import connections

CONNECTIONS = 6
ANSWER_S = 2.0


async def use_all(pools: connections.Connections) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = await stack.enter_async_context(pools.engine.connection())
            await connection.execute("select 1")


@contextlib.asynccontextmanager
async def opened(url):
    pools = connections.Connections(url, engine_size=CONNECTIONS, handlers_size=1)
    await pools.open()
    try:
        yield pools
    finally:
        await pools.close()


def test_the_engine_waits_for_one_silent_connection_and_not_for_each(far_url, proxy, monkeypatch):
    monkeypatch.setattr(connections, "_ANSWER_S", ANSWER_S)

    async def run():
        async with opened(far_url) as pools:
            await use_all(pools)
            proxy.swallow()
            with pytest.raises(psycopg.OperationalError):
                async with pools.engine.connection() as connection:
                    await connection.execute("select 1")
            began_s = time.monotonic()
            await use_all(pools)
            return time.monotonic() - began_s

    assert asyncio.run(run()) < ANSWER_S


def test_the_reset_after_a_handler_ends_within_seconds(far_url, proxy, monkeypatch):
    """Threads and tasks: the reset is the first to talk to a server that went silent after the commit."""
    monkeypatch.setattr(connections, "_SIGN_S", ANSWER_S)

    async def run():
        async with opened(far_url) as pools:
            taken_s = []
            async with pools.lend() as connection:
                await connection.execute("select 1")
                await connection.commit()
                proxy.swallow()
                began_s = time.monotonic()
            taken_s.append(time.monotonic() - began_s)

            def in_thread():
                with pools.lend_sync() as connection:
                    connection.execute("select 1")
                    connection.commit()
                    proxy.swallow()
                    began_s = time.monotonic()
                taken_s.append(time.monotonic() - began_s)

            await asyncio.to_thread(in_thread)
            return taken_s

    assert all(
        ANSWER_S / 2 < taken < ANSWER_S + 3 for taken in asyncio.run(asyncio.wait_for(run(), 30))
    )
