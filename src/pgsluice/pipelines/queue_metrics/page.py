"""The HTML report: one file with a table of all queues, and four plots for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from html import escape
from typing import Any

from pgsluice.lake.storage import Folder, write_whole
from pgsluice.pipelines.queue_metrics.figures import Attempts, Figures
from pgsluice.pipelines.queue_metrics.gold import Gold
from pgsluice.report import fill
from pgsluice.report.svg import (
    DATABASE_COLOUR,
    LAKE_COLOUR,
    WORKER_COLOUR,
    duration,
    legend_above,
    plot,
)

_DEAD_COLOUR = "#b91c1c"


def write_report(folder: Folder, name: str, gold: Gold) -> None:
    """Write the report atomically."""
    write_whole(folder, name, render(gold).encode())


def render(gold: Gold) -> str:
    """Return the report as HTML, with all values escaped."""
    done = sum(total.done for total in gold.totals)
    summary = (
        f"{done:,} messages archived in {len(gold.totals)} queue{'s' * (len(gold.totals) != 1)}; measured at "
        f"{gold.measured_at:%Y-%m-%d %H:%M:%S} UTC, in windows of {_window_lengths(gold.windows)}."
    )
    return fill(
        "pgsluice.pipelines.queue_metrics",
        "report.html",
        summary=escape(summary),
        totals="".join(map(_total_row, gold.totals)),
        queues="".join(
            _section(
                total.queue,
                [window for window in gold.windows if window.queue == total.queue],
                [number for number in gold.attempts if number.queue == total.queue],
            )
            for total in gold.totals
        ),
    )


def _window_lengths(windows: Sequence[Figures]) -> str:
    lengths = sorted({window.window_s or 0 for window in windows})
    return " and ".join(f"{length:,} s" for length in lengths) or "no length"


def _total_row(total: Figures) -> str:
    counts = (f"{n:,}" for n in (total.retried, total.dead, total.backlog))
    latencies = (
        total.latency_p50_s,
        total.latency_p95_s,
        total.latency_p99_s,
        total.latency_max_s,
    )
    cells = (
        f"{total.sent:,}",
        f"{total.done:,}",
        f"{total.done_per_s:,.3g}",
        *counts,
        *(duration(math.nan if value is None else value) for value in latencies),
    )
    numbers = "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells)
    return f"<tr><td>{escape(total.queue)}</td>{numbers}</tr>"


def _section(queue: str, windows: Sequence[Figures], attempts: Sequence[Attempts]) -> str:
    plots = (
        ("Messages per second", _rates(windows)),
        ("Backlog at the end of each window", _backlog(windows)),
        ("Latency from send to archive", _latencies(windows)),
        ("Attempts until settled", _attempts(attempts)),
    )
    figures = "".join(
        f"<figure><figcaption>{escape(name)}</figcaption>{svg}</figure>" for name, svg in plots
    )
    return f'<div class="card"><h2>{escape(queue)}</h2>{figures}</div>'


def _rates(windows: Sequence[Figures]) -> str:
    def per_s(window: Figures, count: int) -> float:
        return count / (window.window_s or 1)

    def draw(axes: Any) -> None:
        lines: tuple[tuple[str, str, Callable[[Figures], int]], ...] = (
            ("sent", DATABASE_COLOUR, lambda window: window.sent),
            ("archived", WORKER_COLOUR, lambda window: window.done),
            ("dead", _DEAD_COLOUR, lambda window: window.dead),
        )
        for name, colour, count in lines:
            counts = [count(window) for window in windows]
            if any(counts):
                rates = [per_s(w, n) for w, n in zip(windows, counts, strict=True)]
                axes.plot(_times(windows), rates, color=colour, label=name, marker=".")
        axes.set_ylim(bottom=0)

    return _over_time(draw, windows)


def _backlog(windows: Sequence[Figures]) -> str:
    def draw(axes: Any) -> None:
        ends = [
            at + timedelta(seconds=w.window_s or 0)
            for at, w in zip(_times(windows), windows, strict=True)
        ]
        counts = [window.backlog for window in windows]
        axes.fill_between(ends, counts, step="post", color=WORKER_COLOUR, alpha=0.15, linewidth=0)
        axes.step(ends, counts, where="post", color=WORKER_COLOUR, label="waiting")
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")

    return _over_time(draw, windows)


def _latencies(windows: Sequence[Figures]) -> str:
    measured = [window for window in windows if window.latency_p50_s is not None]

    def draw(axes: Any) -> None:
        for name, colour, values in (
            ("p50", LAKE_COLOUR, [window.latency_p50_s for window in measured]),
            ("p95", WORKER_COLOUR, [window.latency_p95_s for window in measured]),
            ("p99", DATABASE_COLOUR, [window.latency_p99_s for window in measured]),
        ):
            # A latency of 0 has no place on a logarithmic axis; the clock's resolution is 1 microsecond.
            seconds = [max(value or 0.0, 1e-6) for value in values]
            axes.plot(_times(measured), seconds, color=colour, label=name, marker=".")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: duration(value))
        axes.yaxis.set_minor_formatter("")

    return _over_time(draw, measured)


def _attempts(attempts: Sequence[Attempts]) -> str:
    with plot(10.8, 2.2) as drawn:
        axes = drawn.axes
        places = range(len(attempts))
        for name, colour, side, counts in (
            ("archived", WORKER_COLOUR, -0.2, [found.done for found in attempts]),
            ("dead", _DEAD_COLOUR, 0.2, [found.dead for found in attempts]),
        ):
            axes.bar([at + side for at in places], counts, width=0.36, color=colour, label=name)
        axes.set_xticks(list(places), [str(found.attempts) for found in attempts])
        # Logarithmic, as most messages need one attempt.
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        legend_above(axes)
    return drawn.svg


def _over_time(draw: Callable[[Any], None], windows: Sequence[Figures]) -> str:
    if not windows:
        return "<p>none</p>"
    from matplotlib import dates

    with plot(10.8, 2.6) as drawn:
        axes = drawn.axes
        draw(axes)
        places = dates.AutoDateLocator()
        axes.xaxis.set_major_locator(places)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(places))
        legend_above(axes)
    return drawn.svg


def _times(windows: Sequence[Figures]) -> list[Any]:
    return [window.window_start for window in windows]
