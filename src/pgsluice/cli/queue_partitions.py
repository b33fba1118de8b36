"""Partitions from the shell: `pgsluice queue partitions`, `pgsluice maintain`, and the options of `queue create`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import dsn_option, json_option
from pgsluice.cli.queue_shared import name_argument, show, work_queue
from pgsluice.client import MaintenanceStep, WorkQueue

Command = TypeVar("Command", bound=Callable[..., Any])
_ROUNDS_MAX = 1_000


def partition_options(command: Command) -> Command:
    """Give a command the options that describe partitions."""
    for option in (
        click.option(
            "--premake", type=click.IntRange(min=1), help="How many stand ready ahead. Default: 4."
        ),
        click.option(
            "--retention",
            metavar="TEXT",
            help="How far behind partitions are dropped, as --interval, or none. Default: 100000.",
        ),
        click.option(
            "--interval",
            metavar="TEXT",
            help="What a partition takes: a number of messages, or a time as '1 day'. Default: 10000.",
        ),
        click.option("--partitioned", is_flag=True, help="Create it in partitions."),
    ):
        command = option(command)
    return command


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


@click.command()
@click.option("--once", is_flag=True, help="Do one part of the work, and not all there is.")
@json_option
@dsn_option
def maintain(once: bool, as_json: bool, dsn: str | None) -> None:
    """Do the work that keeps queues in order: make the next partitions, drop the old ones.

    Call it every few seconds, by one process or by several. Waits for nobody longer than a fraction of a second. Exit
    code 1: something was given up, as it is in use or not ours; the next call tries it again.
    """
    done: list[MaintenanceStep] = []
    left: list[MaintenanceStep] = []
    with work_queue(dsn) as work:
        for _ in range(1 if once else _ROUNDS_MAX):
            steps = work.maintain()
            left = [step for step in steps if not step.done]
            done += [step for step in steps if step.done]
            if len(left) == len(steps):
                break
    show([*done, *left], as_json, empty="nothing to do")
    if left:
        sys.exit(EXIT_DIFFERENCE)
