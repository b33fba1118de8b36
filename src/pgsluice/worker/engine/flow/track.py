"""State of one handler of a lane: waiting messages, running calls and counts."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence

from pgsluice.worker.engine.delivery import Counts, Delivery, Result
from pgsluice.worker.engine.flow.fair_share import FairShare
from pgsluice.worker.engine.flow.status import HandlerStatus, RunningCall
from pgsluice.worker.engine.run.executor import AnyContext
from pgsluice.worker.handlers.handler import HandlerSpec

# Prefetch in seconds of work, so that slots stay busy during the next claim; messages of slower handlers stay in the
# queue for other workers.
_AHEAD_S = 0.1
_AHEAD_MAX = 1_000
# Weight of the newest call in the exponential moving average of call durations.
_NEWEST = 0.1
# A timer may fire early by the resolution of the clock.
_TIMER_S = 0.001


class Run:
    """One call of a handler, with its messages.

    Attributes:
        lost: Messages whose claims are lost.
        is_cancelled: True if the lane cancelled the call.
        began_s: Start of the call, on `time.monotonic`.
    """

    __slots__ = ("began_s", "contexts", "is_begun", "is_cancelled", "lost", "task", "track")

    def __init__(self, track: Track, contexts: Sequence[AnyContext]) -> None:
        self.track = track
        self.contexts = contexts
        self.task: asyncio.Task[None] | None = None
        self.lost: set[Delivery] = set()
        self.is_begun = self.is_cancelled = False
        self.began_s = time.monotonic()

    @property
    def is_hung(self) -> bool:
        """True if its thread exceeded the handler's timeout and has not returned."""
        return self.contexts[0].is_overdue

    def cancel(self) -> None:
        """Cancel the call. A task not yet started would end silently; it checks `is_cancelled` when it starts."""
        self.is_cancelled = True
        if self.is_begun and self.task is not None:
            self.task.cancel()


class Track:
    """One handler of a lane."""

    def __init__(
        self,
        spec: HandlerSpec,
        turns: FairShare,
        wake: asyncio.Event,
        room: asyncio.Event,
        prefetch: int | None,
    ) -> None:
        """Prepare a track.

        Args:
            spec: The handler.
            turns: Shares the process's concurrency among handlers.
            wake: Set when a call is granted.
            room: Set when more messages may be claimed.
            prefetch: Maximum messages claimed ahead; None: what the handler starts in 0.1 s.
        """
        self.spec = spec
        self.slots = min(spec.limits.concurrency, turns.slots or spec.limits.concurrency)
        self.size = 1 if spec.batch is None else spec.batch.size
        self.waiting: deque[Delivery] = deque()
        self.runs: set[Run] = set()
        self.counts = Counts()
        self.last_error: str | None = None
        self.active = 0  # calls running or about to
        self.granted = 0  # calls allowed to start
        self._turns = turns
        self._prefetch = prefetch
        self._wake = wake
        self._room = room
        self._batch_due_s = 0.0
        self._mean_s: float | None = None
        self.share = turns.share_of(spec.name, spec.limits.weight, self.slots)
        self.share.join(self)

    def status(self) -> HandlerStatus:
        """Return the handler's status."""
        return HandlerStatus(
            name=self.spec.name,
            running=len(self.runs),
            waiting=len(self.waiting),
            counts=self.counts,
            last_error=self.last_error,
        )

    def running_calls(self) -> list[RunningCall]:
        """Return the messages that the handler processes now."""
        return [
            RunningCall(self.spec.name, self.spec.route, context.delivery.message_id, run.began_s)
            for run in self.runs
            for context in run.contexts
        ]

    @property
    def calls(self) -> int:
        """Number of calls running or allowed to start."""
        return self.active + self.granted

    @property
    def held(self) -> int:
        """Number of messages waiting or running."""
        return len(self.waiting) + self.active * self.size

    @property
    def busy(self) -> int:
        """Number of calls running or about to, without hung ones."""
        return self.active - self.hung

    @property
    def hung(self) -> int:
        """Number of calls whose thread exceeded the handler's timeout and has not returned."""
        return sum(run.is_hung for run in self.runs)

    @property
    def is_stalled(self) -> bool:
        """True if all concurrent calls hang, by this process's or the fleet's limit."""
        fleet = self.spec.limits.fleet_concurrency
        slots = self.slots if fleet is None else min(self.slots, -(-fleet // self.size))
        return self.share.hung >= slots

    def capacity(self, lease_s: float) -> int:
        """Return the number of messages to claim now; 0 above half of the prefetch."""
        ahead = self._ahead(lease_s)
        # Refill at half of the prefetch instead of one by one; but fill batches.
        is_low = len(self.waiting) <= max(ahead // 2, self.size - 1)
        return self.share.room(self, self.slots * self.size + ahead) if is_low else 0

    def _ahead(self, lease_s: float) -> int:
        if self._mean_s is None:  # no call has finished yet
            return self._prefetch or 0
        per_s = self.slots * self.size / max(self._mean_s, 1e-6)
        ahead = per_s * _AHEAD_S if self._prefetch is None else self._prefetch
        # Never claim more than can start within half of a lease.
        return int(min(ahead, per_s * lease_s / 2, _AHEAD_MAX))

    def arrive(self, delivery: Delivery) -> None:
        """Add a claimed message."""
        if not self.waiting:
            # Suspects run one at a time: each would wait in vain for the next one.
            self._await_batch(is_full=delivery.is_suspect)
        self.waiting.append(delivery)

    def _await_batch(self, *, is_full: bool = False) -> None:
        """Schedule the start of an incomplete batch after its maximum wait; immediately if no other may join it."""
        if self.spec.batch is not None:
            wait_s = 0.0 if is_full else self.spec.batch.wait_s
            self._batch_due_s = time.monotonic() + wait_s
            asyncio.get_running_loop().call_later(wait_s + _TIMER_S, self._turns.deal)

    def take(self) -> tuple[int, list[Delivery]]:
        """Take the granted calls: return their number and messages."""
        calls, self.granted = self.granted, 0
        self.active += calls
        taken = [self.waiting.popleft() for _ in range(min(len(self.waiting), calls * self.size))]
        if self.waiting:
            self._await_batch()
        return calls, taken

    def lasted(self, seconds: float) -> None:
        """Record the duration of a call."""
        mean_s = seconds if self._mean_s is None else self._mean_s
        self._mean_s = mean_s + _NEWEST * (seconds - mean_s)

    def count(self, result: Result, error_type: str | None = None) -> None:
        """Count one result."""
        self.counts.add(result)
        if error_type is not None:
            by_type = self.counts.by_error_type
            by_type[error_type] = by_type.get(error_type, 0) + 1

    def wants(self) -> bool:
        """Return True if one more call could start now, within the limit of its handler."""
        if self.spec.batch is None:
            return len(self.waiting) > self.granted
        rest = len(self.waiting) - self.granted * self.size
        return rest >= self.size or (rest > 0 and time.monotonic() >= self._batch_due_s)

    def grant(self) -> None:
        """Allow one call to start."""
        self.granted += 1
        self._wake.set()

    def make_room(self) -> None:
        """Let the lane claim more messages."""
        self._room.set()

    def leave(self) -> None:
        """Give up the share of a worker that has stopped."""
        self.share.leave(self)
        for _ in range(self.granted):
            self._turns.release()
