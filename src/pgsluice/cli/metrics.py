"""`pgsluice metrics`: the state of the database for Prometheus, a dashboard and alert rules."""

from __future__ import annotations

from importlib import resources
from typing import Any

import click

from pgsluice.cli.options import dsn_or_shards_option
from pgsluice.cli.printing import echo, echo_lines, echo_metrics
from pgsluice.cli.signals import stop_on_signals
from pgsluice.cli.types import Duration
from pgsluice.connection import resolve
from pgsluice.extras import require_packages
from pgsluice.shards import Shards

_FILES = {"grafana": "grafana.json", "alerts": "alerts.yml", "alerts-sql": "alerts.sql"}


@click.command(short_help="Print or serve the metrics of the database.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Serve the metrics at this port until interrupted.  [default: print them once]",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address of --port; 0.0.0.0 for scrapes from other hosts.",
)
@click.option(
    "--cache",
    "cache_s",
    type=Duration(),
    default="10s",
    show_default=True,
    help="Minimum time between two readings of the database, however often it is scraped.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=Duration(min_s=0.001),
    default="5s",
    show_default=True,
    help="Timeout of each statement.",
)
@click.option(
    "--max-series",
    "series_max",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="Maximum number of queues, and likewise of logs, consumers, share groups, schedules and pipelines; "
    "pgsluice_omitted has the number of others.",
)
@click.option(
    "--print",
    "what",
    type=click.Choice(list(_FILES)),
    help="Print a dashboard for Grafana, alert rules for Prometheus, or alerts as SQL queries, and exit without "
    "connecting.",
)
@dsn_or_shards_option
def metrics(
    port: int | None,
    host: str,
    what: str | None,
    dsn: str | None,
    shards: Shards | None,
    **options: Any,
) -> None:
    """Print or serve the metrics of queues, logs, share groups, schedules and pipelines, in the format of Prometheus.

    Needs the package prometheus_client (`pip install 'pgsluice[metrics]'`) and a role with sluice_monitor. Scrape one
    process per database; `pgsluice maintain --metrics-port` serves the same. Metrics of workers are at /metrics of
    their health port. With --shards and without --shard the metrics of all shards have the label shard.
    """
    if what is not None:
        file = resources.files("pgsluice").joinpath("ops", "metrics", _FILES[what])
        echo_lines(file.read_text(encoding="utf-8"), nl=False)
        return
    require_packages("metrics need", ["prometheus_client"], "metrics")
    from prometheus_client.registry import Collector

    from pgsluice.ops.metrics.collector import DatabaseCollector, ShardsCollector
    from pgsluice.ops.metrics.endpoint import serving, text_of

    collector: Collector
    if shards is None:
        collector = DatabaseCollector(resolve(dsn), **options)
    else:
        targets = {name: resolve(shards.dsn(name)) for name in shards.names}
        collector = ShardsCollector(
            {name: DatabaseCollector(target, **options) for name, target in targets.items()}
        )
    if port is None:
        echo_metrics(text_of(collector))
        return
    with stop_on_signals() as stop, serving(collector, host, port, "--port") as bound:
        echo(f"serving http://{host}:{bound}/metrics", err=True)
        stop.wait()
