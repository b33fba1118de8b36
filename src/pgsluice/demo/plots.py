"""The plots of the report, as SVG text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pgsluice.demo.measure import Latency
from pgsluice.report.svg import (
    DATABASE_COLOUR,
    LAKE_COLOUR,
    WORKER_COLOUR,
    duration,
    legend_above,
    plot,
)

__all__ = [
    "DATABASE_COLOUR",
    "LAKE_COLOUR",
    "WORKER_COLOUR",
    "duration",
    "latency_plot",
    "outstanding_plot",
    "rates_plot",
]


def rates_plot(step_s: float, series: Sequence[tuple[str, str, Sequence[float]]]) -> str:
    """Draw rates over time.

    Args:
        step_s: Length of a step, seconds; the first begins at 0.
        series: Label, colour, and one rate per step.
    """

    def draw(axes: Any) -> None:
        for label, colour, rates in series:
            middles = [(index + 0.5) * step_s for index in range(len(rates))]
            axes.plot(middles, rates, color=colour, label=label)
        axes.set_ylabel("per second")

    return _over_time(draw)


def outstanding_plot(step_s: float, series: Sequence[tuple[str, str, Sequence[int]]]) -> str:
    """Draw a backlog over time.

    Args:
        step_s: Seconds between two counts; the first is at 0.
        series: Label, colour, and the counts.
    """

    def draw(axes: Any) -> None:
        for label, colour, counts in series:
            times = [index * step_s for index in range(len(counts))]
            axes.fill_between(times, counts, color=colour, alpha=0.15, linewidth=0)
            axes.plot(times, counts, color=colour, label=label)
        axes.set_ylabel("backlog")

    return _over_time(draw)


def latency_plot(latency: Latency, colour: str) -> str:
    """Draw a histogram of latencies on a logarithmic axis, with lines at p50, p95 and p99."""
    from matplotlib import ticker

    with plot(3.6, 2.5) as drawn:
        axes = drawn.axes
        if latency.count:
            # A latency of 0 has no place on a logarithmic axis; the clock's resolution is 1 microsecond.
            seconds = [max(value, 1e-6) for value in latency.seconds]
            low, high = math.log10(seconds[0]), math.log10(seconds[-1])
            steps = 40
            span = max(high - low, 0.1) / steps
            edges = [10 ** (low + span * index) for index in range(steps + 1)]
            # The last edge is computed from a logarithm and may be slightly below the maximum.
            edges[-1] = max(edges[-1], seconds[-1])
            axes.hist(seconds, bins=edges, color=colour, alpha=0.85)
            axes.set_xscale("log")
            top = axes.get_ylim()[1]
            percentiles = (("p50", latency.p50_s), ("p95", latency.p95_s), ("p99", latency.p99_s))
            # At three heights, and towards the middle, so that labels do not overlap where the lines are close.
            for height, (name, value) in zip((1.16, 1.08, 1.0), percentiles, strict=True):
                is_right = math.log10(max(value, 1e-6)) - low > 0.55 * (high - low)
                axes.axvline(value, color="#334155", linewidth=0.9, linestyle=(0, (4, 3)))
                axes.annotate(
                    f"{name} {duration(value)}", (value, top * height), xytext=(-3 if is_right else 3, -8),
                    textcoords="offset points", fontsize=8, color="#334155",
                    ha="right" if is_right else "left",
                    bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
                )  # fmt: skip
            axes.set_ylim(0, top * 1.2)
            # Below two decades, powers of ten alone may leave the axis without a label.
            subdivisions = (1.0, 2.0, 5.0) if high - low < 1.7 else (1.0,)
            axes.xaxis.set_major_locator(ticker.LogLocator(subs=subdivisions))
            axes.xaxis.set_major_formatter(lambda value, _: duration(value))
            axes.xaxis.set_minor_formatter("")
        axes.set_ylabel("count")
    return drawn.svg


def _over_time(draw: Any) -> str:
    with plot(10.8, 3.0) as drawn:
        axes = drawn.axes
        draw(axes)
        axes.set_xlabel("seconds since the first transaction")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        legend_above(axes)
    return drawn.svg
