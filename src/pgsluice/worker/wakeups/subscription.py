"""Subscription of one thread or task to a queue or log, with fallback polling."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from typing import Any, Protocol, Self

from pgsluice.worker.wakeups.listener_state import Place

_STOP_POLL_S = 0.1


class AnyListener(Protocol):
    """Listener interface of a subscription."""

    def is_reliable(self, place: Place) -> bool:
        """True if notifications of this queue or log are known to arrive."""
        ...

    def fallback_poll_s(self) -> float:
        """Return the poll interval of one waiter in seconds while notifications arrive."""
        ...

    def remove(self, subscription: Any) -> None:
        """Remove a subscription."""
        ...


class _Waiting:
    """Wait state shared by both subscriptions."""

    def __init__(
        self,
        place: Place,
        listener: AnyListener,
        woken: threading.Event | asyncio.Event,
        msg_id: int | None = None,
    ) -> None:
        self.place = place
        self._msg_id = None if msg_id is None else str(msg_id)
        self._listener = listener
        self._woken = woken

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def is_reliable(self) -> bool:
        """True if notifications of this queue or log are known to arrive."""
        return self._listener.is_reliable(self.place)

    def close(self) -> None:
        """Unsubscribe from the listener."""
        self._listener.remove(self)

    def wake(self, payload: str = "") -> None:
        """End the current wait, or the next one, unless the notification is for other messages."""
        if self._msg_id is None or not payload or self._msg_id in payload.split(","):
            self._woken.set()

    def interval_s(self, poll_interval_s: float) -> float:
        """Return the poll interval in seconds: as given, or the listener's while notifications arrive."""
        if not self.is_reliable:
            return poll_interval_s
        # With jitter, so that waiters do not poll simultaneously.
        return max(poll_interval_s, self._listener.fallback_poll_s() * random.uniform(1.0, 1.25))  # noqa: S311


class Subscription(_Waiting):
    """Made by `Listener.subscribe`; for one thread."""

    _woken: threading.Event

    def wait(self, poll_interval_s: float, stop: threading.Event | None = None) -> bool:
        """Wait until a message may be available. Call it after an empty read, then read again.

        Args:
            poll_interval_s: Poll interval in seconds while the listener is not reliable; else its `fallback_poll_s`
                applies.
            stop: Ends the wait within a tenth of a second.

        Returns:
            True if notified; False if the poll interval has ended or `stop` is set.
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
    """Made by `AsyncListener.subscribe`; for one task."""

    _woken: asyncio.Event

    async def wait(self, poll_interval_s: float) -> bool:
        """Wait until a message may be available. Call it after an empty read, then read again.

        Args:
            poll_interval_s: Poll interval in seconds while the listener is not reliable; else its `fallback_poll_s`
                applies.

        Returns:
            True if notified; False if the poll interval has ended.
        """
        return await self.wait_notified(self.interval_s(poll_interval_s))

    async def wait_notified(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` seconds; True if notified."""
        if not self._woken.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._woken.wait()
        is_woken = self._woken.is_set()
        self._woken.clear()
        return is_woken
