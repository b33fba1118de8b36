"""When a source looks again: told by a listener, when something is due, or by the clock."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from datetime import datetime

from pgsluice.client.calls.listeners import Due
from pgsluice.worker.wakeups.subscription import AsyncSubscription

# While the listener cannot be relied on: after a look that found something, and at most.
_POLL_MIN_S = 0.25
_POLL_MAX_S = 1.0
_POLL_GROWTH = 1.5


class Polling:
    """Waits for one source.

    Attributes:
        subscription: What the listener tells it by.
    """

    def __init__(
        self,
        subscription: AsyncSubscription,
        next_due: Callable[[datetime | None], Awaitable[Due]],
        *,
        is_told_of_time: bool,
        next_room: Callable[[], Awaitable[Due]] | None = None,
    ) -> None:
        """Prepare it.

        Args:
            subscription: Of this source alone.
            next_due: When time brings something next, after a time of the server's.
            is_told_of_time: Whether a listener that can be relied on also tells of what time brings. Then it need not
                be asked for; else each look costs two statements, and so is half as frequent.
            next_room: When the limits of the source, of which nobody tells, have room again; None: it has no limits.
        """
        self.subscription = subscription
        self._next_due = next_due
        self._is_told_of_time = is_told_of_time
        self._next_room = next_room
        self._is_limited = False
        self._is_woken_in_vain = False
        self._poll_s = _POLL_MIN_S
        self._look_at_s: float | None = None  # None: nobody has looked since the last wait ended
        self._due_at_s = math.inf
        self._is_due = False
        self._asked_at: datetime | None = None

    def claimed(self, qty: int) -> None:
        """Take note of a claim."""
        if qty > 0:
            self._poll_s = _POLL_MIN_S
            self._look_at_s = None
            self._is_woken_in_vain = False

    async def wait(self, timeout_s: float) -> None:
        """Return when it is time to look, or after so many seconds."""
        end_s = time.monotonic() + timeout_s
        if self._look_at_s is None:
            self._look_at_s = await self._plan()
        look_at_s = min(self._look_at_s, self._due_at_s)
        is_woken = await self.subscription.heard(max(0.0, min(end_s, look_at_s) - time.monotonic()))
        now_s = time.monotonic()
        self._is_due = now_s >= self._due_at_s
        self._is_woken_in_vain = is_woken  # until a claim finds something
        if is_woken or now_s >= look_at_s:
            self._look_at_s = None

    def limit(self) -> None:
        """The source has limits: ask for room whenever it gives nothing."""
        self._is_limited = True

    async def ask(self) -> Due:
        """Ask what time brings next, after the last time that this was asked; first of all before the first claim.

        What was due by then the claim since has seen: so nothing falls between.
        """
        due = await self._next_due(self._asked_at)
        self._asked_at = due.asked_at
        return due

    def take_due(self) -> bool:
        """Whether the last wait ended because something was due; once."""
        is_due, self._is_due = self._is_due, False
        return is_due

    async def _plan(self) -> float:
        """Find out what time will bring; return when to look at the latest."""
        is_reliable = self.subscription.is_reliable
        self._due_at_s = math.inf
        if not (is_reliable and self._is_told_of_time):
            self._due_at_s = _local_s(await self.ask())
        if self._next_room is not None and (self._is_limited or self._is_woken_in_vain):
            room_at_s = _local_s(await self._next_room())
            self._is_limited = self._is_limited or room_at_s < math.inf
            self._due_at_s = min(self._due_at_s, room_at_s)
        interval_s = self.subscription.interval_s(self._poll_s)
        if is_reliable and not self._is_told_of_time:
            interval_s *= 2
        self._poll_s = min(_POLL_MAX_S, self._poll_s * _POLL_GROWTH)
        return time.monotonic() + interval_s


def _local_s(due: Due) -> float:
    """When that is, on `time.monotonic`."""
    if due.due_at is None:
        return math.inf
    return time.monotonic() + (due.due_at - due.asked_at).total_seconds()
