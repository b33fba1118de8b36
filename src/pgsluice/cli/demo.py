"""`pgsluice demo`: run the whole system under load, and show the result."""

from __future__ import annotations

import json
import secrets
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from psycopg.conninfo import make_conninfo
from rich.table import Table

from pgsluice.cli.dashboard import require_dashboard
from pgsluice.cli.main import EXIT_DIFFERENCE, EXIT_INTERRUPTED
from pgsluice.cli.options import dsn_only_option, json_option
from pgsluice.cli.printing import Terminal, echo, echo_json
from pgsluice.cli.signals import mute_py4j, stop_on_signals
from pgsluice.cli.types import Duration
from pgsluice.connection import Target, resolve

if TYPE_CHECKING:
    from pgsluice.demo.result import Result

_WIDTH = 120


@click.command()
@click.option(
    "--duration",
    "seconds",
    type=Duration(min_s=1, is_whole=True),
    default="20s",
    show_default=True,
    help="Duration of the load.",
)
@click.option(
    "--clients",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Number of pgbench clients.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of the lake, checkpoint and report.html.  [default: demo in PGSLUICE_HOME]",
)
@click.option(
    "--dashboard",
    "is_served",
    is_flag=True,
    help="At the end serve a dashboard of the demo's database, with actions, until interrupted.",
)
@dsn_only_option
@json_option
def demo(
    seconds: int,
    clients: int,
    out: Path | None,
    dsn: str | None,
    *,
    is_served: bool,
    as_json: bool,
) -> None:
    """Run the whole system under load and verify every row.

    pgbench changes accounts. Each change is captured into an event log, and each transaction sends a message to a work
    queue. Workers process the messages, some with retries. Spark streams the changes into a lake and maintains the
    current state of the accounts there. At the end the archive is exported, and the lake is compared with the database:
    accounts, messages and events.

    Uses a database of its own, pgsluice_demo, on the server of --dsn. Replaces the database and files of a finished
    run; resumes an interrupted run. Exits with 1 if a difference was found.
    """
    if is_served:
        require_dashboard("--dashboard needs")
    # Imported here, so that `--help` does not need the optional dependencies.
    from pgsluice.demo.display import Display
    from pgsluice.demo.run import Options, run_demo

    mute_py4j()
    try:
        with Display() as display:
            result = run_demo(Options(seconds, clients, out, dsn), display)
    except KeyboardInterrupt:
        echo("interrupted: run the demo again to continue", err=True)
        sys.exit(EXIT_INTERRUPTED)
    if as_json:
        echo_json(result.as_json())
    else:
        _print(result)
    if is_served:
        _serve(dsn)
    elif not as_json:
        dsn_of_demo = shlex.quote(_target(dsn).safe)
        echo(f"Dashboard: pgsluice dashboard --allow-actions --dsn {dsn_of_demo}")
    if not result.reconciled:
        sys.exit(EXIT_DIFFERENCE)


def _target(dsn: str | None) -> Target:
    from pgsluice.demo.database import DATABASE

    target = resolve(dsn)
    return replace(target, conninfo=make_conninfo(target.conninfo, dbname=DATABASE))


def _serve(dsn: str | None) -> None:
    """Serve a dashboard of the demo's database until interrupted."""
    from pgsluice.dashboard import app
    from pgsluice.dashboard.serving import serving

    key = secrets.token_urlsafe(24)
    dashboard = app(_target(dsn), allow_actions=True, key=key, title="demo")
    with (
        stop_on_signals() as stop,
        serving(dashboard, "127.0.0.1", 0, "--dashboard", on_end=stop.set) as address,
    ):
        echo(f"Dashboard: {address}?key={key} (Ctrl-C ends it)", err=True)
        stop.wait()


def _print(result: Result) -> None:
    # A file or pipe has no width; 80 columns would wrap the tables.
    console = Terminal(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    console.print()
    console.print(_figures(result))
    console.print(_latencies(result))
    console.print(_checks(result))
    for check in result.checks:
        for row in check.sample if not check.holds else ():
            console.print(f"  {check.name}: {json.dumps(row)}", markup=False, soft_wrap=True)
    verdict = (
        "[bold green]Reconciled: no rows lost, none duplicated.[/]"
        if result.reconciled
        else "[bold red]Not reconciled: see the differences above.[/]"
    )
    console.print(verdict)
    console.print(f"Report: {result.report}", markup=False, soft_wrap=True)


def _figures(result: Result) -> Table:
    counts, rates = result.counts, result.rates_per_s
    table = Table("", "rows", "per second", title="Work done", title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    rows = (
        ("transactions", counts["transactions"], rates["transactions"]),
        ("messages sent", counts["messages_sent"], None),
        ("messages processed", counts["processed"], rates["processed"]),
        ("  after a retry", counts["retried"], None),
        ("dead letters", counts["dead"], None),
        ("events in the log", counts["events"], None),
        ("events in the lake", counts["lake_rows"], None),
        ("  changes by the load", counts["lake_updates"], rates["lake"]),
    )
    for name, count, rate in rows:
        table.add_row(name, f"{count:,}", "" if rate is None else f"{rate:,.0f}")
    return table


def _latencies(result: Result) -> Table:
    from pgsluice.demo.plots import duration

    table = Table("", "p50", "p95", "p99", "max", title="Latency", title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for latency in result.latencies:
        figures = (latency.p50_s, latency.p95_s, latency.p99_s, latency.max_s)
        table.add_row(latency.name, *map(duration, figures))
    return table


def _checks(result: Result) -> Table:
    table = Table("", "check", "expected", "found", "different")
    table.title, table.title_justify = "Reconciliation", "left"
    for column in table.columns[2:]:
        column.justify = "right"
    for check in result.checks:
        mark = "[green]✓[/]" if check.holds else "[red]✗[/]"
        numbers = (check.expected, check.found, check.differing)
        table.add_row(mark, check.statement, *(f"{number:,}" for number in numbers))
    return table
