"""Charts as SVG, drawn by the server: readable without JavaScript, and printable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from markupsafe import Markup

Point = tuple[datetime, float | None]
_WIDTH, _HEIGHT = 420, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 8, 10, 22
_STEPS_S = (10, 30, 60, 300, 600, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800)
_LABELS_X = 5
_LABELS_Y = 4


def chart(
    title: str,
    series: Sequence[tuple[str, Sequence[Point]]],
    text: Callable[[float], str],
    *,
    gap: timedelta,
) -> Markup:
    """Return a line chart.

    Args:
        title: Its title, also for screen readers.
        series: Names and points, in order of time; a value of None interrupts the line. The first six have colours.
        text: Formats a value of the vertical axis.
        gap: Points further apart than this are not connected.
    """
    points = [point for _, each in series for point in each if point[1] is not None]
    if len(points) < 2:
        return Markup(
            '<figure class="chart"><figcaption>{}</figcaption><p class="none">No samples in this time. They are taken '
            "by <code>pgsluice maintain</code>.</p></figure>"
        ).format(title)
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    top = _ceiling(max(value for _, value in points if value is not None))
    span_s = max((last - first).total_seconds(), 1.0)

    def x(at: datetime) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (at - first).total_seconds() / span_s

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / top

    lines = Markup("").join(
        Markup('<path class="series-{}" d="{}"/>').format(number, _path(each, x, y, gap))
        for number, (_, each) in enumerate(series, 1)
    )
    legend = Markup("").join(
        Markup('<li class="series-{}">{} <b>{}</b></li>').format(number, name, _newest(each, text))
        for number, (name, each) in enumerate(series, 1)
    )
    return Markup(
        '<figure class="chart"><figcaption>{title}</figcaption>'
        '<svg viewBox="0 0 {width} {height}" role="img" aria-label="{title}">{grid}{lines}</svg>'
        "<ul>{legend}</ul></figure>"
    ).format(
        title=title,
        width=_WIDTH,
        height=_HEIGHT,
        grid=_grid(first, last, top, x, y, text),
        lines=lines,
        legend=legend,
    )


def _path(
    points: Sequence[Point],
    x: Callable[[datetime], float],
    y: Callable[[float], float],
    gap: timedelta,
) -> str:
    pieces: list[str] = []
    before: datetime | None = None
    for at, value in points:
        if value is None:
            before = None
            continue
        command = "L" if before is not None and at - before <= gap else "M"
        pieces.append(f"{command}{x(at):.1f} {y(value):.1f}")
        before = at
    return "".join(pieces)


def _newest(points: Sequence[Point], text: Callable[[float], str]) -> str:
    return next((text(value) for _, value in reversed(points) if value is not None), "\u2013")


def _ceiling(value: float) -> float:
    """Return the least 1, 2 or 5 times a power of ten that is not below a value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= value), 10 * power)


def _grid(
    first: datetime,
    last: datetime,
    top: float,
    x: Callable[[datetime], float],
    y: Callable[[float], float],
    text: Callable[[float], str],
) -> Markup:
    pieces = []
    for number in range(_LABELS_Y + 1):
        value = top * number / _LABELS_Y
        pieces.append(
            Markup(
                '<path class="grid" d="M{} {:.1f}H{}"/><text x="{}" y="{:.1f}">{}</text>'
            ).format(_LEFT, y(value), _WIDTH - _RIGHT, _LEFT - 6, y(value) + 3.5, text(value))
        )
    span_s = (last - first).total_seconds()
    step_s = next((each for each in _STEPS_S if span_s / each <= _LABELS_X), _STEPS_S[-1])
    at_s = math.ceil(first.timestamp() / step_s) * step_s
    while at_s <= last.timestamp():
        at = datetime.fromtimestamp(at_s, UTC)
        label = (
            f"{at:%H:%M:%S}" if step_s < 60 else f"{at:%H:%M}" if step_s < 86_400 else f"{at:%d %b}"
        )
        pieces.append(
            Markup('<text class="x" x="{:.1f}" y="{}">{}</text>').format(x(at), _HEIGHT - 6, label)
        )
        at_s += step_s
    return Markup("").join(pieces)
