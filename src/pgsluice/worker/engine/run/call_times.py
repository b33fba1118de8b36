"""Durations of the calls of a handler: a histogram since the start, and that of the last minutes. No I/O."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

# Upper bounds of the buckets in seconds, each included. A last bucket has the longer calls. No other place has the
# bounds: a report names those of its buckets.
BOUNDS_S = (
    *(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)
# Recent calls are those of the current window and of the one before: of the last five to ten minutes.
WINDOW_S = 300.0
_SLOWEST_MAX = 5
_FIRST_S = BOUNDS_S[0]


class FinishedCall(NamedTuple):
    """A finished call of a handler.

    Attributes:
        seconds: Its duration.
        message_id: `msg_id` of its message, `ev_id` of its event; of a batch, the first.
        ended_s: Its end, on `time.monotonic`.
    """

    seconds: float
    message_id: int
    ended_s: float


class RecentCalls(NamedTuple):
    """Calls of the last minutes.

    Attributes:
        buckets: Lower and upper bound in seconds and number of calls of each bucket that has some; the last bucket has
            no upper bound.
        slowest: The slowest, the slowest first.
    """

    buckets: list[tuple[float, float | None, int]]
    slowest: list[FinishedCall]


class _Window:
    """Calls that ended within one window, or in all before.

    Attributes:
        start_s: Its start, on `time.monotonic`; a multiple of its length.
        end_s: Its end.
        counts: Calls by bucket.
        sum_s: The sum of their durations in seconds.
        slowest: The slowest calls.
        floor_s: Calls up to this duration are not among the slowest.
    """

    __slots__ = ("counts", "end_s", "floor_s", "slowest", "start_s", "sum_s")

    def __init__(self, start_s: float) -> None:
        self.start_s = start_s
        self.end_s = start_s + WINDOW_S
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0
        self.slowest: list[FinishedCall] = []
        self.floor_s = -1.0

    def keep(self, call: FinishedCall) -> None:
        self.slowest = sorted((*self.slowest, call), reverse=True)[:_SLOWEST_MAX]
        if len(self.slowest) == _SLOWEST_MAX:
            self.floor_s = self.slowest[-1].seconds

    def joined(self, other: _Window) -> _Window:
        """Return the calls of both."""
        both = _Window(self.start_s)
        both.counts = _summed((self, other))
        both.sum_s = self.sum_s + other.sum_s
        return both


class CallTimes:
    """Durations of the calls of one handler. `add` is called by one thread; any thread may read."""

    __slots__ = ("_current", "_windows")

    def __init__(self) -> None:
        """Start without calls."""
        self._current = _Window(-math.inf)
        # All before, the previous one and the current one; replaced at once, so that a reader counts no call twice.
        self._windows = (_Window(-math.inf), _Window(-math.inf), self._current)

    @property
    def counts(self) -> list[int]:
        """Calls since the start, by bucket."""
        return _summed(self._windows)

    @property
    def sum_s(self) -> float:
        """The sum of their durations in seconds."""
        return sum(each.sum_s for each in self._windows)

    def add(self, seconds: float, message_id: int, ended_s: float) -> None:
        """Count a call; `ended_s` is its end, on `time.monotonic`. It is called for each message."""
        window = self._current
        if ended_s >= window.end_s:
            before, previous, _ = self._windows
            self._current = _Window(_start_of_window(ended_s))
            self._windows = (before.joined(previous), window, self._current)
            window = self._current
        window.counts[bisect_left(BOUNDS_S, seconds) if seconds > _FIRST_S else 0] += 1
        window.sum_s += seconds
        if seconds > window.floor_s:
            window.keep(FinishedCall(seconds, message_id, ended_s))

    def recent(self, now_s: float) -> RecentCalls:
        """Return the calls of the last five to ten minutes before `now_s`, on `time.monotonic`."""
        since_s = _start_of_window(now_s) - WINDOW_S
        windows = [each for each in self._windows[1:] if each.start_s >= since_s]
        bounds = itertools.pairwise((0.0, *BOUNDS_S, None))
        slowest = sorted((call for each in windows for call in each.slowest), reverse=True)
        return RecentCalls(
            [
                (above_s or 0.0, upto_s, count)
                for (above_s, upto_s), count in zip(bounds, _summed(windows), strict=True)
                if count
            ],
            slowest[:_SLOWEST_MAX],
        )


def _summed(windows: Sequence[_Window]) -> list[int]:
    return [sum(each.counts[bucket] for each in windows) for bucket in range(len(BOUNDS_S) + 1)]


def _start_of_window(at_s: float) -> float:
    return at_s // WINDOW_S * WINDOW_S
