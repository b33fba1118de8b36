"""An event that ends the wait for something else."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Nudge:
    """An event that ends the wait for something else: a wake-up passes through one task less than with two waits."""

    def __init__(self) -> None:
        self._is_set = False
        self._task: asyncio.Task[Any] | None = None

    def set(self) -> None:
        """Set the event: cancel the work waited for.

        Only once: a second cancellation of a statement would interrupt the first, and psycopg close the connection.
        """
        if not self._is_set and self._task is not None:
            self._task.cancel()
        self._is_set = True

    def clear(self) -> None:
        """Clear the event."""
        self._is_set = False

    async def unless_set(self, work: Coroutine[Any, Any, Any]) -> None:
        """Wait until the work has ended or the event is set; the work has ended in any case.

        Raises:
            BaseException: That of the work.
        """
        task = self._task = asyncio.create_task(work)
        try:
            if self._is_set:
                task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()
        finally:
            self._task = None
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
