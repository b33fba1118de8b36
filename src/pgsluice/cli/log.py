"""`pgsluice log`: event logs from the shell."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import click

from pgsluice.cli.clients import event_log
from pgsluice.cli.log_consume import consume
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import (
    FreeText,
    dsn_option,
    json_lines_option,
    json_option,
    log_argument,
    optional_log_argument,
)
from pgsluice.cli.output import show
from pgsluice.cli.parsing import lines
from pgsluice.client import EventLog, LogTick, NewEvent
from pgsluice.errors import LogInUseError, LogNotFoundError

_PREFIX = "queue_"


@click.group()
def log() -> None:
    """Create, fill, read and watch event logs.

    Exit code 0: done; 1: something named was not there; 2: the command line cannot be understood; 3: an error.
    """


@log.command()
@log_argument
@json_lines_option
@dsn_option
def create(queue_name: str, dsn: str | None) -> None:
    """Create a log; does nothing when it exists."""
    with event_log(dsn, queue_name) as events:
        events.create_queue(queue_name)


@log.command("list")
@json_option
@dsn_option
def list_(as_json: bool, dsn: str | None) -> None:
    """Show every log, by name: its last tick, how long ago that was, and what came since."""
    with event_log(dsn) as events:
        show((_state(asdict(info)) for info in events.get_queue_info()), as_json, empty="no logs")


@log.command()
@log_argument
@click.argument("settings", metavar="[SETTING=VALUE]...", nargs=-1)
@json_option
@dsn_option
def config(queue_name: str, settings: tuple[str, ...], as_json: bool, dsn: str | None) -> None:
    """Change settings of a log, and show them all.

    A setting is one of ticker_max_count, ticker_max_lag, ticker_idle_period, ticker_paused, rotation_period and
    external_ticker; a value is written as PostgreSQL reads it, as in rotation_period='30 minutes'.
    """
    pairs = [setting.partition("=") for setting in settings]
    for name, equals, _ in pairs:
        if not equals:
            raise click.UsageError(f"{name!r} is no setting; write SETTING=VALUE")
    with event_log(dsn, queue_name) as events:
        for name, _, value in pairs:
            events.set_queue_config(queue_name, name, value)
        show(_settings(events, queue_name), as_json, empty="no settings")


@log.command()
@log_argument
@click.argument("data", metavar="[DATA]...", nargs=-1, type=FreeText())
@click.option(
    "--type",
    "ev_type",
    type=FreeText(),
    metavar="TEXT",
    help="What the events are: their ev_type.",
)
@click.option(
    "--extra1",
    "ev_extra1",
    type=FreeText(),
    metavar="TEXT",
    help="Goes with each, as do the next three.",
)
@click.option("--extra2", "ev_extra2", type=FreeText(), metavar="TEXT")
@click.option("--extra3", "ev_extra3", type=FreeText(), metavar="TEXT")
@click.option("--extra4", "ev_extra4", type=FreeText(), metavar="TEXT")
@json_lines_option
@dsn_option
def insert(
    queue_name: str,
    data: tuple[str, ...],
    ev_type: str | None,
    dsn: str | None,
    **extras: str | None,
) -> None:
    """Append events, given as arguments or as lines on standard input; prints how many.

    All are one transaction: each of them, or none.
    """
    texts: Iterable[str] = data or (line.rstrip("\r\n") for line in lines(sys.stdin))
    with event_log(dsn, queue_name) as events:
        new = (NewEvent(ev_type, text, **extras) for text in texts)
        click.echo(events.insert_many(queue_name, new))


@log.command()
@optional_log_argument
@json_option
@dsn_option
def consumers(queue_name: str | None, as_json: bool, dsn: str | None) -> None:
    """Show the consumers of one log, or of all: how far behind they are, and what they pin."""
    with event_log(dsn, queue_name) as events:
        show(events.list_consumers(queue_name), as_json, empty="no consumers")


@log.command()
@log_argument
@click.argument("consumer_name", metavar="CONSUMER")
@json_lines_option
@dsn_option
def unregister(queue_name: str, consumer_name: str, dsn: str | None) -> None:
    """Remove a consumer and its position, so that the log keeps no events for it; exits 1 when there is none."""
    with event_log(dsn, queue_name) as events:
        if events.unregister_consumer(queue_name, consumer_name) == 0:
            click.echo(f"log {queue_name!r} has no consumer {consumer_name!r}", err=True)
            sys.exit(EXIT_DIFFERENCE)


@log.command()
@optional_log_argument
@json_option
@dsn_option
def tick(queue_name: str | None, as_json: bool, dsn: str | None) -> None:
    """Tick one log, or all, now if anything is new; shows the last tick of the one, or the new ticks of all."""
    with event_log(dsn, queue_name) as events:
        ticks = (
            events.tick()
            if queue_name is None
            else [LogTick(queue_name, events.log_tick(queue_name))]
        )
    show(ticks, as_json, empty="nothing new")


@log.command()
@optional_log_argument
@json_option
@dsn_option
def rotate(queue_name: str | None, as_json: bool, dsn: str | None) -> None:
    """Rotate one log, or all, where it is time; shows what was done, and why something was not."""
    with event_log(dsn, queue_name) as events:
        show(events.rotate(queue_name), as_json, empty="nothing to do")


@log.command()
@log_argument
@json_option
@dsn_option
def segments(queue_name: str, as_json: bool, dsn: str | None) -> None:
    """Show the segments of a log: what they take on disk, and who needs them."""
    with event_log(dsn, queue_name) as events:
        show(events.list_segments(queue_name), as_json, empty="no segments")


@log.command()
@optional_log_argument
@json_option
@dsn_option
def captures(queue_name: str | None, as_json: bool, dsn: str | None) -> None:
    """Show the tables whose changes go into one log, or into all."""
    with event_log(dsn, queue_name) as events:
        show(events.list_captures(queue_name), as_json, empty="no captures")


@log.command()
@log_argument
@click.option("--force", is_flag=True, help="Unregister its consumers too.")
@click.confirmation_option(prompt="Drop the log with its events?")
@json_lines_option
@dsn_option
def drop(queue_name: str, force: bool, dsn: str | None) -> None:
    """Drop a log with its events; exits 1 when there is none."""
    try:
        with event_log(dsn, queue_name) as events:
            events.drop_queue(queue_name, force=force)
    except LogNotFoundError:
        click.echo(f"log {queue_name!r} does not exist", err=True)
        sys.exit(EXIT_DIFFERENCE)
    except LogInUseError as error:
        raise LogInUseError(
            f"log {queue_name!r} has consumers; see `pgsluice log consumers {queue_name}`, or add --force",
            sqlstate=error.sqlstate,
        ) from error


def _state(info: dict[str, Any]) -> dict[str, Any]:
    """What changes by itself."""
    names = ("queue_name", "last_tick_id", "ticker_lag", "ev_new", "ev_per_sec")
    return {name: info[name] for name in names} | {"segments": info["queue_ntables"]}


def _settings(events: EventLog, queue_name: str) -> list[dict[str, Any]]:
    """What `config` changes."""
    found = events.get_queue_info(queue_name)
    if not found:
        raise LogNotFoundError("no such log")
    names = (
        "queue_ticker_max_count",
        "queue_ticker_max_lag",
        "queue_ticker_idle_period",
        "queue_ticker_paused",
        "queue_rotation_period",
        "queue_external_ticker",
    )
    fields = asdict(found[0])
    return [{"setting": name.removeprefix(_PREFIX), "value": fields[name]} for name in names]


log.add_command(consume)
