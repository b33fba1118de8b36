"""Limit how many engine connections wait for row locks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

# Lock timeout in seconds for a pool of one connection.
_ALONE_S = 0.2


class LockWaits:
    """Allow lock waits on at most half of the connections of a pool.

    A call that waits for a lock keeps its connection. All lanes of a worker share the engine's connections: without
    this limit a few locked messages would occupy all connections, and the leases of other messages would expire.
    """

    def __init__(self, connections: int) -> None:
        """Prepare the limit for a pool of at most `connections`, 1 or more."""
        self._free = asyncio.Semaphore(max(1, connections // 2))
        self._is_alone = connections < 2

    @asynccontextmanager
    async def turn(self, wait_s: float) -> AsyncGenerator[float]:
        """Wait for permission to wait for a lock; yield the lock timeout, at most `wait_s` seconds."""
        async with self._free:
            yield min(wait_s, _ALONE_S) if self._is_alone else wait_s
