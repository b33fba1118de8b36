"""Metrics: latency percentiles, rates and backlogs over time."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Latency:
    """A summary of durations, in seconds.

    Attributes:
        name: The two measured moments.
        count: Number of measurements.
        p50_s: Median.
        p95_s: 95th percentile.
        p99_s: 99th percentile.
        max_s: Maximum.
        seconds: All measurements, ascending.
    """

    name: str
    count: int
    p50_s: float
    p95_s: float
    p99_s: float
    max_s: float
    seconds: Sequence[float]

    @classmethod
    def of(cls, name: str, seconds: Iterable[float]) -> Latency:
        """Summarise measurements; without any, every metric is NaN."""
        ordered = sorted(seconds)
        return cls(
            name,
            len(ordered),
            percentile(ordered, 50),
            percentile(ordered, 95),
            percentile(ordered, 99),
            ordered[-1] if ordered else math.nan,
            ordered,
        )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of the values do not exceed (nearest rank).

    Args:
        ordered: Ascending.
        percent: 0 < percent <= 100.

    Returns:
        NaN without values.
    """
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def rate_per_s(times: Sequence[float], start: float, end: float, step_s: float) -> list[float]:
    """Return the events per second in each step of `step_s` from `start` to `end`.

    Args:
        times: Epoch seconds, ascending.
        start: Start of the first step.
        end: Contained in the last step.
        step_s: Length of a step.

    Returns:
        One rate per step.
    """
    edges = _edges(start, end, step_s)
    at = [bisect.bisect_left(times, edge) for edge in edges]
    return [(after - before) / step_s for before, after in itertools.pairwise(at)]


def spread_rate_per_s(
    commits: Sequence[tuple[float, int]], start: float, end: float, step_s: float
) -> list[float]:
    """Return the rows per second in each step, for rows that arrive in commits.

    A commit's rows are spread over the time since the previous commit: spikes would reflect the length of a
    step instead of the flow.

    Args:
        commits: Epoch seconds and rows of each, ascending.
        start: Start of the first step, and of the spread of the first commit's rows.
        end: Contained in the last step.
        step_s: Length of a step.

    Returns:
        One rate per step: that of its middle; 0 after the last commit.
    """
    rates = []
    times = [time for time, _ in commits]
    for edge in _edges(start, end, step_s)[:-1]:
        middle = edge + step_s / 2
        at = bisect.bisect_left(times, middle)
        if at == len(commits):
            rates.append(0.0)
            continue
        time, rows = commits[at]
        began = times[at - 1] if at else start
        rates.append(rows / (time - began) if time > began else 0.0)
    return rates


def outstanding(
    begun: Sequence[float], ended: Sequence[float], start: float, end: float, step_s: float
) -> list[int]:
    """Return the number of items begun and not ended at each step edge from `start` to `end`.

    Args:
        begun: Epoch seconds, ascending.
        ended: The same for the ends, ascending, so not in the order of `begun`.
        start: The first edge.
        end: Contained in the last step.
        step_s: Length of a step.

    Returns:
        One count per edge: one more than there are steps.
    """
    return [
        bisect.bisect_right(begun, edge) - bisect.bisect_right(ended, edge)
        for edge in _edges(start, end, step_s)
    ]


def _edges(start: float, end: float, step_s: float) -> list[float]:
    count = max(1, math.floor((end - start) / step_s) + 1)
    return [start + step_s * index for index in range(count + 1)]


def active_s(times: Sequence[float], *, pause_s: float = 5.0) -> float:
    """Return the duration of an activity without its pauses.

    Args:
        times: Times of its events, epoch seconds, ascending.
        pause_s: A longer gap is a pause, as after an interruption of the run.

    Returns:
        Seconds; 0 for fewer than two events.
    """
    gaps = (later - earlier for earlier, later in itertools.pairwise(times))
    return sum(gap for gap in gaps if gap <= pause_s)
