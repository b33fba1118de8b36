"""Draw the newest results of the questions with goals of speed beside every peer, and of long runs.

`python -m bench.page`
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.__main__ import RESULTS, WORKLOADS
from bench.endurance import plots as plots_of_runs
from bench.goal import MILLISECONDS
from bench.goals import ROWS, Line, compared_with
from pgsluice.report.svg import DATABASE_COLOUR, LAKE_COLOUR, STYLE, plots

PAGE = Path(__file__).parents[1] / "docs" / "images" / "speed.svg"
ENDURANCE = PAGE.with_name("endurance.svg")
PEER_COLOUR = "#8b95a5"
INK = STYLE["text.color"]
COLUMNS = 2
WIDTH_IN, BAR_IN, FRAME_IN, MARGIN_IN = 11.0, 0.2, 0.75, 1.8
COLOURS = {
    "work queue": DATABASE_COLOUR,
    "pgsluice": DATABASE_COLOUR,
    "functions": DATABASE_COLOUR,
    "share group": LAKE_COLOUR,
}
NAMES = {
    "functions": "pgsluice",
    "work queue": "pgsluice, work queue",
    "share group": "pgsluice, share group",
}
UNITS = {"worker_noop": "messages a second"}
NO_SYSTEMS = ("psycopg", "python", "plain SQL", "plain SQL, no group")
# The colour of the plots in a light page → a name, and the colour in a dark page.
COLOUR_SCHEMES = {
    INK: ("ink", "#e2e8f0"),
    STYLE["axes.labelcolor"]: ("label", "#cbd5e1"),
    STYLE["xtick.color"]: ("tick", "#a8b3c2"),
    STYLE["grid.color"]: ("grid", "#334155"),
    STYLE["axes.edgecolor"]: ("edge", "#64748b"),
    DATABASE_COLOUR: ("first", "#6ea8d8"),
    LAKE_COLOUR: ("second", "#4cc3b3"),
    PEER_COLOUR: ("peer", "#7b8798"),
    "#ffffff": ("paper", "#0f172a"),
}
ABSENT = (
    "Not compared: PgQue, River and Oban for Python. None of them has a worker that can be installed from PyPI, npm "
    "or Debian (2026-11-24); riverqueue on PyPI only inserts jobs."
)


@dataclass(frozen=True)
class Measured:
    """The newest result of a question, and the report that contains it."""

    row: str
    line: Line
    result: dict[str, Any]
    report: dict[str, Any]

    @property
    def is_latency(self) -> bool:
        """True if its rates are inverse latencies in seconds."""
        goal = WORKLOADS[self.line.workload].GOALS.get(self.line.question)
        return goal is not None and goal.unit == MILLISECONDS

    @property
    def unit(self) -> str:
        """Label of its axis."""
        if self.is_latency:
            return "ms, less is better"
        return UNITS.get(self.line.workload) or str(self.report["unit"]).partition(",")[0]

    def bar(self, system: str) -> tuple[float, float, float]:
        """Return median, minimum and maximum of a system."""
        rates = self.result["all"][system]
        found = (self.result["median"][system], min(rates), max(rates))
        if self.is_latency:
            median, least, most = (1000 / rate for rate in found)
            return median, most, least
        return found


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--out", type=Path, default=PAGE, help="file to write")
    parser.add_argument(
        "--endurance",
        type=Path,
        default=ENDURANCE,
        help="file to write with the newest long runs, if there are any",
    )
    arguments = parser.parse_args()
    arguments.out.write_text(page(arguments.results), encoding="utf-8")
    print(f"wrote {arguments.out}")
    if reports := plots_of_runs.newest(arguments.results):
        drawn = with_dark_mode(plots_of_runs.page(reports))
        arguments.endurance.write_text(drawn, encoding="utf-8")
        print(f"wrote {arguments.endurance}")
    return 0


def page(folder: Path) -> str:
    """Return the page as SVG text.

    Args:
        folder: Folder of the result files.
    """
    panels = panels_of(newest(folder))
    rows = [panels[first : first + COLUMNS] for first in range(0, len(panels), COLUMNS)]
    most = [max(len(bars(panel)) for panel in row) for row in rows]
    heights = [FRAME_IN + BAR_IN * lines for lines in most]
    with plots(WIDTH_IN, heights, COLUMNS, margin=MARGIN_IN) as drawn:
        for place, (axes, panel) in enumerate(zip(drawn.axes, panels, strict=False)):
            draw(axes, panel, most[place // COLUMNS])
        for axes in drawn.axes[len(panels) :]:
            axes.set_visible(False)
        figure = drawn.axes[0].figure
        figure.suptitle("pgsluice and its peers", x=0.01, ha="left", fontsize=16, weight="bold")
        figure.supxlabel(footer(panels), x=0.01, ha="left", fontsize=9)
    return with_dark_mode(drawn.svg)


def newest(folder: Path) -> dict[tuple[str, str, str], tuple[dict[str, Any], dict[str, Any]]]:
    """Return the newest report and result of each question, by workload, synchronous_commit and name."""
    contents = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    reports = [report for content in contents for report in content.get("reports", [content])]
    return {
        (report["workload"], report["server"]["synchronous_commit"], result["question"]): (
            report,
            result,
        )
        for report in sorted(reports, key=lambda report: str(report["at"]))
        for result in report["results"]
    }


def panels_of(
    found: dict[tuple[str, str, str], tuple[dict[str, Any], dict[str, Any]]],
) -> list[list[Measured]]:
    """Return the measured questions of the table of goals, those of a call together, small panels first.

    Questions to which a goal is relative are drawn too. A measurement that answers several questions is shown once.
    """
    panels: dict[tuple[str, str], list[Measured]] = {}
    shown: list[Any] = []
    for row, lines in ROWS.items():
        for line in lines:
            other = compared_with(WORKLOADS[line.workload], line.question)
            for each in (line._replace(question=other, setting=other), line)[
                other == line.question :
            ]:
                key = (line.workload, line.synchronous_commit, each.question)
                if key in found and (rates := found[key][1]["all"]) not in shown:
                    shown.append(rates)
                    report, result = found[key]
                    panels.setdefault((row, line.call), []).append(
                        Measured(row.partition(",")[0], each, result, report)
                    )
    return sorted(panels.values(), key=lambda panel: len(bars(panel)))


def bars(panel: list[Measured]) -> list[tuple[str, Measured | None, str]]:
    """Return the lines of a panel from top to bottom: label, and the result and system to draw, if any."""
    found: list[tuple[str, Measured | None, str]] = []
    for each in panel:
        if len(panel) > 1 or each.line.setting == each.line.question:
            found.append((each.line.setting, None, ""))
        found += [(NAMES.get(system, system), each, system) for system in each.result["all"]]
    return found


def draw(axes: Any, panel: list[Measured], height: int) -> None:
    """Draw the medians as bars, and the ranges as whiskers, in a panel of a height in lines."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    lines = bars(panel)
    for place, (label, each, system) in enumerate(lines):
        if each is None:
            axes.annotate(
                label, (0, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=9.5, weight="bold",
            )  # fmt: skip
            continue
        median, least, most = each.bar(system)
        axes.barh(place, median, height=0.72, color=COLOURS.get(system, PEER_COLOUR))
        axes.plot([least, most], [place, place], color=INK, linewidth=1.2, marker="|", markersize=5)
        axes.annotate(
            number(median), (max(median, most), place), xytext=(6, 0), textcoords="offset points",
            va="center", fontsize=9,
        )  # fmt: skip
    axes.set_yticks(range(len(lines)), [label if each else "" for label, each, _ in lines])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(height - 0.4, -0.6)
    axes.set_xlim(0, 1.22 * max(each.bar(system)[2] for _, each, system in lines if each))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    first = panel[0]
    axes.set_title(f"{first.row}: {first.line.call}", loc="left", fontsize=10, weight="bold")
    axes.set_xlabel(f"{first.unit}; {first.report['at'][:10]}", loc="left", fontsize=9)


def number(value: float) -> str:
    """Format a number of an axis or a bar."""
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.3g}"


