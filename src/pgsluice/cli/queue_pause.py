"""`pgsluice queue pause` and `resume`: stop and continue the claims of workers."""

from __future__ import annotations

import sys

import click

from pgsluice.cli.clients import work_queue
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import dsn_option, json_lines_option, name_argument
from pgsluice.cli.printing import echo
from pgsluice.client import PausedQueue, WorkQueue
from pgsluice.errors import NotInstalledError


def paused_queues(work: WorkQueue) -> dict[str, PausedQueue]:
    """Return the paused queues by name; none if an older release is installed."""
    try:
        return {paused.queue_name: paused for paused in work.list_paused_queues()}
    except NotInstalledError:
        return {}


@click.command()
@name_argument
@click.option("--reason", metavar="TEXT", help="Shown by `queue list` and `status`.")
@json_lines_option
@dsn_option
def pause(queue_name: str, reason: str | None, dsn: str | None) -> None:
    """Pause a queue until `queue resume`: workers finish what they have claimed, and claim no more.

    Producers are not affected, nor are `queue read` and PGMQ's functions. Exits with 1 if the queue is already paused;
    a reason then replaces the earlier one.
    """
    with work_queue(dsn, queue_name) as work:
        if not work.pause_queue(queue_name, reason=reason):
            echo(f"queue {queue_name!r} is already paused", err=True)
            sys.exit(EXIT_DIFFERENCE)


@click.command()
@name_argument
@json_lines_option
@dsn_option
def resume(queue_name: str, dsn: str | None) -> None:
    """Resume a paused queue; workers continue immediately. Exits with 1 if it is not paused."""
    with work_queue(dsn, queue_name) as work:
        if not work.resume_queue(queue_name):
            echo(f"queue {queue_name!r} is not paused", err=True)
            sys.exit(EXIT_DIFFERENCE)
