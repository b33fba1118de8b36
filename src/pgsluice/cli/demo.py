"""`pgsluice demo`: run the whole system on real work, and show the result."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from pgsluice.cli.options import dsn_option, json_option

if TYPE_CHECKING:
    from pgsluice.demo.result import Result

_EXIT_DIFFERENCE = 1
_WIDTH = 120
_EXIT_INTERRUPTED = 130  # as a shell has it: 128 + SIGINT


@click.command()
@click.option(
    "--seconds",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How long the load lasts.",
)
@click.option(
    "--clients",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Sessions of the load.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where lake, checkpoint and report.html go. Default: the folder demo in PGSLUICE_HOME.",
)
@dsn_option
@json_option
def demo(seconds: int, clients: int, out: Path | None, dsn: str | None, *, as_json: bool) -> None:
    """Run the whole system on real work and check every row.

    pgbench changes accounts; each change is captured into an event log, and each transaction sends a
    message to a work queue. Workers process the messages, some of which fail and are retried, and
    Spark streams the changes into a lake, where it keeps the accounts as they are now. In the end the
    archive follows, and the lake is compared with the database row by row: the accounts, every message
    and every event.

    It works in a database of its own, pgsluice_demo, which it drops and creates. Killed and started
    again, it goes on. Exit status 1: a difference was found, and is shown.
    """
    # Here, so that `--help` needs none of it.
    from pgsluice.demo.display import Display
    from pgsluice.demo.run import Options, run_demo

    try:
        with Display() as display:
            result = run_demo(Options(seconds, clients, out, dsn), display)
    except KeyboardInterrupt:
        click.echo("pgsluice: interrupted; start the demo again to go on", err=True)
        sys.exit(_EXIT_INTERRUPTED)
    if as_json:
        click.echo(json.dumps(result.as_json()))
    else:
        _print(result)
    if not result.reconciled:
        sys.exit(_EXIT_DIFFERENCE)


def _print(result: Result) -> None:
    # In a file or a pipe there is no width to fit; 80 columns would break each line of the tables in two.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    console.print()
    console.print(_figures(result))
    console.print(_latencies(result))
    console.print(_checks(result))
    for check in result.checks:
        for row in check.sample if not check.holds else ():
            console.print(f"  {check.name}: {json.dumps(row)}", markup=False, soft_wrap=True)
    verdict = (
        "[bold green]Reconciled: nothing lost, nothing doubled.[/]"
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
        ("  of them after a retry", counts["retried"], None),
        ("dead letters", counts["dead"], None),
        ("events in the log", counts["events"], None),
        ("events in the lake", counts["lake_rows"], None),
        ("  of them changes by the load", counts["lake_updates"], rates["lake"]),
    )
    for name, count, rate in rows:
        table.add_row(name, f"{count:,}", "" if rate is None else f"{rate:,.0f}")
    return table


def _latencies(result: Result) -> Table:
    from pgsluice.demo.plots import duration

    table = Table("", "p50", "p95", "p99", "longest", title="Latency", title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for latency in result.latencies:
        figures = (latency.p50_s, latency.p95_s, latency.p99_s, latency.max_s)
        table.add_row(latency.name, *map(duration, figures))
    return table


def _checks(result: Result) -> Table:
    table = Table("", "what must hold", "expected", "found", "differing")
    table.title, table.title_justify = "Reconciliation", "left"
    for column in table.columns[2:]:
        column.justify = "right"
    for check in result.checks:
        mark = "[green]✓[/]" if check.holds else "[red]✗[/]"
        numbers = (check.expected, check.found, check.differing)
        table.add_row(mark, check.statement, *(f"{number:,}" for number in numbers))
    return table
