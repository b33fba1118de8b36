"""`pgsluice schedule`: what is sent again and again, from the shell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import click

from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import FreeText, dsn_option, json_lines_option, json_option
from pgsluice.cli.output import print_lines, show
from pgsluice.cli.parsing import json_object, json_value, seconds, time
from pgsluice.client import Schedule, ScheduleOptions, Schedules
from pgsluice.connection import connect, resolve
from pgsluice.errors import ScheduleNotFoundError

name_argument = click.argument("name", metavar="NAME")

_STATE = ("target", "queue_name", "next_slot", "last_slot", "paused_at", "error")


@contextmanager
def _schedules(dsn: str | None) -> Iterator[Schedules]:
    """A client whose calls are transactions of their own; a missing one is named with the command that lists them."""
    with connect(resolve(dsn), autocommit=True) as connection:
        try:
            yield Schedules(connection)
        except ScheduleNotFoundError as error:
            message = str(error).split(";")[0]
            raise ScheduleNotFoundError(
                f"{message}; see `pgsluice schedule list`", sqlstate=error.sqlstate
            ) from error


@click.group()
def schedule() -> None:
    """Send messages and append events again and again, by a cron expression or at regular intervals.

    `pgsluice maintain` fires what is due; each slot is fired once, however many processes do.

    Exit code 0: done; 1: something named was not there; 2: the command line cannot be understood; 3: an error.
    """


@schedule.command()
@name_argument
@click.option("--queue", "queue_name", metavar="QUEUE", help="Send to this work queue.")
@click.option("--log", "log_name", metavar="LOG", help="Append to this event log.")
@click.option("--message", metavar="JSON", help="What is sent.  [default: null]")
@click.option("--headers", metavar="JSON", help="Headers of the message, an object.")
@click.option("--ev-type", type=FreeText(), metavar="TEXT", help="What the event is.")
@click.option("--ev-data", type=FreeText(), metavar="TEXT", help="What the event says.")
@click.option(
    "--cron",
    metavar="FIELDS",
    help="When: minute, hour, day of month, month, day of week, as in '30 3 * * mon-fri', or @daily and the like.",
)
@click.option(
    "--every", "every_s", type=seconds, metavar="DURATION", help="Or how often: 90s, 15m, 12h."
)
@click.option(
    "--time-zone", metavar="NAME", help="The time zone of --cron: Europe/Berlin.  [default: UTC]"
)
@click.option(
    "--catch-up",
    type=click.Choice(["none", "one", "all"]),
    help="Which slots are fired that nobody was there to fire; none: those of the last 5 minutes.  [default: one]",
)
@click.option(
    "--catch-up-within",
    "catch_up_within_s",
    type=seconds,
    metavar="DURATION",
    help="With --catch-up all, leave out older ones, but the last.  [default: 7d]",
)
@click.option(
    "--jitter",
    "jitter_s",
    type=seconds,
    metavar="DURATION",
    help="Fire each slot by less than that later, always the same for one slot.  [default: 0s]",
)
@click.option(
    "--starts-at",
    type=time,
    metavar="TIME",
    help="No slot before; with --every the first.  [default: now, and with --every that much later]",
)
@click.option("--ends-at", type=time, metavar="TIME", help="No slot from then on.  [default: none]")
@json_lines_option
@dsn_option
def add(
    name: str,
    queue_name: str | None,
    log_name: str | None,
    message: str | None,
    headers: str | None,
    ev_type: str | None,
    ev_data: str | None,
    dsn: str | None,
    **timing: Any,
) -> None:
    """Make a schedule, or replace the one of this name; prints it."""
    if (queue_name is None) == (log_name is None):
        raise click.UsageError("give one of --queue and --log")
    if (timing["cron"] is None) == (timing["every_s"] is None):
        raise click.UsageError("give one of --cron and --every")
    if log_name is not None and (message is not None or headers is not None):
        raise click.UsageError("--message and --headers go with --queue")
    if queue_name is not None and (ev_type is not None or ev_data is not None):
        raise click.UsageError("--ev-type and --ev-data go with --log")
    options = cast("ScheduleOptions", timing)
    with _schedules(dsn) as schedules:
        if log_name is not None:
            schedules.schedule_event(name, log_name, ev_type, ev_data, **options)
        else:
            schedules.schedule(
                name,
                str(queue_name),
                None if message is None else json_value(message, "--message"),
                headers=json_object(headers, "--headers"),
                **options,
            )
        print_lines(made for made in schedules.list_schedules() if made.name == name)


@schedule.command("list")
@json_option
@dsn_option
def list_(as_json: bool, dsn: str | None) -> None:
    """Show the schedules: when each fires next, when it last did, and why it cannot. As JSON: all there is to them."""
    with _schedules(dsn) as schedules:
        found = schedules.list_schedules()
    show(found if as_json else map(_state, found), as_json, empty="no schedules")


@schedule.command()
@name_argument
@json_lines_option
@dsn_option
def pause(name: str, dsn: str | None) -> None:
    """Fire no slot of a schedule until it is resumed; does nothing when it is paused."""
    with _schedules(dsn) as schedules:
        schedules.pause_schedule(name)


@schedule.command()
@name_argument
@json_lines_option
@dsn_option
def resume(name: str, dsn: str | None) -> None:
    """Let a paused schedule go on, with the first slot from now on."""
    with _schedules(dsn) as schedules:
        schedules.resume_schedule(name)


@schedule.command()
@name_argument
@json_lines_option
@dsn_option
def run(name: str, dsn: str | None) -> None:
    """Send now what a schedule sends, beside its slots; prints the msg_id, or the ev_id."""
    with _schedules(dsn) as schedules:
        click.echo(schedules.run_schedule(name))


@schedule.command()
@name_argument
@json_lines_option
@dsn_option
def drop(name: str, dsn: str | None) -> None:
    """Forget a schedule; what it has sent stays. Exit code 1: there is none of this name."""
    with _schedules(dsn) as schedules:
        if not schedules.unschedule(name):
            click.echo(f"no schedule {name}", err=True)
            sys.exit(EXIT_DIFFERENCE)


def _state(schedule: Schedule) -> dict[str, Any]:
    when = schedule.cron or f"every {schedule.every}"
    state = {name: getattr(schedule, name) for name in _STATE}
    return {"name": schedule.name, "when": when, "time_zone": schedule.time_zone, **state}
