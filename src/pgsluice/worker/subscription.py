"""What one thread or task waits on for a queue: told by a listener, or by the time of its next poll."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable
from typing import Any, Self

_STOP_POLL_S = 0.1


class _Waiting:
    """How long to wait, and how to end it."""

    def __init__(
        self,
        queue_name: str,
        is_reliable: Callable[[str], bool],
        fallback_poll_s: float,
        remove: Callable[[Any], None],
        woken: threading.Event | asyncio.Event,
    ) -> None:
        self.queue_name = queue_name
        self._is_reliable = is_reliable
        self._fallback_poll_s = fallback_poll_s
        self._remove = remove
        self._woken = woken

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the listener no longer listen for this one."""
        self._remove(self)

    def wake(self) -> None:
        """End the wait of now, or the next one."""
        self._woken.set()

    def _interval_s(self, poll_interval_s: float) -> float:
        if not self._is_reliable(self.queue_name):
            return poll_interval_s
        # Not all who wait at the same moment.
        return max(poll_interval_s, self._fallback_poll_s * random.uniform(0.75, 1.0))  # noqa: S311


class Subscription(_Waiting):
    """From `Listener.subscribe`; for one thread."""

    _woken: threading.Event

    def wait(self, poll_interval_s: float, stop: threading.Event | None = None) -> bool:
        """Wait until the queue may have something to read. Call it when a read found nothing, and then read again.

        Args:
            poll_interval_s: Seconds until the next look when the listener cannot be relied on; otherwise its
                `fallback_poll_s` counts.
            stop: Ends the wait within a tenth of a second.

        Returns:
            Whether the listener said so; False when it is only time for a look, or for stopping.
        """
        end_s = time.monotonic() + self._interval_s(poll_interval_s)
        while stop is None or not stop.is_set():
            rest_s = end_s - time.monotonic()
            if self._woken.wait(max(0.0, rest_s if stop is None else min(rest_s, _STOP_POLL_S))):
                self._woken.clear()
                return True
            if rest_s <= 0:
                return False
        return False


class AsyncSubscription(_Waiting):
    """From `AsyncListener.subscribe`; for one task."""

    _woken: asyncio.Event

    async def wait(self, poll_interval_s: float) -> bool:
        """Wait until the queue may have something to read. Call it when a read found nothing, and then read again.

        Args:
            poll_interval_s: Seconds until the next look when the listener cannot be relied on; otherwise its
                `fallback_poll_s` counts.

        Returns:
            Whether the listener said so; False when it is only time for a look.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._interval_s(poll_interval_s)):
                await self._woken.wait()
        is_woken = self._woken.is_set()
        self._woken.clear()
        return is_woken
