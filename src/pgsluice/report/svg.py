"""Plots as SVG text in the style of the reports."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

DATABASE_COLOUR = "#336791"
WORKER_COLOUR = "#d9822b"
LAKE_COLOUR = "#2a9d8f"
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pgsluice",  # the same identifiers in each run
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": "#94a3b8",
    "axes.labelcolor": "#475569",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#e2e8f0",
    "xtick.color": "#64748b",
    "ytick.color": "#64748b",
    "text.color": "#1e293b",
    "legend.frameon": False,
    "lines.linewidth": 2,
    "lines.solid_capstyle": "round",
}


class Plot:
    """Plot to draw on.

    Attributes:
        axes: Axes of matplotlib.
        svg: SVG text, set at the end of the `plot` block.
    """

    def __init__(self, axes: Any) -> None:
        self.axes = axes
        self.svg = ""


@contextmanager
def plot(width: float, height: float) -> Iterator[Plot]:
    """Draw one plot; its size in inches determines the relative font size."""
    with plots(width, [height], 1) as drawn:
        drawn.axes = drawn.axes[0]
        yield drawn


@contextmanager
def plots(
    width: float, heights: Sequence[float], columns: int, *, margin: float = 0.0
) -> Iterator[Plot]:
    """Draw a grid of plots.

    Args:
        width: Width of the grid in inches.
        heights: Height of each row in inches.
        columns: Number of columns.
        margin: Height in inches for titles of the grid.

    Yields:
        The plot; its axes are a list, row by row.
    """
    import matplotlib as mpl  # an extra, and slow to import

    mpl.use("svg")  # needs no display and no GUI toolkit
    from matplotlib import pyplot as plt

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            len(heights), columns, figsize=(width, sum(heights) + margin), layout="constrained",
            height_ratios=heights, squeeze=False,
        )  # fmt: skip
        try:
            drawn = Plot(list(axes.flat))
            yield drawn
            text = io.StringIO()
            figure.savefig(
                text, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
            )
        finally:
            plt.close(figure)
    # Without the XML prologue, which is invalid inside HTML.
    drawn.svg = text.getvalue()[text.getvalue().index("<svg") :]


def legend_above(axes: Any) -> None:
    """Place the legend above the plot."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)


def duration(seconds: float) -> str:
    """Format seconds with up to three significant digits: `850 µs`, `3.2 ms`, `1.45 s`; a dash for NaN."""
    if math.isnan(seconds):
        return "-"
    if seconds >= 1000:
        return f"{seconds:,.0f} s"
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        value = float(f"{seconds / factor:.3g}")  # rounded first: 999.9 ms are 1 s
        if value >= 1:
            return f"{value:g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
