"""`pgsluice schedule`: manage periodic messages and events."""

from __future__ import annotations

import sys
from typing import Any, TypedDict, cast

import click

from pgsluice.cli.clients import open_schedules
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import (
    FreeText,
    accepted_yes_option,
    confirm,
    dsn_option,
    json_lines_option,
    json_option,
    yes_option,
)
from pgsluice.cli.output import print_lines, show
from pgsluice.cli.printing import echo
from pgsluice.cli.settings import parse_settings, settings_argument
from pgsluice.cli.types import Duration, Json, Time
from pgsluice.client import Schedule, ScheduleOptions

name_argument = click.argument("name", metavar="NAME")

_STATE = ("target", "queue_name", "next_slot", "last_slot", "paused_at", "error")


class _Options(TypedDict, total=False):
    paused: bool | None


@click.group()
def schedule() -> None:
    """Send messages and events periodically, by a cron expression or an interval.

    A slot is a time at which a schedule is due. `pgsluice maintain` sends what is due, each slot once, with any number
    of processes.
    """


@schedule.command()
@name_argument
@click.option("--queue", "queue_name", metavar="QUEUE", help="Work queue to send to.")
@click.option("--log", "log_name", metavar="LOG", help="Event log to insert into.")
@click.option("--message", type=Json(), help="Message.  [default: null]")
@click.option("--headers", type=Json(is_object=True), help="Headers of the message, a JSON object.")
@click.option("--ev-type", type=FreeText(), metavar="TEXT", help="Type of the event.")
@click.option("--ev-data", type=FreeText(), metavar="TEXT", help="Data of the event.")
@click.option(
    "--cron",
    metavar="FIELDS",
    help="Cron expression: minute, hour, day of month, month, day of week, as in '30 3 * * mon-fri', or @daily.",
)
@click.option(
    "--interval",
    "every_s",
    type=Duration(is_open=True),
    help="Interval between slots, instead of --cron.",
)
@click.option(
    "--time-zone", metavar="NAME", help="Time zone of --cron: Europe/Berlin.  [default: UTC]"
)
@click.option(
    "--catch-up",
    type=click.Choice(["none", "one", "all"]),
    help="After missed slots, for example while the server was down, fire the last one (one), each of them in order "
    "(all), or the last one only if it is at most 5 minutes late (none).  [default: one]",
)
@click.option(
    "--catch-up-within",
    "catch_up_within_s",
    type=Duration(),
    help="With --catch-up all: skip slots older than this, except the last one.  [default: 7d]",
)
@click.option(
    "--jitter",
    "jitter_s",
    type=Duration(),
    help="Delay each slot by a random time up to this, always the same for a slot.  [default: 0s]",
)
@click.option(
    "--starts-at",
    type=Time(),
    help="Earliest slot; with --interval the first slot.  [default: now, with --interval one interval later; "
    "unchanged if the schedule exists]",
)
@click.option("--ends-at", type=Time(), help="End of the schedule, exclusive.  [default: none]")
@json_lines_option
@dsn_option
def create(
    name: str,
    queue_name: str | None,
    log_name: str | None,
    message: Any,
    headers: dict[str, Any] | None,
    ev_type: str | None,
    ev_data: str | None,
    dsn: str | None,
    **timing: Any,
) -> None:
    """Create a schedule or replace the one of this name, and print it.

    Requires --queue or --log, and --cron or --interval. Times without an offset are in local time.
    """
    if (queue_name is None) == (log_name is None):
        raise click.UsageError("give exactly one of --queue and --log")
    if (timing["cron"] is None) == (timing["every_s"] is None):
        raise click.UsageError("give exactly one of --cron and --interval")
    if timing["time_zone"] is not None and timing["cron"] is None:
        raise click.UsageError("--time-zone requires --cron")
    if log_name is not None and (message is not None or headers is not None):
        raise click.UsageError("--message and --headers require --queue")
    if queue_name is not None and (ev_type is not None or ev_data is not None):
        raise click.UsageError("--ev-type and --ev-data require --log")
    options = cast("ScheduleOptions", timing)
    with open_schedules(dsn) as schedules:
        if log_name is not None:
            schedules.schedule_event(name, log_name, ev_type, ev_data, **options)
        else:
            schedules.schedule(
                name,
                str(queue_name),
                message,
                headers=headers,
                **options,
            )
        print_lines(made for made in schedules.list_schedules() if made.name == name)


@schedule.command("list")
@json_option
@dsn_option
def list_(as_json: bool, dsn: str | None) -> None:
    """List schedules with their next and last slot and last error; --json prints all fields."""
    with open_schedules(dsn) as schedules:
        found = schedules.list_schedules()
    show(found if as_json else map(_state, found), as_json, empty="no schedules")


@schedule.command("set")
@name_argument
@settings_argument
@accepted_yes_option
@json_lines_option
@dsn_option
def set_(name: str, settings: tuple[str, ...], dsn: str | None) -> None:
    """Change options of a schedule. An empty value resets an option to its default.

    \b
    paused  true: fire no slots; slots missed meanwhile are not fired [false]
    """
    is_paused = parse_settings(settings, _Options)["paused"]
    with open_schedules(dsn) as schedules:
        change = schedules.pause_schedule if is_paused else schedules.resume_schedule
        if not change(name):
            echo(f"schedule {name!r} has these options already", err=True)


@schedule.command()
@name_argument
@accepted_yes_option
@json_lines_option
@dsn_option
def run(name: str, dsn: str | None) -> None:
    """Fire a schedule now, in addition to its slots, and print the msg_id or ev_id."""
    with open_schedules(dsn) as schedules:
        echo(schedules.run_schedule(name))


@schedule.command()
@name_argument
@yes_option
@json_lines_option
@dsn_option
def drop(name: str, yes: bool, dsn: str | None) -> None:
    """Drop a schedule; keeps the messages and events already sent. Exits with 1 if it does not exist."""
    confirm(yes, f"Drop schedule {name!r}?")
    with open_schedules(dsn) as schedules:
        if not schedules.unschedule(name):
            echo(f"schedule {name!r} does not exist", err=True)
            sys.exit(EXIT_DIFFERENCE)


def _state(schedule: Schedule) -> dict[str, Any]:
    when = schedule.cron or f"every {schedule.every}"
    state = {name: getattr(schedule, name) for name in _STATE}
    return {"name": schedule.name, "when": when, "time_zone": schedule.time_zone, **state}
