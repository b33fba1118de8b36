"""`pgsluice queue limits`, `blocked` and `unpark`: concurrency, rate limits, priorities and order of queues."""

from __future__ import annotations

import sys
from typing import Any

import click

from pgsluice.cli.clients import work_queue
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import FreeText, dsn_option, json_lines_option, json_option, name_argument
from pgsluice.cli.output import show
from pgsluice.cli.printing import echo
from pgsluice.cli.types import Duration


def _rate(text: str) -> tuple[int, float]:
    """Parse a rate such as `100/s` or `100/5m` to a number and seconds."""
    number, _, per = text.partition("/")
    if not (number.isascii() and number.isdecimal() and per):
        raise click.BadParameter(
            f"{text!r} is not a valid rate; write 100/s, 100/m, 5/10m, 20/h or 1000/d"
        )
    return int(number), Duration(is_open=True).convert(
        f"1{per}" if per.isalpha() else per, None, None
    )


def _weights(text: str) -> list[int]:
    """Parse whole numbers separated by commas."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise click.BadParameter(f"{text!r} is not a valid list of weights; write 16,4,1")
    return [int(part) for part in parts]


@click.group()
def limits() -> None:
    """Manage concurrency limits, rate limits, priorities and ordering of a queue.

    Workers respect the limits; `queue read`, `queue pop` and PGMQ's functions do not.
    """


@limits.command("set")
@name_argument
@click.option(
    "--fleet-concurrency",
    type=click.IntRange(min=1),
    help="Maximum number of messages in flight in all processes.  [default: no limit]",
)
@click.option(
    "--key-concurrency",
    type=click.IntRange(min=1),
    help="Maximum number of messages in flight per key (header x-pgmq-group).  [default: no limit]",
)
@click.option(
    "--rate",
    type=_rate,
    metavar="NUMBER/DURATION",
    help="Maximum rate at which workers claim messages: 100/s, 5/10m.  [default: no limit]",
)
@click.option(
    "--when-waiting",
    type=click.Choice(["block", "skip", "park"]),
    help="Process the messages of a key in order. While one waits for its retry: block the key, skip that message, or "
    "park the key until `queue unpark`.  [default: no order]",
)
@click.option(
    "--priorities",
    "priority_weights",
    type=_weights,
    metavar="WEIGHTS",
    help="Weights of 2 to 9 priority levels, the most urgent first. With 16,4,1, workers claim 16 messages of level 1 "
    "for 4 of level 2 and 1 of level 3. Set the level in the header x-pgmq-priority; 1 is the most urgent.  "
    "[default: no priorities]",
)
@json_lines_option
@dsn_option
def set_(queue_name: str, rate: tuple[int, float] | None, dsn: str | None, **given: Any) -> None:
    """Replace the limits of a queue: a limit that is not given is removed, including ordering and priorities.

    Limits set here replace those that handlers declare, until they are dropped.
    """
    if rate is None and all(value is None for value in given.values()):
        raise click.UsageError(
            f"give at least one limit; to remove all: pgsluice queue limits drop {queue_name}"
        )
    if rate is not None:
        given["rate"], given["rate_s"] = rate
    with work_queue(dsn, queue_name) as work:
        work.set_queue_limits(queue_name, **given)


@limits.command()
@name_argument
@json_lines_option
@dsn_option
def drop(queue_name: str, dsn: str | None) -> None:
    """Drop the limits of a queue. Exits with 1 if it has none."""
    with work_queue(dsn, queue_name) as work:
        if not work.drop_queue_limits(queue_name):
            echo(f"queue {queue_name!r} has no limits", err=True)
            sys.exit(EXIT_DIFFERENCE)


@limits.command("list")
@json_option
@dsn_option
def list_(as_json: bool, dsn: str | None) -> None:
    """List the limits of queues and their current use.

    rate is the number of messages per rate_s seconds, started those read in the last rate_s seconds. declared_by is the
    handler that declared the limits; without one, they were set here.
    """
    with work_queue(dsn) as work:
        show(work.list_queue_limits(), as_json, empty="no limits")


@click.command()
@name_argument
@json_option
@dsn_option
def blocked(queue_name: str, as_json: bool, dsn: str | None) -> None:
    """List keys whose messages are blocked by a limit or an earlier message, longest wait first."""
    with work_queue(dsn, queue_name) as work:
        show(work.list_blocked_messages(queue_name), as_json, empty="no blocked keys")


@click.command()
@name_argument
@click.argument("key", type=FreeText())
@json_lines_option
@dsn_option
def unpark(queue_name: str, key: str, dsn: str | None) -> None:
    """Unpark a key that a failed message parked; its messages are read again in order.

    Exits with 1 if the key is not parked.
    """
    with work_queue(dsn, queue_name) as work:
        if not work.unpark_messages(queue_name, key):
            echo(f"key {key!r} of queue {queue_name!r} is not parked", err=True)
            sys.exit(EXIT_DIFFERENCE)
