"""`pgsluice group dead-letters`: events that failed for good in a share group, and sending them again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar

import click

from pgsluice.cli.clients import STEP, share_group
from pgsluice.cli.options import (
    dsn_option,
    group_argument,
    json_lines_option,
    json_option,
    log_argument,
)
from pgsluice.cli.output import print_lines, progress, report
from pgsluice.cli.parsing import time as parse_time
from pgsluice.cli.queue_archive import duration, interruptible
from pgsluice.client import DeadEvent, ShareGroup

Command = TypeVar("Command", bound=Callable[..., Any])

_ids_argument = click.argument("ids", metavar="[ID]...", type=int, nargs=-1)


def _filter_options(command: Command) -> Command:
    """The options that say which dead events: those given become one dictionary, by `_matching`."""
    for option in (
        click.option("--until", type=parse_time, metavar="TIME", help="Only given up before."),
        click.option(
            "--since", type=parse_time, metavar="TIME", help="Only given up from this time on."
        ),
        click.option("--ev-id", "ev_ids", type=int, multiple=True, help="Only with these ev_ids."),
        click.option("--reason", metavar="TEXT", help="Only given up for this reason."),
        click.option("--type", "ev_type", metavar="TEXT", help="Only events of this type."),
    ):
        command = option(command)
    return command


def _matching(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value not in (None, ())}


@click.group("dead-letters")
def dead_letters() -> None:
    """Look at the dead events of a share group, send them again, or delete them."""


@dead_letters.command("list")
@log_argument
@group_argument
@click.option("--after", "after_id", type=int, metavar="ID", help="Only with a higher id.")
@click.option("--qty", type=click.IntRange(1), help="The most to print.  [default: all]")
@click.option("--count", "count_only", is_flag=True, help="Print only how many there are.")
@_filter_options
@json_lines_option
@dsn_option
def list_(
    queue_name: str,
    group_name: str,
    after_id: int | None,
    qty: int | None,
    count_only: bool,
    dsn: str | None,
    **given: Any,
) -> None:
    """Print dead events, lowest dead_event_id first; those of a dropped group or log are still there.

    It reads page by page, so it may be long: to go on later, give --after the last id.
    """
    if count_only and (after_id is not None or qty is not None):
        raise click.UsageError("--count goes without --after and --qty")
    with share_group(dsn, queue_name, group_name) as shared:
        if count_only:
            click.echo(shared.count_dead_events(**_matching(given)))
            return
        for page in _pages(shared, after_id, qty, _matching(given)):
            print_lines(page)


@dead_letters.command()
@log_argument
@group_argument
@_ids_argument
@click.option("--into", "target", metavar="QUEUE", help="A work queue.  [default: the group]")
@click.option("--all", "everything", is_flag=True, help="All there are by now.")
@click.option("--rate", type=click.IntRange(1), help="The most a second.  [default: no limit]")
@_filter_options
@json_option
@dsn_option
def redrive(
    queue_name: str,
    group_name: str,
    ids: tuple[int, ...],
    target: str | None,
    everything: bool,
    rate: int | None,
    as_json: bool,
    dsn: str | None,
    **given: Any,
) -> None:
    """Move dead events back to their group, or into a work queue: those with these ids, or those that a filter matches.

    In the group they are new events that it alone gets, and their attempts begin anew; in a queue they are messages
    whose headers say in x-pgmq-replayed-from where they were. With ids it prints the old and the new ones, and exits 1
    when one was not there. With a filter it works in transactions of a thousand at the most, and prints how many.
    """
    matching = _matching(given)
    if bool(ids) + bool(matching or everything) != 1:
        raise click.UsageError("say what to send: ids, or a filter or --all; and one of these only")
    if ids and rate is not None:
        raise click.UsageError(
            "--rate goes with a filter or --all: ids are sent in one transaction"
        )
    with share_group(dsn, queue_name, group_name) as shared:
        if ids:
            redriven = shared.redrive_events(ids, target_queue_name=target)
            print_lines(redriven)
            report(ids, (pair.dead_event_id for pair in redriven), "the dead events of the group")
            return
        moved = _redrive(shared, target, rate, matching)
    _say({"redriven": moved}, f"{moved} dead events moved", as_json)


@dead_letters.command()
@log_argument
@group_argument
@_ids_argument
@click.option(
    "--older-than",
    type=duration,
    metavar="DURATION",
    help="Those given up so long ago: 90s, 15m, 12h, 30d, 4w; 0s is all of them.",
)
@click.confirmation_option(prompt="Delete them for good?")
@json_option
@dsn_option
def purge(
    queue_name: str,
    group_name: str,
    ids: tuple[int, ...],
    older_than: timedelta | str | None,
    as_json: bool,
    dsn: str | None,
) -> None:
    """Delete dead events for good: those with these ids, or those that are old; in steps of ten thousand."""
    if bool(ids) == isinstance(older_than, timedelta):
        raise click.UsageError("say which: ids, or --older-than with a number and its unit")
    # What dies while this runs is not older.
    began_s = time.monotonic()
    purged = 0
    with (
        share_group(dsn, queue_name, group_name) as shared,
        interruptible(lambda: f"deleted {purged}; the same command goes on"),
    ):
        while True:
            if isinstance(older_than, timedelta):
                age = older_than + timedelta(seconds=time.monotonic() - began_s)
                deleted = shared.purge_dead_events(older_than=age)
            else:
                deleted = shared.purge_dead_events(dead_event_ids=ids)
            purged += deleted
            if deleted == 0:
                break
    _say({"purged": purged}, f"{purged} dead events deleted", as_json)


def _pages(
    shared: ShareGroup, after_id: int | None, qty: int | None, matching: dict[str, Any]
) -> Iterator[list[DeadEvent]]:
    while qty is None or qty > 0:
        asked = STEP if qty is None else min(qty, STEP)
        page = shared.browse_dead_events(after_dead_event_id=after_id, qty=asked, **matching)
        yield page
        if len(page) < asked:
            return
        after_id = page[-1].dead_event_id
        qty = None if qty is None else qty - len(page)


def _redrive(
    shared: ShareGroup, target: str | None, rate: int | None, matching: dict[str, Any]
) -> int:
    # No more than there are now: what fails again at once would otherwise be moved for ever.
    total = left = shared.count_dead_events(**matching)
    after: int | None = None
    step = STEP if rate is None else min(STEP, rate)
    began_s = time.monotonic()
    with (
        interruptible(lambda: f"moved {total - left}; the same command goes on"),
        progress("moved", lambda: total) as advance,
    ):
        while True:  # once at least: a group that is not there is an error
            moved = shared.redrive_events_matching(
                target_queue_name=target,
                after_dead_event_id=after,
                qty=max(1, min(left, step)),
                **matching,
            )
            left -= len(moved)
            advance(len(moved))
            if not moved or left <= 0:
                break
            after = moved[-1].dead_event_id
            if rate is not None:
                time.sleep(max(0.0, began_s + (total - left) / rate - time.monotonic()))
    return total - left


def _say(outcome: dict[str, int], text: str, as_json: bool) -> None:
    click.echo(json.dumps(outcome) if as_json else text)
