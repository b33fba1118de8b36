"""Poll timing of a source: on a notification, when a message is due, or at an interval."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from datetime import datetime

from pgsluice.client.calls.listeners import Due
from pgsluice.worker.wakeups.subscription import AsyncSubscription

# Poll interval without a reliable listener: the first after a successful claim, and the maximum.
_POLL_MIN_S = 0.25
_POLL_MAX_S = 1.0
_POLL_GROWTH = 1.5


class Polling:
    """Waits on behalf of one source.

    Attributes:
        subscription: Its subscription to the listener.
    """

    def __init__(
        self,
        subscription: AsyncSubscription,
        next_due: Callable[[datetime | None], Awaitable[Due]],
        *,
        is_notified_when_due: bool,
        next_capacity: Callable[[], Awaitable[Due]] | None = None,
    ) -> None:
        """Prepare polling.

        Args:
            subscription: Subscription of this source alone.
            next_due: Returns when the next delayed message is due after a given server time.
            is_notified_when_due: True if a reliable listener also notifies of due messages. Else each poll queries the
                due time as well, so polls are half as frequent.
            next_capacity: Returns when the source's limits, for which there is no notification, allow the next message;
                None: no limits.
        """
        self.subscription = subscription
        self._next_due = next_due
        self._is_notified_when_due = is_notified_when_due
        self._next_capacity = next_capacity
        self._is_limited = False
        self._is_woken_in_vain = False
        self._poll_s = _POLL_MIN_S
        self._poll_at_s: float | None = None  # None: to be planned by the next wait
        self._due_at_s = math.inf
        self._is_due = False
        self._queried_at: datetime | None = None

    def claimed(self, qty: int) -> None:
        """Record the size of a claim."""
        if qty > 0:
            self._poll_s = _POLL_MIN_S
            self._poll_at_s = None
            self._is_woken_in_vain = False

    async def wait(self, timeout_s: float) -> None:
        """Return when it is time to poll, or after `timeout_s` seconds."""
        end_s = time.monotonic() + timeout_s
        if self._poll_at_s is None:
            self._poll_at_s = await self._plan()
        poll_at_s = min(self._poll_at_s, self._due_at_s)
        is_woken = await self.subscription.wait_notified(
            max(0.0, min(end_s, poll_at_s) - time.monotonic())
        )
        now_s = time.monotonic()
        self._is_due = now_s >= self._due_at_s
        self._is_woken_in_vain = is_woken  # until a claim finds something
        if is_woken or now_s >= poll_at_s:
            self._poll_at_s = None

    def limit(self) -> None:
        """Enable checking the source's limits after each empty claim."""
        self._is_limited = True

    async def query_due(self) -> Due:
        """Query the next due time after that of the previous query; first called before the first claim.

        Messages due by the previous query's time are covered by the claim made since, so none is missed.
        """
        due = await self._next_due(self._queried_at)
        self._queried_at = due.queried_at
        return due

    def take_due(self) -> bool:
        """True once if the last wait ended because a message was due."""
        is_due, self._is_due = self._is_due, False
        return is_due

    async def _plan(self) -> float:
        """Query due times; return the latest time of the next poll."""
        is_reliable = self.subscription.is_reliable
        self._due_at_s = math.inf
        if not (is_reliable and self._is_notified_when_due):
            self._due_at_s = _local_s(await self.query_due())
        if self._next_capacity is not None and (self._is_limited or self._is_woken_in_vain):
            capacity_at_s = _local_s(await self._next_capacity())
            self._is_limited = self._is_limited or capacity_at_s < math.inf
            self._due_at_s = min(self._due_at_s, capacity_at_s)
        interval_s = self.subscription.interval_s(self._poll_s)
        if is_reliable and not self._is_notified_when_due:
            interval_s *= 2
        self._poll_s = min(_POLL_MAX_S, self._poll_s * _POLL_GROWTH)
        return time.monotonic() + interval_s


def _local_s(due: Due) -> float:
    """Convert a due time to `time.monotonic`."""
    if due.due_at is None:
        return math.inf
    return time.monotonic() + (due.due_at - due.queried_at).total_seconds()
