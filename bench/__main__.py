"""Run workloads on all systems, interleaved, and write the results: `python -m bench`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import goals
from bench.endurance import parts, running
from bench.measuring import run
from bench.systems.pgq import Pgq
from bench.systems.pgque import Pgque
from bench.workloads import (
    client,
    constants,
    dashboard,
    groups,
    groups_first,
    held_snapshot,
    log_capture,
    log_consume,
    log_held,
    log_horizon,
    log_idle,
    log_latency,
    log_page,
    log_produce,
    metrics,
    notify,
    operations_cost,
    read_invisible,
    send_read,
    settle_one,
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
    spark_size,
    spark_stream,
    start_up,
    wide,
    worker_latency,
    worker_noop,
)
from pgsluice.errors import ConfigurationError, SluiceError

RESULTS = Path(__file__).parent / "results"
WORKLOADS = {
    "send_read": send_read,
    "settle_one": settle_one,
    "read_invisible": read_invisible,
    "groups": groups,
    "groups_first": groups_first,
    "metrics": metrics,
    "notify": notify,
    "client": client,
    "constants": constants,
    "dashboard": dashboard,
    "held_snapshot": held_snapshot,
    "log_produce": log_produce,
    "log_consume": log_consume,
    "log_capture": log_capture,
    "log_page": log_page,
    "log_latency": log_latency,
    "log_held": log_held,
    "log_horizon": log_horizon,
    "log_idle": log_idle,
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
    "spark_size": spark_size,
    "start_up": start_up,
    "worker_noop": worker_noop,
    "worker_latency": worker_latency,
    "operations_cost": operations_cost,
    "wide": wide,
}


def main() -> int:
    """Run the benchmark command."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--workload",
        choices=[*WORKLOADS, "share", "spark", "worker", "goals", "endurance", "all"],
        default="send_read",
        help="workload to run (default: send_read); share: all for share groups; spark: all for pipelines; "
        "worker: all for workers; goals: the questions with goals of speed, half an hour; "
        "endurance: one slice of an hour of a long run; all: every workload except endurance, hours",
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
            for name, workload in [*WORKLOADS.items(), ("endurance", parts)]
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
        help="measure only questions whose name has this text; for endurance: queue, archive or log",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("build/endurance"),
        help="for endurance: folder in which the run continues, with the data of its server (default: build/endurance)",
    )
    parser.add_argument(
        "--pgque",
        type=Path,
        metavar="FILE",
        help="measure PgQue too where PgQ is: sql/pgque.sql of a copy of its repository",
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    arguments = parser.parse_args()
    console = Console()
    try:
        if arguments.pgque is not None:
            add_pgque(Pgque(arguments.pgque))
        if arguments.workload == "goals":
            goals.set_sizes(WORKLOADS)
        set_options(arguments.option)
        reports = []
        if arguments.workload == "endurance":
            report = running.run(arguments.folder, arguments.question, console)
            console.print(f"wrote {write(report, arguments.out)}")
            return 0
        if arguments.workload == "goals":
            report = goals.measure(WORKLOADS, arguments.repeats or 5, arguments.question)
            Console(width=max(console.width, 120)).print(goals.table(report))
            console.print(f"wrote {write(report, arguments.out)}")
            return 0
        for workload in chosen(arguments.workload):
            report = run(
                workload,
                WORKLOADS[workload],
                arguments.repeats,
                arguments.synchronous_commit,
                lambda question: arguments.question in question,
                lambda report: write(report, arguments.out),
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


def add_pgque(peer: Pgque) -> None:
    """Add it to the workloads of PgQ, whose functions it has."""
    for workload in WORKLOADS.values():
        systems: list[Any] = getattr(workload, "SYSTEMS", [])
        if any(isinstance(system, Pgq) for system in systems):
            systems.append(peer)


def set_options(given: list[str]) -> None:
    """Set sizes of workloads, given as NAME=NUMBER.

    Raises:
        ConfigurationError: No workload has such an option, or the value is not a positive number.
    """
    for text in given:
        option, _, number = text.partition("=")
        having = [
            w.OPTIONS for w in [*WORKLOADS.values(), parts] if option in getattr(w, "OPTIONS", {})
        ]
        if not having or not number.isdecimal() or int(number) == 0:
            raise ConfigurationError(
                f"invalid size {text!r}; use NAME=NUMBER with an option from --help and a number above 0"
            )
        for options in having:
            options[option] = int(number)


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
                    result["shown"],
                    result["goal"],
                    "reached" if result["reached"] is True else f"[red]{result['reached']}",
                )
    return shown


def write(report: dict[str, Any], folder: Path) -> Path:
    """Write the results to `<date>-<workload>.json`, one file per setting of synchronous_commit."""
    folder.mkdir(parents=True, exist_ok=True)
    is_async = report.get("server", {}).get("synchronous_commit") == "off"
    suffix = "-async" if is_async else ""
    path = folder / f"{report['at'][:10]}-{report['workload']}{suffix}.json"
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main())
