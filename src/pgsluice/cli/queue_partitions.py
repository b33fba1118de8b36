"""Partitions from the shell: `pgsluice queue partitions`, and the options of `queue create`."""

from __future__ import annotations

import click

from pgsluice.cli.clients import work_queue
from pgsluice.cli.options import combined, dsn_option, json_option, name_argument
from pgsluice.cli.output import show
from pgsluice.client import WorkQueue

partition_options = combined(
    click.option("--partitioned", is_flag=True, help="Create it in partitions."),
    click.option(
        "--interval",
        metavar="TEXT",
        help="What a partition takes: a number of messages, or a time as '1 day'. Default: 10000.",
    ),
    click.option(
        "--retention",
        metavar="TEXT",
        help="How far behind partitions are dropped, as --interval, or none. Default: 100000.",
    ),
    click.option(
        "--premake", type=click.IntRange(min=1), help="How many stand ready ahead. Default: 4."
    ),
)


def create_queue(
    work: WorkQueue,
    queue_name: str,
    partitioned: bool,
    interval: str | None,
    retention: str | None,
    premake: int | None,
) -> None:
    """Create a queue as the options say."""
    if partitioned:
        work.create_partitioned(
            queue_name,
            interval or "10000",
            None if retention == "none" else retention or "100000",
            premake or 4,
        )
        return
    if interval or retention or premake:
        raise click.UsageError("--interval, --retention and --premake go with --partitioned")
    work.create(queue_name)


@click.command()
@name_argument
@json_option
@dsn_option
def partitions(queue_name: str, as_json: bool, dsn: str | None) -> None:
    """Show the partitions of a queue and of its archive, in order; none when it has none."""
    with work_queue(dsn, queue_name) as work:
        show(work.list_partitions(queue_name), as_json, empty="no partitions")
