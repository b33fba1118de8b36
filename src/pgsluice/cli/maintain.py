"""`pgsluice maintain`: ticks, rotation, retries, notifications, schedules, partitions and retention."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from importlib import resources

import click

from pgsluice.cli.clients import one_connection
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import dsn_option, json_option
from pgsluice.cli.output import show
from pgsluice.cli.printing import echo, echo_json, echo_lines
from pgsluice.cli.signals import stop_on_signals
from pgsluice.cli.types import Duration
from pgsluice.client import MaintenanceStep
from pgsluice.connection import Target, connect, for_writing, resolve
from pgsluice.errors import TRANSIENT, NotInstalledError
from pgsluice.extras import require_packages
from pgsluice.schema import installed_versions
from pgsluice.worker import Maintainer, Maintenance, Pace, Ticker
from pgsluice.worker.engine.connections.pooler import require_transactions_of


@click.command(short_help="Run maintenance of queues and logs.")
@click.option("--once", is_flag=True, help="Run once and exit; for cron, every minute.")
@click.option(
    "--print-cron",
    is_flag=True,
    help="Print the SQL that schedules maintenance with pg_cron, and exit without connecting.",
)
@click.option(
    "--tick-interval-min",
    "tick_min_s",
    type=Duration(min_s=0.001),
    default="10ms",
    show_default=True,
    help="Time between two polls of logs while events arrive: the maximum delay of a tick after its log's "
    "ticker_max_count or ticker_max_lag is reached.",
)
@click.option(
    "--tick-interval-max",
    "tick_max_s",
    type=Duration(min_s=0.001),
    default="1s",
    show_default=True,
    help="Time between two polls of idle logs.",
)
@click.option(
    "--poll-interval",
    "poll_interval_s",
    type=Duration(min_s=0.001),
    default="5ms",
    show_default=True,
    help="Time between two polls for new messages, which is the maximum delay of a notification.",
)
@click.option(
    "--interval",
    "period_s",
    type=Duration(is_open=True),
    default="10s",
    show_default=True,
    help="Time between two runs of the other tasks: rotation, partitions, retention, deduplication keys, samples, and "
    "the functions in queue_extra_maint of logs.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve the metrics of `pgsluice metrics` at this port.  [default: none]",
)
@click.option(
    "--metrics-host",
    default="127.0.0.1",
    show_default=True,
    help="Address of --metrics-port.",
)
@json_option
@dsn_option
def maintain(
    once: bool,
    print_cron: bool,
    tick_min_s: float,
    tick_max_s: float,
    poll_interval_s: float,
    period_s: float,
    metrics_port: int | None,
    metrics_host: str,
    as_json: bool,
    dsn: str | None,
) -> None:
    """Tick and rotate event logs, retry events, notify listeners, fire schedules, create partitions, and
    delete what is older than its retention.

    Runs until interrupted, also while the server is down, and prints each step except ticks; it is silent while there
    is nothing to do. pgqd and pg_cron may run at the same time. For failover, run two processes, or one in addition to
    `pgsluice worker run`: one leads, and another takes over within two seconds. Objects in use are skipped until a
    later run. Failures are logged, listed by `pgsluice status`, and do not stop other steps. With --once, events become
    readable only at each run, listeners are not notified, and the exit code is 1 if a step failed or was skipped.
    """
    if print_cron:
        echo_lines(
            resources.files("pgsluice").joinpath("sql", "cron.sql").read_text(encoding="utf-8"),
            nl=False,
        )
        return
    if tick_min_s > tick_max_s:
        raise click.UsageError("--tick-interval-min is greater than --tick-interval-max")
    target = for_writing(resolve(dsn))
    # The leader election waits for a server that is down.
    with nullcontext() if once else suppress(*TRANSIENT):
        _require_installed(target)
    if once:
        _maintain_once(target, as_json)
        return
    pace = Pace(
        tick_min_s=tick_min_s,
        tick_max_s=tick_max_s,
        period_s=period_s,
        poll_interval_s=poll_interval_s,
    )
    with stop_on_signals() as stop, _metrics_served(target, metrics_host, metrics_port):
        Maintainer(
            target.conninfo,
            pace=pace,
            report=lambda step: _print_step(step, as_json=as_json),
        ).run(stop)


def _require_installed(target: Target) -> None:
    with connect(target, autocommit=True) as connection:
        if not installed_versions(connection):
            raise NotInstalledError(
                "pgsluice is not installed in this database; install it with: pgsluice schema install"
            )


@contextmanager
def _metrics_served(target: Target, host: str, port: int | None) -> Iterator[None]:
    if port is None:
        yield
        return
    require_packages("metrics need", ["prometheus_client"], "metrics")
    from pgsluice.ops.metrics.collector import DatabaseCollector
    from pgsluice.ops.metrics.endpoint import serving

    with serving(DatabaseCollector(target), host, port, "--metrics-port") as bound:
        echo(f"metrics http://{host}:{bound}/metrics", err=True)
        yield


def _maintain_once(target: Target, as_json: bool) -> None:
    done: list[MaintenanceStep] = []
    with one_connection(target) as pool:
        require_transactions_of(pool)
        # Retries first, so that this tick includes them.
        left = Maintenance(pool, report=done.append).run_once()
        done += (
            MaintenanceStep("tick", tick.log_name, True, f"tick {tick.tick_id}")
            for tick in Ticker(pool).run_once()
        )
    show([*done, *left], as_json, empty="nothing to do")
    if left:
        sys.exit(EXIT_DIFFERENCE)


def _print_step(step: MaintenanceStep, *, as_json: bool) -> None:
    fields = asdict(step)
    if as_json:
        echo_json(fields)
    else:
        echo(
            " ".join(str(fields[name]) for name in ("task", "queue_name", "detail") if fields[name])
        )
