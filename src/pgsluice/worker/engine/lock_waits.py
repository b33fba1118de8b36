"""Limit how many connections of the engine wait for row locks, so that the others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

# How long one call waits for a lock where there is no connection beside it, seconds.
_ALONE_S = 0.2


class LockWaits:
    """Let calls wait for row locks on at most half of the connections of a pool.

    A call that waits for a lock keeps its connection. All lanes of a worker share the engine's connections: without
    this a few locked messages would keep all of them, and the leases of other messages would expire.
    """

    def __init__(self, connections: int) -> None:
        """Prepare it for a pool with so many connections at most, 1 or more."""
        self._free = asyncio.Semaphore(max(1, connections // 2))
        self._is_alone = connections < 2

    @asynccontextmanager
    async def turn(self, wait_s: float) -> AsyncGenerator[float]:
        """Wait until a call may wait for a lock; return for how long, at most `wait_s` seconds."""
        async with self._free:
            yield min(wait_s, _ALONE_S) if self._is_alone else wait_s
