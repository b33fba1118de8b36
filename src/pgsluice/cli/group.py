"""`pgsluice group`: manage share groups of event logs."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import datetime
from typing import Literal

import click

from pgsluice.cli.clients import event_log, open_connection, share_group
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import (
    FreeText,
    accepted_yes_option,
    confirm,
    dsn_option,
    group_argument,
    json_lines_option,
    json_option,
    log_argument,
    optional_log_argument,
    yes_option,
)
from pgsluice.cli.output import show
from pgsluice.cli.printing import echo
from pgsluice.cli.settings import (
    optional_settings_argument,
    parse_settings,
    show_record,
)
from pgsluice.cli.types import Time
from pgsluice.client import GroupOptions, Operations, ShareGroup

Start = Literal["latest", "earliest"] | int | datetime

_STATE = ("log_name", "group_name", "lag_events", "lag_s", "leased", "retrying", "dead")


def _start(text: str) -> Start:
    """Parse a start: a word, a tick_id or a time."""
    match text:
        case "latest" | "earliest":
            return text
        case _ if text.isascii() and text.isdecimal():
            return int(text)
    try:
        return Time().convert(text, None, None)
    except click.BadParameter:
        raise click.BadParameter(
            f"{text!r} is not a valid start; write latest, earliest, a tick_id or a time such as 2026-01-31T10:00Z"
        ) from None


@click.group()
def group() -> None:
    """Manage share groups: consumers that share the events of a log.

    Consumers of a share group claim events, each claim with a lease, and settle every event: acknowledge, retry,
    release or reject it. Other consumers of a log acknowledge whole batches. `pgsluice worker run` runs handlers of
    both kinds.
    """


@group.command()
@log_argument
@group_argument
@click.option(
    "--start",
    type=_start,
    default="latest",
    show_default=True,
    metavar="WHERE",
    help="Where the group starts reading: earliest, latest, a tick_id or a time.",
)
@click.option(
    "--key",
    metavar="FIELD",
    help="Process events of the same key in order. The key is ev_type, ev_data, ev_extra1 to ev_extra4, or a JSON path "
    "into ev_data: $.customer.  [default: no order]",
)
@click.option(
    "--when-waiting",
    type=click.Choice(["block", "skip", "park"]),
    help="With --key, while an event waits for its retry: block the later events of its key; skip the event, so that "
    "later ones are processed first; or park the key until `group unpark`.  [default: block]",
)
@optional_settings_argument
@json_lines_option
@dsn_option
def create(
    log_name: str,
    group_name: str,
    settings: tuple[str, ...],
    start: Start,
    key: str | None,
    when_waiting: Literal["block", "skip", "park"] | None,
    dsn: str | None,
) -> None:
    """Create a share group of a log; do nothing if it exists with the same options.

    The log then keeps events until the group has settled them. --start has no effect on an existing group. The settings
    are those of `group set`: lease=1m.
    """
    options = parse_settings(settings, GroupOptions)
    with share_group(dsn, log_name, group_name) as shared:
        shared.create(start=start, key=key, when_waiting=when_waiting, **options)


@group.command("set")
@log_argument
@group_argument
@optional_settings_argument
@click.option(
    "--forget",
    multiple=True,
    metavar="TYPE",
    type=FreeText(),
    help="Remove the declarations of a type whose handlers will not return; its events are then treated as the option "
    "unhandled says. Repeatable. Exits with 1 if there is none.",
)
@accepted_yes_option
@json_lines_option
@dsn_option
def set_(
    log_name: str,
    group_name: str,
    settings: tuple[str, ...],
    forget: tuple[str, ...],
    dsn: str | None,
) -> None:
    """Change options of a share group; the others and open claims keep theirs. An empty value resets an option.

    \b
    lease           lease of a claim that sets none [30s]
    max_attempts    failed attempts before an event is dead-lettered [5]
    max_deliveries  deliveries before it is, failed or not [3 * max_attempts]
    backoff         constant, linear or exponential [exponential]
    backoff_base    back-off after the first attempt [1s]
    backoff_max     maximum back-off [10m]
    backoff_jitter  multiply each back-off by 0.5 to 1 [true]
    unhandled       events of a type that no worker has declared a handler
                    for: accept, leave or dead-letter [accept]

    The start, the key and its order cannot be changed.
    """
    options = parse_settings(settings, GroupOptions)
    if not options and not forget:
        raise click.UsageError("give NAME=VALUE or --forget")
    with share_group(dsn, log_name, group_name) as shared:
        if options and shared.set_options(**options) == "unchanged":
            echo(f"share group {group_name!r} has these options already", err=True)
        if forget and not shared.forget_types(forget):
            echo(
                f"share group {group_name!r} of log {log_name!r} has no such declaration",
                err=True,
            )
            sys.exit(EXIT_DIFFERENCE)


@group.command("list")
@optional_log_argument
@json_option
@dsn_option
def list_(log_name: str | None, as_json: bool, dsn: str | None) -> None:
    """List the share groups of one log or all, with their lag and open claims.

    leased counts claimed events, retrying those that wait for a retry, dead the dead letters. lag_s is the age of the
    oldest unclaimed event.
    """
    with event_log(dsn) as events:
        groups = [asdict(info) for info in events.list_groups(log_name)]
    show(({name: info[name] for name in _STATE} for info in groups), as_json, empty="no groups")


@group.command("show")
@log_argument
@group_argument
@json_option
@dsn_option
def show_(log_name: str, group_name: str, as_json: bool, dsn: str | None) -> None:
    """Show the options and state of a share group.

    \b
    types         event types that handlers are declared for, or without a
                  handler: workers counts live workers that run it, waiting
                  the events left for them, accepted and dead_lettered events
                  without a handler; no type: the handler of all other types
    claims        claims whose lease runs and that have unsettled events,
                  oldest first
    blocked_keys  keys whose events are blocked or parked, longest first, as
                  of the last claim
    handlers      retry policies that handlers of live workers declare,
                  instead of the options
    """
    with open_connection(dsn) as connection:
        shared = ShareGroup(connection, log_name, group_name)
        source = f"log {log_name} group {group_name}"
        show_record(
            shared.info(),
            as_json,
            handlers=lambda: Operations(connection).handler_policies(source),
            types=shared.list_types,
            claims=shared.list_claims,
            blocked_keys=shared.list_blocked_keys,
        )


@group.command()
@log_argument
@group_argument
@click.argument("key", type=FreeText())
@accepted_yes_option
@json_lines_option
@dsn_option
def unpark(log_name: str, group_name: str, key: str, dsn: str | None) -> None:
    """Unpark a key: redeliver its parked events in order, with the attempt count reset; print their number.

    Exits with 1 if the key is not parked.
    """
    with share_group(dsn, log_name, group_name) as shared:
        unparked = shared.unpark_key(key)
    if not unparked:
        echo(
            f"key {key!r} of share group {group_name!r} of log {log_name!r} is not parked",
            err=True,
        )
        sys.exit(EXIT_DIFFERENCE)
    echo(unparked)


@group.command()
@log_argument
@group_argument
@yes_option
@json_lines_option
@dsn_option
def drop(log_name: str, group_name: str, yes: bool, dsn: str | None) -> None:
    """Drop a share group; the log no longer keeps events for it. Its dead letters are kept.

    Exits with 1 if the group does not exist.
    """
    confirm(yes, f"Drop share group {group_name!r} with its claims and pending retries?")
    with share_group(dsn, log_name, group_name) as shared:
        if not shared.drop():
            echo(f"log {log_name!r} has no share group {group_name!r}", err=True)
            sys.exit(EXIT_DIFFERENCE)
