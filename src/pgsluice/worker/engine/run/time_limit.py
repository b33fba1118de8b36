"""Timeout of a handler call, which leaves out the time that the call waits for a connection of the worker."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

# Contexts of handlers in threads use them; a wait holds it for an addition.
_LOCK = threading.Lock()
_LOOK_S = 0.05


class Waits:
    """Time that a handler call waited for connections; overlapping waits count once. Thread-safe."""

    __slots__ = ("_began_s", "_total_s", "_waiting")

    def __init__(self) -> None:
        """Start with no waits."""
        self._waiting = 0
        self._began_s = 0.0
        self._total_s = 0.0

    def total_s(self) -> float:
        """Return the time until now in seconds, with the current wait."""
        with _LOCK:
            current_s = time.monotonic() - self._began_s if self._waiting else 0.0
            return self._total_s + current_s

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count the block as a wait."""
        with _LOCK:
            if not self._waiting:
                self._began_s = time.monotonic()
            self._waiting += 1
        try:
            yield
        finally:
            with _LOCK:
                self._waiting -= 1
                if not self._waiting:
                    self._total_s += time.monotonic() - self._began_s


class TimeLimit:
    """Cancel the block after a time like `asyncio.timeout`, extended by the waits within it."""

    def __init__(self, seconds: float, waits: Waits) -> None:
        """Prepare a limit.

        Args:
            seconds: The time.
            waits: The waits to leave out.
        """
        self._seconds = seconds
        self._waits = waits
        self._limit = asyncio.timeout(None)

    def expired(self) -> bool:
        """True if the block was cancelled."""
        return self._limit.expired()

    async def __aenter__(self) -> Self:
        """Start the time."""
        self._loop = asyncio.get_running_loop()
        self._end_s = time.monotonic() + self._seconds - self._waits.total_s()
        self._timer = self._loop.call_later(self._seconds, self._look)
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the time; raise TimeoutError if the block was cancelled."""
        self._timer.cancel()
        await self._limit.__aexit__(kind, error, trace)

    def _look(self) -> None:
        rest_s = self._end_s + self._waits.total_s() - time.monotonic()
        if rest_s > 0:
            self._timer = self._loop.call_later(max(rest_s, _LOOK_S), self._look)
        else:
            self._limit.reschedule(self._loop.time())
