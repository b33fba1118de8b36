"""Samples of consumers and share groups as charts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup
from starlette.requests import Request

from pgsluice.client import Sample
from pgsluice.dashboard.charts import Point, chart
from pgsluice.dashboard.database import PagePart, PageSession
from pgsluice.dashboard.history import SPANS, Span, count, rates, span_of
from pgsluice.dashboard.rendering import duration, size
from pgsluice.dashboard.settings import dashboard_of

_POINTS = 240
_BEHIND_S = 300.0


@dataclass(frozen=True, slots=True)
class ReaderHistory:
    """Samples of consumers or share groups of a log.

    Attributes:
        span: The time.
        part: The samples by reader, in order of time.
    """

    span: Span
    part: PagePart[dict[str, list[Sample]]]

    @property
    def spans(self) -> Sequence[Span]:
        """The times to choose from."""
        return SPANS

    @property
    def newest(self) -> list[Sample]:
        """The newest sample of each reader."""
        return [samples[-1] for samples in (self.part.value or {}).values() if samples]

    @property
    def lag_events(self) -> Markup:
        """A chart of the events that each reader is behind."""
        return self._of_readers("Events behind", count, "lag_events")

    @property
    def lag_time(self) -> Markup:
        """A chart of the time that each reader is behind."""
        return self._of_readers("Time behind", duration, "lag_s")

    @property
    def pinned(self) -> Markup:
        """A chart of the bytes kept for each reader."""
        return self._of_readers("Pinned", lambda value: size(round(value)), "pinned_bytes")

    @property
    def rates(self) -> Markup:
        """A chart of the events sent and finished per second, of the first reader."""
        series = [(field, rates(self._first(field))) for field in ("sent", "finished")]
        return self._chart("Events per second", series, count)

    @property
    def outcomes(self) -> Markup:
        """A chart of the leased, redelivered and dead-lettered events of the first share group."""
        fields = {"leased": "in_flight", "retrying": "retrying", "dead": "dead"}
        series = [(name, self._first(field)) for name, field in fields.items()]
        return self._chart("Events of the group", series, count)

    def _first(self, field: str) -> list[Point]:
        return _points(next(iter((self.part.value or {}).values()), []), field)

    def _of_readers(self, title: str, text: Callable[[float], str], field: str) -> Markup:
        readers = (self.part.value or {}).items()
        series = [(reader, _points(samples, field)) for reader, samples in readers]
        return self._chart(title, series, text)

    def _chart(
        self, title: str, series: Sequence[tuple[str, list[Point]]], text: Callable[[float], str]
    ) -> Markup:
        longest = max((len(samples) for samples in (self.part.value or {}).values()), default=0)
        # With thousands of sources, samples are less frequent.
        gap = self.span.every * 6 * max(1, -(-longest // _POINTS))
        return chart(title, series, text, gap=gap)


def read_history(request: Request, kind: str, log: str, readers: Sequence[str]) -> ReaderHistory:
    """Return the samples of consumers or share groups for the time that the query names as `span`.

    Args:
        request: The request.
        kind: `consumer` or `group`.
        log: The log.
        readers: Names of the consumers or share groups.
    """
    span = span_of(request.query_params.get("span"))

    def read(session: PageSession) -> dict[str, list[Sample]]:
        since = datetime.now(UTC) - span.length
        return {
            each: session.operations.list_samples(
                kind, log, since=since, reader_name=each, every=span.every
            )
            for each in readers
        }

    key = ("history", kind, log, tuple(readers), span.name)
    return ReaderHistory(span, dashboard_of(request).database.part(read, *key))


def is_far_behind(lost: str | None, lag_s: float | None) -> bool:
    """Return whether a consumer or share group is in trouble: more than five minutes behind, or without a position."""
    return bool(lost) or (lag_s or 0) > _BEHIND_S


def _points(samples: Sequence[Sample], field: str) -> list[Point]:
    """Return at most `_POINTS` points: of neighbours, the highest."""
    step = max(1, -(-len(samples) // _POINTS))
    points = []
    for start in range(0, len(samples), step):
        near = [(each.taken_at, getattr(each, field)) for each in samples[start : start + step]]
        points.append(max(near, key=lambda point: -1 if point[1] is None else point[1]))
    return points