def footer(panels: list[list[Measured]]) -> str:
    """Describe bars, machines and versions, and name the peers that are absent."""
    reports = [each.report for panel in panels for each in panel]
    machines = dict.fromkeys(
        f"{report['machine']['processor']}, {report['machine']['cores']} cores, "
        f"{report['machine']['memory_gb']:.0f} GB, {report['machine']['system']}"
        for report in reports
    )
    servers = sorted({report["server"]["server_version"] for report in reports}, reverse=True)
    versions = {
        f"{system} {version}"
        for report in reports
        for system, version in report["versions"].items()
        if system not in (*COLOURS, *NO_SYSTEMS)
    }
    paragraphs = (
        "Bars are medians, whiskers the lowest and the highest round; systems alternate in one server. on, off: "
        "synchronous_commit. Measured on the day named below each plot: " + "; ".join(machines) + "; PostgreSQL "
        + " and ".join(servers) + "; " + ", ".join(sorted(versions)) + ".",
        ABSENT,
        "make bench ARGS='--workload goals' measures, python -m bench.page draws.",
    )  # fmt: skip
    return "\n".join("\n".join(textwrap.wrap(each, 150)) for each in paragraphs)


def with_dark_mode(svg: str) -> str:
    """Replace the colours by variables, whose values depend on the reader's colour scheme."""
    light = " ".join(f"--{name}: {colour};" for colour, (name, _) in COLOUR_SCHEMES.items())
    dark = " ".join(f"--{name}: {colour};" for name, colour in COLOUR_SCHEMES.values())
    for colour, (name, _) in COLOUR_SCHEMES.items():
        svg = svg.replace(colour, f"var(--{name})")
    style = (
        f"<style>:root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}</style>"
        '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
    )
    start, end, rest = svg.partition(">")
    return f"{start}{end}{style}{rest}"


if __name__ == "__main__":
    sys.exit(main())
