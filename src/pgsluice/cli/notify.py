"""`pgsluice notify`: notify the listeners of work queues."""

from __future__ import annotations

import click

from pgsluice.cli.clients import one_connection
from pgsluice.cli.options import dsn_option
from pgsluice.cli.signals import stop_on_signals
from pgsluice.cli.types import Duration
from pgsluice.connection import connect, for_writing, resolve
from pgsluice.worker import Notifier


@click.command(short_help="Notify the listeners of work queues.")
@click.option(
    "--poll-interval",
    "poll_interval_s",
    type=Duration(is_open=True),
    default="5ms",
    show_default=True,
    help="Time between two polls for new messages, which is the maximum delay of a notification.",
)
@click.option(
    "--heartbeat-interval",
    "heartbeat_s",
    type=Duration(is_open=True),
    default="5s",
    show_default=True,
    help="Time between two heartbeats, which show listeners that a notifier runs; at most their heartbeat_s, 5s by "
    "default.",
)
@dsn_option
def notify(poll_interval_s: float, heartbeat_s: float, dsn: str | None) -> None:
    """Notify listeners of work queues of new messages, where neither `maintain` nor `worker run` does.

    Runs until interrupted. For failover, run two processes: one leads, and the other takes over when it stops. While no
    notifier runs, listeners poll.
    """
    target = for_writing(resolve(dsn))
    connect(target).close()  # fail early if the server cannot be reached
    with (
        stop_on_signals() as stop,
        one_connection(target) as pool,
    ):
        Notifier(pool, poll_interval_s=poll_interval_s, heartbeat_s=heartbeat_s).run(stop)
