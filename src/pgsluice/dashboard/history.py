"""Samples of a queue, or of all, as charts: lengths, rates and ages over an hour, a day or a month."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from markupsafe import Markup

from pgsluice.client import Sample
from pgsluice.dashboard.charts import Point, chart
from pgsluice.dashboard.database import PageSession
from pgsluice.dashboard.rendering import duration, number

_POINTS = 240


@dataclass(frozen=True, slots=True)
class Span:
    """A time that charts show.

    Attributes:
        name: Its name, in the query of the page.
        length: Its length, up to now.
        every: Time between two samples.
    """

    name: str
    length: timedelta
    every: timedelta

    def read(self, session: PageSession, queue_name: str | None) -> list[Sample]:
        """Return the samples of a queue in this time; None: of all queues together."""
        since = datetime.now(UTC) - self.length
        kind = "queues" if queue_name is None else "queue"
        return session.operations.list_samples(
            kind, queue_name or "", since=since, every=self.every
        )

    def charts(
        self, samples: Sequence[Sample], every_max: timedelta = timedelta(0)
    ) -> list[Markup]:
        """Return the charts of a queue, or of all.

        Args:
            samples: The samples.
            every_max: The time between two of them may be as long as this.
        """
        thinned = list(_thinned(samples))
        gap = max(self.every * 3 * max(1, -(-len(samples) // _POINTS)), every_max)

        def points(value: Callable[[Sample], float | None]) -> list[Point]:
            return [(each.taken_at, value(each)) for each in thinned]

        counts = [
            ("ready", points(lambda each: each.ready)),
            ("in flight", points(lambda each: each.in_flight)),
            ("retrying", points(lambda each: each.retrying)),
            ("delayed", points(lambda each: each.delayed)),
        ]
        per_second = [
            ("sent", rates(points(lambda each: each.sent))),
            ("finished", rates(points(lambda each: each.finished))),
        ]
        age = [("oldest ready", points(_age_s))]
        dead = [("dead letters", points(lambda each: each.dead))]
        return [
            chart("Messages", counts, count, gap=gap),
            chart("Messages per second", per_second, count, gap=gap),
            chart("Age of the oldest ready message", age, duration, gap=gap),
            chart("Dead letters", dead, count, gap=gap),
        ]


SPANS = (
    Span("hour", timedelta(hours=1), timedelta(seconds=10)),
    Span("day", timedelta(days=1), timedelta(minutes=1)),
    Span("month", timedelta(days=31), timedelta(minutes=15)),
)


def span_of(name: str | None) -> Span:
    """Return a span by its name; the hour if there is none of this name."""
    return next((each for each in SPANS if each.name == name), SPANS[0])


def _thinned(samples: Sequence[Sample]) -> Iterator[Sample]:
    """Return at most `_POINTS` samples: of neighbours, the one with the most ready messages."""
    step = max(1, -(-len(samples) // _POINTS))
    for start in range(0, len(samples), step):
        yield max(samples[start : start + step], key=lambda each: each.ready or 0)


def rates(points: Sequence[Point]) -> list[Point]:
    """Return the rates per second between points of a counter; None where it fell, as after a new start."""
    found: list[Point] = []
    for (before, low), (at, high) in itertools.pairwise(points):
        seconds = (at - before).total_seconds()
        if low is None or high is None or high < low or seconds <= 0:
            found.append((at, None))
        else:
            found.append((at, (high - low) / seconds))
    return found


def _age_s(sample: Sample) -> float | None:
    """Return the age of the oldest ready message: 0 without one, as the line goes down when the queue is drained."""
    return sample.oldest_ready_s or 0.0


def count(value: float) -> str:
    """Return a number of an axis: whole from 10 on, else with two digits."""
    return number(round(value)) if value >= 10 else f"{value:.2g}"
