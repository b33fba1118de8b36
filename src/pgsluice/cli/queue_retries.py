"""`pgsluice queue retry-policy`: attempts and back-off of queues."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click

from pgsluice.cli.clients import work_queue
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import (
    dsn_option,
    json_lines_option,
    json_option,
    name_argument,
    optional_name_argument,
)
from pgsluice.cli.output import show
from pgsluice.cli.printing import echo
from pgsluice.cli.types import Duration
from pgsluice.client import QueueRetryPolicy
from pgsluice.errors import QueueNotFoundError


@click.group("retry-policy")
def retry_policy() -> None:
    """Manage the number of attempts and the back-off of a queue.

    The policy is stored in the database and applies to handlers that declare none (retry=).
    """


@retry_policy.command("set")
@name_argument
@click.option(
    "--max-attempts",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Failed attempts before a message is dead-lettered.",
)
@click.option(
    "--backoff",
    type=click.Choice(["constant", "linear", "exponential"]),
    default="exponential",
    show_default=True,
    help="Back-off before the next attempt: the base (constant), times the attempt (linear), or times the factor for"
    " each "
    "attempt (exponential).",
)
@click.option(
    "--backoff-factor",
    "factor",
    type=click.FloatRange(1),
    default=2.0,
    show_default=True,
    help="Multiplier of the exponential back-off.",
)
@click.option(
    "--backoff-base",
    "base_s",
    type=Duration(),
    default="1s",
    show_default=True,
    help="Back-off after the first attempt.",
)
@click.option(
    "--backoff-max",
    "max_s",
    type=Duration(),
    default="5m",
    show_default=True,
    help="Maximum back-off.",
)
@click.option(
    "--jitter/--no-jitter",
    default=True,
    show_default=True,
    help="Multiply each back-off by a random factor from 0.5 to 1.",
)
@json_lines_option
@dsn_option
def set_(
    queue_name: str,
    max_attempts: int,
    backoff: Any,
    factor: float,
    base_s: float,
    max_s: float,
    jitter: bool,
    dsn: str | None,
) -> None:
    """Replace the retry policy of a queue; applies from the next failure."""
    with work_queue(dsn, queue_name) as work:
        work.set_retry_policy(
            queue_name,
            max_attempts=max_attempts,
            backoff=backoff,
            backoff_base=timedelta(seconds=base_s),
            backoff_max=timedelta(seconds=max_s),
            backoff_jitter=jitter,
            backoff_factor=factor,
        )


@retry_policy.command()
@name_argument
@json_lines_option
@dsn_option
def drop(queue_name: str, dsn: str | None) -> None:
    """Drop the policy of a queue, so that the default applies. Exits with 1 if it has none."""
    with work_queue(dsn, queue_name) as work:
        if not work.drop_retry_policy(queue_name):
            echo(f"queue {queue_name!r} has no retry policy", err=True)
            sys.exit(EXIT_DIFFERENCE)


@retry_policy.command("list")
@optional_name_argument
@json_option
@dsn_option
def list_(queue_name: str | None, as_json: bool, dsn: str | None) -> None:
    """List the retry policy of one queue or all."""
    with work_queue(dsn, queue_name) as work:
        policies = [
            policy
            for policy in work.list_retry_policies()
            if queue_name is None or policy.queue_name.lower() == queue_name.lower()
        ]
    if queue_name is not None and not policies:
        raise QueueNotFoundError(f"queue {queue_name!r} does not exist")
    show(
        [_shown(policy) for policy in policies] if as_json else policies, as_json, empty="no queues"
    )


def _shown(policy: QueueRetryPolicy) -> dict[str, Any]:
    """Return the fields, with `_s` appended to the names of durations."""
    fields = asdict(policy)
    return {
        f"{name}_s" if isinstance(value, timedelta) else name: value
        for name, value in fields.items()
    }
