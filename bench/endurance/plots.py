"""Plots of the newest long runs as SVG: throughput, latency, disk and memory over the hours."""

from __future__ import annotations

import json
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.endurance.parts import PARTS
from pgsluice.report.svg import DATABASE_COLOUR, LAKE_COLOUR, STYLE, legend_above, plots

WIDTH_IN, ROW_IN, MARGIN_IN = 11.0, 2.1, 1.2
SHADE = "#8b95a5"  # `bench.page` has its colour in a dark page
# Row → label of its axis, and the series to draw with their labels.
ROWS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("throughput", "messages a second", {"per_s": ""}),
    ("p99", "milliseconds", {"claim_p99_ms": "claim", "tick_p99_ms": "tick"}),
    ("disk", "MB", {"disk_mb": "all of the server", "wal_mb": "WAL"}),
    ("memory", "MB", {"memory_mb worker": "worker", "memory_mb maintain": "maintenance"}),
)


def newest(folder: Path) -> list[dict[str, Any]]:
    """Return the newest report of each part that has a series.

    Args:
        folder: Folder of the result files.
    """
    found = {}
    for path in sorted(folder.glob("*-endurance-*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        if report["series"].get("hours"):
            found[report["workload"]] = report
    return [found[name] for part in PARTS if (name := f"endurance-{part}") in found]


def page(reports: list[dict[str, Any]]) -> str:
    """Return the plots of some parts as SVG text: a column for each.

    Args:
        reports: Contents of the result files, at least one.
    """
    with plots(WIDTH_IN, [ROW_IN] * len(ROWS), len(reports), margin=MARGIN_IN) as drawn:
        for place, axes in enumerate(drawn.axes):
            row, label, names = ROWS[place // len(reports)]
            report = reports[place % len(reports)]
            draw(axes, report["series"], names)
            title = f"{report['title']}\n{row}" if place < len(reports) else row
            axes.set_title(
                title, loc="left", fontsize=10, weight="bold", pad=18 if len(names) > 1 else 6
            )
            axes.set_ylabel(label, fontsize=9)
        figure = drawn.axes[0].figure
        figure.suptitle("pgsluice in long runs", x=0.01, ha="left", fontsize=16, weight="bold")
        figure.supxlabel(footer(reports), x=0.01, ha="left", fontsize=9)
    return drawn.svg


def draw(axes: Any, series: dict[str, list[Any]], names: dict[str, str]) -> None:
    """Draw some series over the hours; shade the time under a held snapshot."""
    hours = series["hours"]
    for (begin, end), is_held in zip(pairwise(hours), series["held"][1:], strict=True):
        if is_held:
            axes.axvspan(begin, end, color=SHADE, alpha=0.25, linewidth=0)
    colours = (DATABASE_COLOUR, LAKE_COLOUR)
    for (name, label), colour in zip(names.items(), colours, strict=False):
        values = series.get(name, [])
        points = [
            (hour, value) for hour, value in zip(hours, values, strict=False) if value is not None
        ]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, label=label, linewidth=1.2)
    if len(names) > 1:
        legend_above(axes)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("hours", fontsize=9, color=STYLE["axes.labelcolor"])


def footer(reports: list[dict[str, Any]]) -> str:
    """Describe the runs."""
    machine = reports[0]["machine"]
    runs = "; ".join(
        f"{report['title']}: {report['done']:,} messages until {report['at'][:10]}"
        for report in reports
    )
    text = (
        f"{runs}. Shaded: one snapshot is held. In each slice the server is restarted after a crash. PostgreSQL "
        f"{reports[0]['server']['server_version']}, {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gb']:.0f} GB. python -m bench --workload endurance measures, python -m bench.page draws."
    )
    return "\n".join(textwrap.wrap(text, 150))
