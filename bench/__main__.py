"""Run workloads on all systems, interleaved, and write the results: `python -m bench`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import statistics
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.goal import PEER, Goal
from bench.place import Place
from bench.systems import System, systems
from bench.workloads import (
    client,
    dashboard,
    groups,
    held_snapshot,
    log_consume,
    log_held,
    log_latency,
    log_produce,
    metrics,
    notify,
    operations_cost,
    read_invisible,
    send_read,
    share_backlog,
    share_claim,
    share_held,
    share_latency,
    share_send,
    share_wal,
    spark_batch,
    spark_changes,
    spark_current,
    spark_latency,
    spark_memory,
    spark_sink,
    spark_stream,
    worker_latency,
    worker_noop,
)
from pgsluice.embedded import EmbeddedServer
from pgsluice.errors import ConfigurationError, SluiceError

RESULTS = Path(__file__).parent / "results"
WORKLOADS = {
    "send_read": send_read,
    "read_invisible": read_invisible,
    "groups": groups,
    "metrics": metrics,
    "notify": notify,
    "client": client,
    "dashboard": dashboard,
    "held_snapshot": held_snapshot,
    "log_produce": log_produce,
    "log_consume": log_consume,
    "log_latency": log_latency,
    "log_held": log_held,
    "share_claim": share_claim,
    "share_send": share_send,
    "share_latency": share_latency,
    "share_backlog": share_backlog,
    "share_wal": share_wal,
    "share_held": share_held,
    "spark_batch": spark_batch,
    "spark_stream": spark_stream,
    "spark_changes": spark_changes,
    "spark_current": spark_current,
    "spark_latency": spark_latency,
    "spark_memory": spark_memory,
    "spark_sink": spark_sink,
    "worker_noop": worker_noop,
    "worker_latency": worker_latency,
    "operations_cost": operations_cost,
}
SETTINGS = ("server_version", "synchronous_commit", "fsync", "shared_buffers", "wal_level")

Rates = dict[
    str, dict[str, list[float]]
]  # question → system → messages a second, one per repetition


def main() -> int:
    """Run the benchmark command."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--workload",
        choices=[*WORKLOADS, "share", "spark", "worker", "all"],
        default="send_read",
        help="workload to run (default: send_read); share: all for share groups; spark: all for pipelines; "
        "worker: all for workers; all: every workload, about three hours",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        help="measurements per question (default: 5, or 1 if each takes minutes)",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="set a size of a workload: "
        + ", ".join(
            f"{option}={number:,} ({name})"
            for name, workload in WORKLOADS.items()
            for option, number in getattr(workload, "OPTIONS", {}).items()
        ),
    )
    parser.add_argument(
        "--synchronous-commit",
        choices=["on", "off"],
        default="on",
        help="on: each commit waits for the disk, as by default; off: measure only the functions",
    )
    parser.add_argument(
        "--question",
        default="",
        metavar="TEXT",
        help="measure only questions whose name has this text",
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    arguments = parser.parse_args()
    console = Console()
    try:
        set_options(arguments.option)
        reports = []
        for workload in chosen(arguments.workload):
            repeats = arguments.repeats or getattr(WORKLOADS[workload], "REPEATS", 5)
            contestants = getattr(WORKLOADS[workload], "SYSTEMS", None) or systems()
            report = run(
                contestants, workload, repeats, arguments.synchronous_commit, arguments.question
            )
            console.print(table(report))
            console.print(f"wrote {write(report, arguments.out)}")
            reports.append(report)
        if len(reports) > 1:
            console.print(goals_table(reports))
    except SluiceError as error:
        console.print(f"bench: {error}", markup=False)
        return 3
    return 0


def chosen(name: str) -> list[str]:
    """Return the workloads that a name selects."""
    if name == "all":
        return list(WORKLOADS)
    return [
        workload for workload in WORKLOADS if workload == name or workload.startswith(f"{name}_")
    ]


def set_options(given: list[str]) -> None:
    """Set sizes of workloads, given as NAME=NUMBER.

    Raises:
        ConfigurationError: No workload has such an option, or the value is not a positive number.
    """
    for text in given:
        option, _, number = text.partition("=")
        having = [w.OPTIONS for w in WORKLOADS.values() if option in getattr(w, "OPTIONS", {})]
        if not having or not number.isdecimal() or int(number) == 0:
            raise ConfigurationError(
                f"invalid size {text!r}; use NAME=NUMBER with an option from --help and a number above 0"
            )
        for options in having:
            options[option] = int(number)


def run(
    contestants: list[System],
    workload: str,
    repeats: int,
    synchronous_commit: str,
    having: str = "",
) -> dict[str, Any]:
    """Measure every question on every system, interleaved.

    Args:
        contestants: Systems, ours first.
        workload: A key of `WORKLOADS`.
        repeats: Measurements per question after one warm-up; 1 or more.
        synchronous_commit: Setting of the server.
        having: Text in the names of the questions to measure.

    Returns:
        Contents of the result file.
    """
    load_before = os.getloadavg()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pgsluice-bench-")))
        folder.chmod(0o755)  # as root, the server runs as another user, which needs access
        server = EmbeddedServer(
            folder / "data",
            options={"synchronous_commit": synchronous_commit},
            bin_dir=getattr(WORKLOADS[workload], "BIN_DIR", None),
            tcp=getattr(WORKLOADS[workload], "TCP", False),
        )
        server.start()
        stack.callback(server.stop, "immediate")
        places = {}
        for number, system in enumerate(contestants):
            with psycopg.connect(server.url(), autocommit=True) as connection:
                connection.execute(f"create database bench_{number}")
            connection = psycopg.connect(server.url(f"bench_{number}"), autocommit=True)
            places[system.name] = Place(system.name, stack.enter_context(connection), server)
            system.install(connection)
        rates = measured(places, WORKLOADS[workload], repeats, having)
        shown = connection.execute(
            "select name, current_setting(name) from pg_settings where name = any (%s)",
            [list(SETTINGS)],
        ).fetchall()
    return {
        "workload": workload,
        "command": shlex.join([Path(sys.executable).name, "-m", "bench", *sys.argv[1:]]),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {**machine(), "load_before": load_before, "load_after": os.getloadavg()},
        "versions": {
            **{system.name: system.version() for system in contestants},
            "psycopg": version("psycopg"),
            "python": platform.python_version(),
        },
        "server": dict(shown),
        "options": dict(getattr(WORKLOADS[workload], "OPTIONS", {})),
        "unit": WORKLOADS[workload].UNIT,
        "notes": list(getattr(WORKLOADS[workload], "NOTES", [])),
        "results": with_goals(
            [summary(name, by_system) for name, by_system in rates.items()],
            WORKLOADS[workload].GOALS,
        ),
    }


def measured(places: dict[str, Place], workload: Any, repeats: int, having: str = "") -> Rates:
    """Measure interleaved, and rotate the first system, so that drift affects all systems."""
    names = list(places)
    questions = [question for question in workload.QUESTIONS if having in question.name]
    if not questions:
        raise ConfigurationError(
            f"no question has {having!r} in its name; choose from: "
            + "; ".join(question.name for question in workload.QUESTIONS)
        )
    rates: Rates = {question.name: {name: [] for name in names} for question in questions}
    warm_ups = int(getattr(workload, "WARM_UP", True))
    for repetition in track(range(repeats + warm_ups), "measuring"):
        for question in questions:
            if repetition > warm_ups and getattr(question, "is_once", False):
                continue
            first = repetition % len(names)
            for name in names[first:] + names[:first]:
                rate = workload.measure(places[name], question)
                if repetition >= warm_ups:  # the first only warms up caches and plans
                    rates[question.name][name].append(rate)
    return rates


def summary(question: str, by_system: dict[str, list[float]]) -> dict[str, Any]:
    """Return medians, all measurements, and the ratios of our rate to the peers'."""
    medians = {name: statistics.median(rates) for name, rates in by_system.items()}
    ours, *peers = medians
    return {
        "question": question,
        "median": {name: round(median, 3) for name, median in medians.items()},
        "all": {name: [round(rate, 3) for rate in rates] for name, rates in by_system.items()},
        "ratio": {peer: round(medians[ours] / medians[peer], 3) for peer in peers},
    }


def with_goals(results: list[dict[str, Any]], goals: dict[str, Goal]) -> list[dict[str, Any]]:
    """Add goals to the results, and whether they were reached."""
    medians = {result["question"]: result["median"] for result in results}
    for result in results:
        goal = goals.get(result["question"])
        if goal is not None and goal.of in (None, PEER, *medians):
            reached = goal.reached(result["question"], medians)
            result["goal"] = str(goal)
            result["to_goal"] = round(goal.ratio(result["question"], medians), 3)
            result["reached"] = reached or f"missed: {goal.why_missed or 'no reason known'}"
    return results


def machine() -> dict[str, Any]:
    """Describe the machine."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        model = next(
            (s.partition(":")[2].strip() for s in lines if s.startswith("model name")), model
        )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
    }


def table(report: dict[str, Any]) -> Table:
    """Format the results as a table."""
    names = list(report["results"][0]["median"])
    peers = names[1:]
    commit = report["server"]["synchronous_commit"]
    shown = Table(
        title=f"{WORKLOADS[report['workload']].TITLE}, synchronous_commit {commit}",
        title_justify="left",
    )
    shown.add_column("median (range)", min_width=18)
    for name in names:
        shown.add_column(f"{name} {report['versions'][name]}", justify="right", min_width=8)
    for peer in peers:
        shown.add_column(f"to {peer}", justify="right", style="bold", min_width=7)
    for result in report["results"]:
        cells = [
            f"{rounded(result['median'][name])}\n[dim]{rounded(min(rates))} to {rounded(max(rates))}"
            for name, rates in result["all"].items()
        ]
        ratios = (f"{result['ratio'][peer]:.2f}" for peer in peers)
        question = result["question"]
        if "goal" in result:
            reached = "reached" if result["reached"] is True else result["reached"]
            question += f"\n[dim]goal {result['goal']}: {reached}"
        shown.add_row(question, *cells, *ratios)
    return shown


def rounded(rate: float) -> str:
    """Format a rate without decimals, or with two below 10."""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2f}"


def goals_table(reports: list[dict[str, Any]]) -> Table:
    """Format the goals of several workloads as a table."""
    shown = Table(title="Goals", title_justify="left")
    shown.add_column("question")
    shown.add_column("measured", justify="right", style="bold")
    shown.add_column("goal")
    shown.add_column("")
    for report in reports:
        for result in report["results"]:
            if "goal" in result:
                shown.add_row(
                    f"{report['workload']}: {result['question']}",
                    f"{result['to_goal']:,.2f}",
                    result["goal"],
                    "reached" if result["reached"] is True else f"[red]{result['reached']}",
                )
    return shown


def write(report: dict[str, Any], folder: Path) -> Path:
    """Write the results to `<date>-<workload>.json`, one file per setting of synchronous_commit."""
    folder.mkdir(parents=True, exist_ok=True)
    suffix = "" if report["server"]["synchronous_commit"] == "on" else "-async"
    path = folder / f"{report['at'][:10]}-{report['workload']}{suffix}.json"
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main())
