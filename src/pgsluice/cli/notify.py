"""`pgsluice notify`: wake the listeners of work queues."""

from __future__ import annotations

import click

from pgsluice.cli.clients import one_connection
from pgsluice.cli.options import dsn_option
from pgsluice.cli.signals import stop_on_signals
from pgsluice.connection import connect, for_writing, resolve
from pgsluice.worker import Notifier


@click.command(short_help="Wake the listeners of work queues.")
@click.option(
    "--poll-interval-ms",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How often to look while nothing new comes: so long, at most, a message waits for its announcement.",
)
@click.option(
    "--heartbeat-s",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="How often to give a sign of life, seconds; not more than the listeners' heartbeat_s.",
)
@dsn_option
def notify(poll_interval_ms: int, heartbeat_s: float, dsn: str | None) -> None:
    """Wake the listeners of all work queues of a database when there is something new to read.

    Runs until it is interrupted. Run it twice: one leads, the other takes over when that one stops.
    Who listens while none runs polls.
    """
    target = for_writing(resolve(dsn))
    connect(target).close()  # fails at once, and says where, when there is nobody to connect to
    with (
        stop_on_signals() as stop,
        one_connection(target) as pool,
    ):
        Notifier(pool, poll_interval_s=poll_interval_ms / 1000, heartbeat_s=heartbeat_s).run(stop)
