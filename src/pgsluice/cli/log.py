"""`pgsluice log`: manage event logs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import click

from pgsluice.cli.clients import check_log_exists, event_log
from pgsluice.cli.log_consume import consume
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import (
    FreeText,
    accepted_yes_option,
    confirm,
    dsn_option,
    json_lines_option,
    json_option,
    log_argument,
    optional_log_argument,
    yes_option,
)
from pgsluice.cli.output import show, show_lists
from pgsluice.cli.parsing import lines
from pgsluice.cli.printing import echo
from pgsluice.cli.settings import parse_settings, settings_argument, show_record
from pgsluice.client import LogOptions, LogTick, NewEvent
from pgsluice.errors import LogInUseError, LogNotFoundError


@click.group()
def log() -> None:
    """Manage event logs and their consumers.

    A tick ends a batch: consumers read the events between two ticks. `pgsluice maintain` creates ticks. A log stores
    events in segments, tables that rotation truncates when no consumer needs them.

    `log consume --register` registers a consumer. The SQL function sluice.capture('TABLE', 'LOG') captures a table:
    each change of its rows becomes an event.
    """


@log.command()
@log_argument
@json_lines_option
@dsn_option
def create(log_name: str, dsn: str | None) -> None:
    """Create a log; idempotent."""
    with event_log(dsn) as events:
        events.create(log_name)


@log.command("list")
@json_option
@dsn_option
def list_(as_json: bool, dsn: str | None) -> None:
    """List all logs by name, with the last tick, its age, and the number of events since."""
    with event_log(dsn) as events:
        show((_state(asdict(info)) for info in events.get_queue_info()), as_json, empty="no logs")


@log.command("set")
@log_argument
@settings_argument
@accepted_yes_option
@json_lines_option
@dsn_option
def set_(log_name: str, settings: tuple[str, ...], dsn: str | None) -> None:
    """Change options of a log; the others keep their values. An empty value resets an option to its default.

    \b
    ticker_max_count    create a tick after this many events [500]
    ticker_max_lag      create a tick when an event has waited this long [3s]
    ticker_idle_period  create a tick in an idle log this often [1m]
    ticker_paused       create no ticks [false]
    rotation_period     minimum time between rotations [2h]
    external_ticker     leave the ticks to another program [false]
    max_lag_bytes       take the position of a consumer that keeps this
                        many bytes from being reclaimed [no limit]
    max_lag_events      the same for its unfinished events [no limit]
    max_lag_time        the same for the age of its position [no limit]
    keepers             consumers exempt from these limits, without which
                        nothing is reclaimed: archive,lake [none]
    """
    options = parse_settings(settings, LogOptions)
    with event_log(dsn) as events:
        if events.set_log_options(log_name, **options) == "unchanged":
            echo(f"log {log_name!r} has these options already", err=True)


@log.command("show")
@log_argument
@json_option
@dsn_option
def show_(log_name: str, as_json: bool, dsn: str | None) -> None:
    """Show the options of a log, its segments, and the tables whose changes are captured into it.

    A segment has its size, the consumers that need it, and why it cannot be truncated.
    """
    with event_log(dsn) as events:
        show_record(
            events.log_options(log_name),
            as_json,
            segments=lambda: events.list_segments(log_name),
            captures=lambda: events.list_captures(log_name),
        )


@log.command()
@log_argument
@click.argument("data", metavar="[DATA]...", nargs=-1, type=FreeText())
@click.option(
    "--ev-type",
    type=FreeText(),
    metavar="TEXT",
    help="Type of the events.",
)
@click.option(
    "--extra1",
    "ev_extra1",
    type=FreeText(),
    metavar="TEXT",
    help="The ev_extra1 of each event.",
)
@click.option(
    "--extra2", "ev_extra2", type=FreeText(), metavar="TEXT", help="The ev_extra2 of each event."
)
@click.option(
    "--extra3", "ev_extra3", type=FreeText(), metavar="TEXT", help="The ev_extra3 of each event."
)
@click.option(
    "--extra4", "ev_extra4", type=FreeText(), metavar="TEXT", help="The ev_extra4 of each event."
)
@json_lines_option
@dsn_option
def insert(
    log_name: str,
    data: tuple[str, ...],
    ev_type: str | None,
    dsn: str | None,
    **extras: str | None,
) -> None:
    """Insert events from arguments or standard input, and print their number.

    Each line of standard input is an event. Inserts all in one transaction.
    """
    texts: Iterable[str] = data or (line.rstrip("\r\n") for line in lines(sys.stdin))
    with event_log(dsn) as events:
        new = (NewEvent(ev_type, text, **extras) for text in texts)
        echo(events.insert_many(log_name, new))


@log.command()
@optional_log_argument
@json_option
@dsn_option
def consumers(log_name: str | None, as_json: bool, dsn: str | None) -> None:
    """List the consumers of one log or all, with their lag and the segments they keep.

    lag_s is the age of the oldest event that the consumer has not finished, pinned_bytes the size of the segments that
    it keeps, idle_s the time since its last batch. Limits of a log (`log set`) take the position of a consumer that
    lags too far; lost then has the reason. is_keeper: exempt from these limits.
    """
    with event_log(dsn) as events:
        found = events.list_consumers(log_name)
        if log_name is not None and not found:
            check_log_exists(events, log_name)
        show(found, as_json, empty="no consumers")


@log.command()
@log_argument
@click.argument("consumer_name", metavar="CONSUMER")
@yes_option
@json_lines_option
@dsn_option
def unregister(log_name: str, consumer_name: str, yes: bool, dsn: str | None) -> None:
    """Unregister a consumer, which deletes its position; the log no longer keeps events for it.

    Exits with 1 if the consumer is not registered.
    """
    confirm(yes, f"Unregister consumer {consumer_name!r}? Its position and unread events are lost.")
    with event_log(dsn) as events:
        if events.unregister_consumer(log_name, consumer_name) == 0:
            echo(f"log {log_name!r} has no consumer {consumer_name!r}", err=True)
            sys.exit(EXIT_DIFFERENCE)


@log.command()
@optional_log_argument
@click.option(
    "--rotate",
    is_flag=True,
    help="Then rotate: switch to another segment when due, and truncate segments that no consumer needs. Shows each "
    "step, or why it was skipped.",
)
@json_option
@dsn_option
def tick(log_name: str | None, rotate: bool, as_json: bool, dsn: str | None) -> None:
    """Create a tick in one log or all if there are new events, so that consumers can read them.

    Shows the last tick of the log, or the new ticks of all. `pgsluice maintain` ticks and rotates periodically.
    """
    with event_log(dsn) as events:
        ticks = (
            events.tick() if log_name is None else [LogTick(log_name, events.log_tick(log_name))]
        )
        if not rotate:
            show(ticks, as_json, empty="no new ticks")
            return
        show_lists({"ticks": lambda: ticks, "rotation": lambda: events.rotate(log_name)}, as_json)


@log.command()
@log_argument
@click.argument("table", metavar="TABLE")
@dsn_option
def snapshot(log_name: str, table: str, dsn: str | None) -> None:
    """Append the rows of a captured table to its log, so that current-state tables in lakes get those that
    they lack.

    TABLE is a name as in SQL: account or shop.account. Runs in short transactions, while writers and pipelines
    continue. A table without a key is locked against writes meanwhile.
    """
    from pgsluice.pipelines.current_state.snapshot import snapshot as take_snapshot

    take_snapshot(table, log_name, dsn=dsn)
    echo(f"appended a snapshot of {table} to log {log_name}")


@log.command()
@log_argument
@click.option(
    "--force", is_flag=True, help="Drop the log even if it has consumers, and unregister them."
)
@yes_option
@json_lines_option
@dsn_option
def drop(log_name: str, force: bool, yes: bool, dsn: str | None) -> None:
    """Drop a log with its events. Exits with 1 if it does not exist."""
    confirm(yes, f"Drop event log {log_name!r} with its events?")
    try:
        with event_log(dsn) as events:
            events.drop(log_name, force=force)
    except LogNotFoundError:
        echo(f"event log {log_name!r} does not exist", err=True)
        sys.exit(EXIT_DIFFERENCE)
    except LogInUseError as error:
        raise LogInUseError(
            f"event log {log_name!r} has consumers; see: pgsluice log consumers {log_name}, or add --force",
            sqlstate=error.sqlstate,
        ) from error


def _state(info: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a log, without its settings."""
    names = ("log_name", "last_tick_id", "ticker_lag", "ev_new", "ev_per_sec")
    return {name: info[name] for name in names} | {"segments": info["queue_ntables"]}


log.add_command(consume)
