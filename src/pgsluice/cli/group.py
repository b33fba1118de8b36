"""`pgsluice group`: share groups of event logs from the shell."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal, cast

import click

from pgsluice.cli.clients import event_log, share_group
from pgsluice.cli.dead_letters import group_dead_letters
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import (
    combined,
    dsn_option,
    group_argument,
    json_lines_option,
    json_option,
    log_argument,
    optional_log_argument,
)
from pgsluice.cli.output import show
from pgsluice.cli.parsing import seconds, time
from pgsluice.client import GroupOptions

Start = Literal["end", "beginning"] | int | datetime

_STATE = ("queue_name", "group_name", "lag_events", "lag_s", "leased", "retrying", "dead")


def _start(text: str) -> Start:
    """Where a group starts: a word, a tick or a time."""
    match text:
        case "end" | "beginning":
            return text
        case _ if text.isascii() and text.isdecimal():
            return int(text)
    return time(text)


_options = combined(
    click.option(
        "--lease",
        "lease_s",
        type=seconds,
        metavar="DURATION",
        help="How long a claim lasts unless it says otherwise: 90s, 15m.  [default: 30s]",
    ),
    click.option(
        "--max-attempts",
        type=click.IntRange(min=1),
        help="With so many attempts that failed an event is dead.  [default: 5]",
    ),
    click.option(
        "--max-deliveries",
        type=click.IntRange(min=1),
        help="With so many deliveries it is dead although fewer attempts counted.  [default: 3 times --max-attempts]",
    ),
    click.option(
        "--backoff",
        type=click.Choice(["constant", "linear", "exponential"]),
        help="How the pause before a retry grows.  [default: exponential]",
    ),
    click.option(
        "--backoff-base",
        "backoff_base_s",
        type=seconds,
        metavar="DURATION",
        help="The first pause.  [default: 1s]",
    ),
    click.option(
        "--backoff-cap",
        "backoff_cap_s",
        type=seconds,
        metavar="DURATION",
        help="The longest pause.  [default: 10m]",
    ),
    click.option(
        "--jitter/--no-jitter",
        "backoff_jitter",
        default=None,
        help="Whether a pause is anything between half of that and all of it.  [default: it is]",
    ),
    click.option(
        "--dead-letter-log",
        metavar="LOG",
        help="Dead events go to this log.  [default: they are kept as dead events]",
    ),
)


def _given(options: dict[str, Any]) -> GroupOptions:
    """Those that were."""
    given = {name: value for name, value in options.items() if value is not None}
    return cast("GroupOptions", given)


@click.group()
def group() -> None:
    """Create and watch share groups: consumers that share the events of a log.

    Exit code 0: done; 1: something named was not there; 2: the command line cannot be understood; 3: an error.
    """


@group.command()
@log_argument
@group_argument
@click.option(
    "--start",
    type=_start,
    default="end",
    show_default=True,
    metavar="WHERE",
    help="From where on events are its: end, beginning, a tick_id, or a time.",
)
@click.option(
    "--key",
    metavar="FIELD",
    help="Keep events in order by this: ev_type to ev_extra4, or a JSON path into ev_data.  [default: no order]",
)
@click.option(
    "--when-waiting",
    type=click.Choice(["block", "skip", "park"]),
    help="What becomes of a key of which an event waits to be retried.  [default: block]",
)
@_options
@json_lines_option
@dsn_option
def create(
    queue_name: str,
    group_name: str,
    start: Start,
    key: str | None,
    when_waiting: Literal["block", "skip", "park"] | None,
    dsn: str | None,
    **options: Any,
) -> None:
    """Create a share group of a log; does nothing when it exists with these options.

    From then on the log keeps events for it until they are settled.
    """
    with share_group(dsn, queue_name, group_name, options["dead_letter_log"]) as shared:
        shared.create(start=start, key=key, when_waiting=when_waiting, **_given(options))


@group.command("set")
@log_argument
@group_argument
@_options
@click.option(
    "--no-dead-letter-log", is_flag=True, help="Dead events are kept as dead events of the group."
)
@json_lines_option
@dsn_option
def set_(
    queue_name: str, group_name: str, no_dead_letter_log: bool, dsn: str | None, **options: Any
) -> None:
    """Change those settings of a share group that are given; claims that are open keep their lease."""
    given = _given(options)
    if no_dead_letter_log:
        if "dead_letter_log" in given:
            raise click.UsageError("--no-dead-letter-log goes without --dead-letter-log")
        given["dead_letter_log"] = None
    if not given:
        raise click.UsageError("say what to change; see --help")
    with share_group(dsn, queue_name, group_name, options["dead_letter_log"]) as shared:
        shared.set_options(**given)


@group.command("list")
@optional_log_argument
@json_option
@dsn_option
def list_(queue_name: str | None, as_json: bool, dsn: str | None) -> None:
    """Show the share groups of one log, or of all: how far behind they are, and what is in hand."""
    with event_log(dsn, queue_name) as events:
        groups = [asdict(info) for info in events.list_groups(queue_name)]
    show(({name: info[name] for name in _STATE} for info in groups), as_json, empty="no groups")


@group.command()
@log_argument
@group_argument
@json_option
@dsn_option
def info(queue_name: str, group_name: str, as_json: bool, dsn: str | None) -> None:
    """Show the settings and the state of a share group."""
    with share_group(dsn, queue_name, group_name) as shared:
        fields = asdict(shared.info())
    if as_json:
        show([fields], as_json, empty="")
        return
    show(({"name": name, "value": fields[name]} for name in fields), as_json, empty="")


@group.command()
@log_argument
@group_argument
@json_option
@dsn_option
def claims(queue_name: str, group_name: str, as_json: bool, dsn: str | None) -> None:
    """Show the claims of a share group that are not settled, the earliest first."""
    with share_group(dsn, queue_name, group_name) as shared:
        show(shared.list_claims(), as_json, empty="no open claims")


@group.command()
@log_argument
@group_argument
@click.confirmation_option(prompt="Drop the group with its claims and what waits to be retried?")
@json_lines_option
@dsn_option
def drop(queue_name: str, group_name: str, dsn: str | None) -> None:
    """Drop a share group, so that the log keeps no events for it; its dead events stay. Exits 1 when there is none."""
    with share_group(dsn, queue_name, group_name) as shared:
        if not shared.drop():
            click.echo(f"log {queue_name!r} has no share group {group_name!r}", err=True)
            sys.exit(EXIT_DIFFERENCE)


group.add_command(group_dead_letters)
