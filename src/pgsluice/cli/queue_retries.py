"""`pgsluice queue retry-policy`: how often messages of a queue are tried, and when again."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click

from pgsluice.cli.clients import work_queue
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import dsn_option, json_lines_option, json_option, name_argument
from pgsluice.cli.output import show
from pgsluice.cli.parsing import FOR_EVER, duration
from pgsluice.client import QueueRetryPolicy
from pgsluice.errors import QueueNotFoundError


def _pause(text: str) -> timedelta:
    pause = duration(text)
    if not isinstance(pause, timedelta):
        raise click.BadParameter(f"{FOR_EVER} is no pause; write 1s, 15m, 12h or 30d")
    return pause


@click.group("retry-policy")
def retry_policy() -> None:
    """Say how often messages of a queue are tried, and how long the pauses are.

    The policy is in the database: all workers follow it that have none of their own.
    """


@retry_policy.command("set")
@name_argument
@click.option(
    "--max-attempts",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Attempts after which a message is a dead letter.",
)
@click.option(
    "--backoff",
    type=click.Choice(["constant", "linear", "exponential"]),
    default="exponential",
    show_default=True,
    help="How the pauses grow: not; by the first one each time; by the factor.",
)
@click.option(
    "--factor",
    type=click.FloatRange(1),
    default=2.0,
    show_default=True,
    help="By how much each pause is longer than the one before, with exponential backoff.",
)
@click.option(
    "--base",
    type=_pause,
    metavar="DURATION",
    default="1s",
    show_default=True,
    help="The pause after the first attempt.",
)
@click.option(
    "--max",
    "longest",
    type=_pause,
    metavar="DURATION",
    default="5m",
    show_default=True,
    help="The longest pause.",
)
@click.option(
    "--jitter/--no-jitter",
    default=True,
    show_default=True,
    help="Take each pause between half of it and all of it, at random.",
)
@json_lines_option
@dsn_option
def set_(
    queue_name: str,
    max_attempts: int,
    backoff: Any,
    factor: float,
    base: timedelta,
    longest: timedelta,
    jitter: bool,
    dsn: str | None,
) -> None:
    """Set the policy of a queue, all of it; it counts from the next failure on."""
    with work_queue(dsn, queue_name) as work:
        work.set_retry_policy(
            queue_name,
            max_attempts=max_attempts,
            backoff=backoff,
            backoff_base=base,
            backoff_max=longest,
            backoff_jitter=jitter,
            backoff_factor=factor,
        )


@retry_policy.command()
@name_argument
@json_lines_option
@dsn_option
def drop(queue_name: str, dsn: str | None) -> None:
    """Go back to the default policy; exits 1 when the queue has none of its own."""
    with work_queue(dsn, queue_name) as work:
        if not work.drop_retry_policy(queue_name):
            click.echo(f"queue {queue_name!r} has no retry policy of its own", err=True)
            sys.exit(EXIT_DIFFERENCE)


@retry_policy.command("list")
@click.argument("queue_name", metavar="[QUEUE]", required=False)
@json_option
@dsn_option
def list_(queue_name: str | None, as_json: bool, dsn: str | None) -> None:
    """Show the policy of one queue, or of all, by name."""
    with work_queue(dsn, queue_name) as work:
        policies = [
            policy
            for policy in work.list_retry_policies()
            if queue_name is None or policy.queue_name.lower() == queue_name.lower()
        ]
    if queue_name is not None and not policies:
        raise QueueNotFoundError(
            f"queue {queue_name!r} does not exist; create it with `pgsluice queue create {queue_name}`"
        )
    show(
        [_shown(policy) for policy in policies] if as_json else policies, as_json, empty="no queues"
    )


def _shown(policy: QueueRetryPolicy) -> dict[str, Any]:
    """With the unit in the names, where the values are numbers."""
    fields = asdict(policy)
    return {
        f"{name}_s" if isinstance(value, timedelta) else name: value
        for name, value in fields.items()
    }
