"""`pgsluice maintain`: ticks, rotation, retries, wake-ups, and the rest of what queues and logs need."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib import resources

import click

from pgsluice.cli.clients import one_connection
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import dsn_option, json_option
from pgsluice.cli.output import show
from pgsluice.cli.signals import stop_on_signals
from pgsluice.client import MaintenanceStep
from pgsluice.connection import Target, connect, for_writing, resolve
from pgsluice.worker import Maintainer, Maintenance, Pace, Ticker


@click.command(short_help="Tick logs, and keep queues and logs in order.")
@click.option(
    "--once", is_flag=True, help="Do all there is to do now, and end: for cron, every minute."
)
@click.option(
    "--print-cron",
    is_flag=True,
    help="Print the statements that let pg_cron do it in the server, and end. Connects to nothing.",
)
@click.option(
    "--tick-min-ms",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How often to look for new events while they arrive, milliseconds: so long, at most, one waits for its tick.",
)
@click.option(
    "--tick-max-ms",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="How often to look when none has arrived for long, milliseconds.",
)
@click.option(
    "--poll-interval-ms",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How often to look for new messages while none arrive, milliseconds: so long, at most, the listeners of a "
    "work queue wait for one.",
)
@click.option(
    "--period-s",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="How often to rotate logs and to do the rest, seconds: partitions, retention, deduplication keys, and the "
    "functions that logs name in queue_extra_maint.",
)
@json_option
@dsn_option
def maintain(
    once: bool,
    print_cron: bool,
    tick_min_ms: int,
    tick_max_ms: int,
    poll_interval_ms: int,
    period_s: float,
    as_json: bool,
    dsn: str | None,
) -> None:
    """Tick event logs, rotate them, let events come again, wake who waits for messages, make the next partitions, drop
    what is old.

    Runs until it is interrupted, also beside pgqd and pg_cron; prints what it did, ticks left out. Run it twice, or
    beside `pgsluice worker run`, which does the same: one leads, and another takes over within two seconds when that
    one ends. What is in use is left to a later round; what fails is logged and listed by `pgsluice status`, and stops
    nothing else. With --once, which wakes nobody, exit code 1 says that something failed or was given up, as it is in
    use or not ours.
    """
    if print_cron:
        click.echo(
            resources.files("pgsluice").joinpath("sql", "cron.sql").read_text(encoding="utf-8"),
            nl=False,
        )
        return
    if tick_min_ms > tick_max_ms:
        raise click.UsageError("--tick-min-ms is above --tick-max-ms")
    target = for_writing(resolve(dsn))
    connect(target).close()  # fails at once, and says where, when there is nobody to connect to
    if once:
        _maintain_once(target, as_json)
        return
    pace = Pace(
        tick_min_s=tick_min_ms / 1000,
        tick_max_s=tick_max_ms / 1000,
        period_s=period_s,
        poll_interval_s=poll_interval_ms / 1000,
    )
    with stop_on_signals() as stop:
        Maintainer(
            target.conninfo,
            pace=pace,
            report=lambda step: _say(step, as_json=as_json),
            works_pooled=True,
        ).run(stop)


def _maintain_once(target: Target, as_json: bool) -> None:
    done: list[MaintenanceStep] = []
    with one_connection(target) as pool:
        # First what comes again, so that this tick covers it.
        left = Maintenance(pool, report=done.append).run_once()
        done += (
            MaintenanceStep("tick", tick.queue_name, True, f"tick {tick.tick_id}")
            for tick in Ticker(pool).run_once()
        )
    show([*done, *left], as_json, empty="nothing to do")
    if left:
        sys.exit(EXIT_DIFFERENCE)


def _say(step: MaintenanceStep, *, as_json: bool) -> None:
    fields = asdict(step)
    if as_json:
        click.echo(json.dumps(fields, ensure_ascii=False))
    else:
        click.echo(
            " ".join(str(fields[name]) for name in ("task", "queue_name", "detail") if fields[name])
        )
