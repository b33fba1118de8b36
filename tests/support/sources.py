"""Sources of the runtime in tests: their handlers, their pools, and waiting in a loop of events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from psycopg_pool import AsyncConnectionPool

from pgsluice.worker.handlers.handler import Execution, HandlerSpec, Route


def spec(route: Route, name: str = "handler", **fields: Any) -> HandlerSpec:
    """A handler; without a function one that nobody calls."""
    usual = {"function": print, "takes_context": False, "execution": Execution.LOOP}
    return HandlerSpec(name=name, route=route, decode=lambda payload: payload, **(usual | fields))


@contextlib.asynccontextmanager
async def pool_of(url: str, **options: Any) -> AsyncIterator[AsyncConnectionPool]:
    """A pool as the engine has one; `options` are those of its connections."""
    options = {"autocommit": True, **options}
    async with AsyncConnectionPool(url, kwargs=options, min_size=1, max_size=3) as pool:
        yield pool


async def until(condition: Callable[[], bool], what: str, deadline_s: float = 30.0) -> None:
    """Wait for a condition; fail with what was waited for."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + deadline_s
    while not condition():
        assert loop.time() < end_s, f"waited {deadline_s} s for {what}"
        await asyncio.sleep(0.002)
