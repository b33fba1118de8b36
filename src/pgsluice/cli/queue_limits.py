"""`pgsluice queue limits`, `blocked` and `unpark`: how much of a queue is claimed at once, and in which order."""

from __future__ import annotations

import sys
from typing import Any

import click

from pgsluice.cli.clients import work_queue
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import FreeText, dsn_option, json_lines_option, json_option, name_argument
from pgsluice.cli.output import show

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _rate(text: str) -> tuple[int, float]:
    """How many in how many seconds: `100/s`, `100/5m`."""
    number, slash, length = text.partition("/")
    times, unit = length[:-1] or "1", length[-1:]
    if not (
        slash and number.isdecimal() and times.isdecimal() and int(times) > 0 and unit in _UNITS
    ):
        raise click.BadParameter(f"{text!r} is no rate; write 100/s, 100/m, 5/10m, 20/h or 1000/d")
    return int(number), float(int(times) * _UNITS[unit])


def _weights(text: str) -> list[int]:
    """Whole numbers and commas between them."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise click.BadParameter(f"{text!r} are no weights; write 16,4,1")
    return [int(part) for part in parts]


@click.group()
def limits() -> None:
    """Limit how much of a queue is claimed at once or in a time, and say in which order.

    Workers keep to the limits; the readers of PGMQ do not.
    """


@limits.command("set")
@name_argument
@click.option(
    "--fleet-concurrency",
    type=click.IntRange(min=1),
    help="So many messages are in flight at once, in all processes.  [default: any number]",
)
@click.option(
    "--key-concurrency",
    type=click.IntRange(min=1),
    help="So many of one key, the header x-pgmq-group, are in flight at once.  [default: any number]",
)
@click.option(
    "--rate",
    type=_rate,
    metavar="NUMBER/TIME",
    help="So many are claimed in any such time: 100/s, 5/10m.  [default: any number]",
)
@click.option(
    "--when-waiting",
    type=click.Choice(["block", "skip", "park"]),
    help="Claim messages of a key one after the other; while one of it waits to be retried, block the key, skip "
    "that message, or park the key until `queue unpark`.  [default: no order]",
)
@click.option(
    "--priorities",
    "priority_weights",
    type=_weights,
    metavar="WEIGHTS",
    help="The weights of 2 to 9 levels, the most urgent first: 16,4,1. The header x-pgmq-priority, from 1 on, says "
    "which level a message has.  [default: no levels]",
)
@json_lines_option
@dsn_option
def set_(queue_name: str, rate: tuple[int, float] | None, dsn: str | None, **given: Any) -> None:
    """Set the limits of a queue; those that are not given are none."""
    if rate is None and all(value is None for value in given.values()):
        raise click.UsageError(
            "no limit is given; give one, or `pgsluice queue limits drop` to have none"
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
    """Take the limits of a queue away; exits 1 when it has none."""
    with work_queue(dsn, queue_name) as work:
        if not work.drop_queue_limits(queue_name):
            click.echo(f"queue {queue_name!r} has no limits", err=True)
            sys.exit(EXIT_DIFFERENCE)


@limits.command("list")
@json_option
@dsn_option
def list_(as_json: bool, dsn: str | None) -> None:
    """Show the limits of every queue that has some, by name, and how much of them is used."""
    with work_queue(dsn) as work:
        show(work.list_queue_limits(), as_json, empty="no queue has limits")


@click.command()
@name_argument
@json_option
@dsn_option
def blocked(queue_name: str, as_json: bool, dsn: str | None) -> None:
    """Show the keys of a queue whose visible messages wait, and for what, longest first."""
    with work_queue(dsn, queue_name) as work:
        show(work.list_blocked_messages(queue_name), as_json, empty="no key is blocked")


@click.command()
@name_argument
@click.argument("key", type=FreeText())
@json_lines_option
@dsn_option
def unpark(queue_name: str, key: str, dsn: str | None) -> None:
    """Let messages of a parked key be claimed again, in their order; exits 1 when it is not parked."""
    with work_queue(dsn, queue_name) as work:
        if not work.unpark_messages(queue_name, key):
            click.echo(f"key {key!r} of queue {queue_name!r} is not parked", err=True)
            sys.exit(EXIT_DIFFERENCE)
