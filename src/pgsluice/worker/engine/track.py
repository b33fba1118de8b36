"""One handler of a lane: what waits for it, what it runs, and what became of the rest."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence

from pgsluice.worker.engine.delivery import Delivery
from pgsluice.worker.engine.executor import AnyContext
from pgsluice.worker.engine.settlement import Counts, Result
from pgsluice.worker.engine.status import HandlerStatus
from pgsluice.worker.engine.turns import Turn, Turns
from pgsluice.worker.handlers.handler import HandlerSpec

# Messages of this much time are claimed ahead, so that slots are busy while the next claim is under way; what takes
# longer than that waits where every other worker can get it.
_AHEAD_S = 0.1
_AHEAD_MAX = 1_000
# The weight of the newest call in the mean of how long a call takes.
_NEWEST = 0.1
# A timer may be early by the resolution of the clock.
_TIMER_S = 0.001


class Run:
    """One call of a handler, with its messages.

    Attributes:
        lost: Messages whose claim is over.
        is_cancelled: Whether the lane cancelled it.
    """

    __slots__ = ("contexts", "is_begun", "is_cancelled", "lost", "task", "track")

    def __init__(self, track: Track, contexts: Sequence[AnyContext]) -> None:
        self.track = track
        self.contexts = contexts
        self.task: asyncio.Task[None] | None = None
        self.lost: set[Delivery] = set()
        self.is_begun = self.is_cancelled = False

    @property
    def is_hung(self) -> bool:
        """True if its thread outlived the handler's timeout and has not returned."""
        return self.contexts[0].is_overdue

    def cancel(self) -> None:
        """Cancel it. A task that has not begun is not: it would end without a word; it looks itself when it begins."""
        self.is_cancelled = True
        if self.is_begun and self.task is not None:
            self.task.cancel()


class Track:
    """One handler of a lane."""

    def __init__(
        self, spec: HandlerSpec, turns: Turns, wake: asyncio.Event, prefetch: int | None
    ) -> None:
        """Prepare it.

        Args:
            spec: The handler.
            turns: Say when it may start something.
            wake: Set when it may.
            prefetch: As many are claimed ahead at most; None: as many as it starts in a tenth of a second.
        """
        self.spec = spec
        self.slots = min(spec.limits.concurrency, turns.slots or spec.limits.concurrency)
        self.size = 1 if spec.batch is None else spec.batch.size
        self.waiting: deque[Delivery] = deque()
        self.runs: set[Run] = set()
        self.counts = Counts()
        self.last_error: str | None = None
        self.active = 0  # calls that run, or are about to
        self.granted = 0  # calls that may begin
        self._turns = turns
        self._prefetch = prefetch
        self._wake = wake
        self._batch_due_s = 0.0
        self._mean_s: float | None = None
        turns.join(Turn(spec.limits.weight, self._wants, self._grant))

    def status(self) -> HandlerStatus:
        """How it fares."""
        return HandlerStatus(
            name=self.spec.name,
            running=len(self.runs),
            waiting=len(self.waiting),
            counts=self.counts,
            last_error=self.last_error,
        )

    @property
    def held(self) -> int:
        """How many messages wait or run."""
        return len(self.waiting) + self.active * self.size

    @property
    def busy(self) -> int:
        """Calls that run, or are about to, and do not hang."""
        return self.active - self.hung

    @property
    def hung(self) -> int:
        """Calls whose thread outlived the handler's timeout and has not returned."""
        return sum(run.is_hung for run in self.runs)

    @property
    def is_stalled(self) -> bool:
        """True if all calls that may run at once hang, here or by the limit of all processes."""
        fleet = self.spec.limits.fleet_concurrency
        slots = self.slots if fleet is None else min(self.slots, -(-fleet // self.size))
        return self.hung >= slots

    def room(self, lease_s: float) -> int:
        """How many more may be claimed now; 0 while enough are there."""
        ahead = self._ahead(lease_s)
        # Not one by one, while half of those claimed ahead still wait; but a batch is to be filled.
        is_low = len(self.waiting) <= max(ahead // 2, self.size - 1)
        return self.slots * self.size + ahead - self.held if is_low else 0

    def _ahead(self, lease_s: float) -> int:
        if self._mean_s is None:  # nothing is known yet
            return self._prefetch or 0
        per_s = self.slots * self.size / max(self._mean_s, 1e-6)
        wanted = per_s * _AHEAD_S if self._prefetch is None else self._prefetch
        # What cannot begin before half of its lease is over is not claimed.
        return int(min(wanted, per_s * lease_s / 2, _AHEAD_MAX))

    def arrive(self, delivery: Delivery) -> None:
        """Let one wait."""
        if not self.waiting:
            self._await_batch()
        self.waiting.append(delivery)

    def _await_batch(self) -> None:
        """Let what waits begin after the longest wait, although it is no full batch."""
        if self.spec.batch is not None:
            self._batch_due_s = time.monotonic() + self.spec.batch.wait_s
            loop = asyncio.get_running_loop()
            loop.call_later(self.spec.batch.wait_s + _TIMER_S, self._turns.deal)

    def take(self) -> tuple[int, list[Delivery]]:
        """Begin with as many calls as were granted: how many, and their messages."""
        calls, self.granted = self.granted, 0
        self.active += calls
        taken = [self.waiting.popleft() for _ in range(min(len(self.waiting), calls * self.size))]
        if self.waiting:
            self._await_batch()
        return calls, taken

    def lasted(self, seconds: float) -> None:
        """Note how long a call took."""
        mean_s = seconds if self._mean_s is None else self._mean_s
        self._mean_s = mean_s + _NEWEST * (seconds - mean_s)

    def count(self, result: Result, error_type: str | None = None) -> None:
        """Count one by its result."""
        self.counts.add(result)
        if error_type is not None:
            by_type = self.counts.by_error_type
            by_type[error_type] = by_type.get(error_type, 0) + 1

    def _wants(self) -> bool:
        if self.active + self.granted >= self.slots:
            return False
        if self.spec.batch is None:
            return len(self.waiting) > self.granted
        rest = len(self.waiting) - self.granted * self.size
        return rest >= self.size or (rest > 0 and time.monotonic() >= self._batch_due_s)

    def _grant(self) -> None:
        self.granted += 1
        self._wake.set()
