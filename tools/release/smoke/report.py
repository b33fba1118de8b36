"""Draw a plot of a report."""

from __future__ import annotations

from pgsluice.report.svg import plot

with plot(4, 3) as drawn:
    drawn.axes.plot([0, 1], [0, 1])
assert "<svg" in drawn.svg, drawn.svg[:200]
