"""Sources of the worker engine in tests: handlers, pools, and waiting in an event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from psycopg_pool import AsyncConnectionPool

from pgsluice.worker.engine.claim.source import Source
from pgsluice.worker.engine.claim.sources import make_feeds
from pgsluice.worker.handlers.handler import Execution, HandlerSpec, Route
from pgsluice.worker.wakeups.listener import AsyncListener


def spec(route: Route, name: str = "handler", **fields: Any) -> HandlerSpec:
    """Return a handler, by default with a function that is never called."""
    usual = {"function": print, "takes_context": False, "execution": Execution.LOOP}
    return HandlerSpec(name=name, route=route, decode=lambda payload: payload, **(usual | fields))


def make_source(
    spec: HandlerSpec,
    pool: AsyncConnectionPool[Any],
    listener: AsyncListener | None,
    worker_id: str,
) -> Source:
    """Make the source of a single handler."""
    (feed,) = make_feeds([spec], pool, listener, worker_id)
    return feed.source


@contextlib.asynccontextmanager
async def pool_of(url: str, **options: Any) -> AsyncIterator[AsyncConnectionPool]:
    """Open a pool like the engine's; `options` are those of its connections."""
    options = {"autocommit": True, **options}
    async with AsyncConnectionPool(url, kwargs=options, min_size=1, max_size=3) as pool:
        yield pool


async def until(condition: Callable[[], bool], what: str, deadline_s: float = 30.0) -> None:
    """Wait for a condition; fail with its description."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + deadline_s
    while not condition():
        assert loop.time() < end_s, f"waited {deadline_s} s for {what}"
        await asyncio.sleep(0.002)
