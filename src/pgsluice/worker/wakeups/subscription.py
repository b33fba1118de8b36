"""What one thread or task waits on for a queue or a log: told by a listener, or by the time of its next poll."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from typing import Any, Protocol, Self

from pgsluice.worker.wakeups.signs import Place

_STOP_POLL_S = 0.1


class Teller(Protocol):
    """What a subscription needs of its listener."""

    def is_reliable(self, place: Place) -> bool:
        """Whether what there is to read in a place is sure to be heard of."""
        ...

    def fallback_poll_s(self) -> float:
        """Seconds between two polls of one who waits, while notifications arrive."""
        ...

    def remove(self, subscription: Any) -> None:
        """Wake this one no more."""
        ...


class _Waiting:
    """How long to wait, and how to end it."""

    def __init__(
        self, place: Place, listener: Teller, woken: threading.Event | asyncio.Event
    ) -> None:
        self.place = place
        self._listener = listener
        self._woken = woken

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def is_reliable(self) -> bool:
        """Whether what there is to read is sure to be heard of."""
        return self._listener.is_reliable(self.place)

    def close(self) -> None:
        """Let the listener no longer listen for this one."""
        self._listener.remove(self)

    def wake(self) -> None:
        """End the wait of now, or the next one."""
        self._woken.set()

    def interval_s(self, poll_interval_s: float) -> float:
        """Seconds until the next look, if nothing is heard: as given, or the listener's when it can be relied on."""
        if not self.is_reliable:
            return poll_interval_s
        # Not all who wait at the same moment.
        return max(poll_interval_s, self._listener.fallback_poll_s() * random.uniform(1.0, 1.25))  # noqa: S311


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
        end_s = time.monotonic() + self.interval_s(poll_interval_s)
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
        return await self.heard(self.interval_s(poll_interval_s))

    async def heard(self, timeout_s: float) -> bool:
        """Wait for so many seconds at most; return whether the listener said that there may be something."""
        if not self._woken.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._woken.wait()
        is_woken = self._woken.is_set()
        self._woken.clear()
        return is_woken
