"""`pgsluice queue dead-letters`: messages that failed for good, and sending them again."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

from pgsluice.cli.clients import work_queue
from pgsluice.cli.options import dsn_option, json_lines_option, json_option, name_argument
from pgsluice.cli.output import print_lines, report
from pgsluice.cli.parsing import filter_options, read_filter
from pgsluice.cli.queue_archive import duration, interruptible, say
from pgsluice.cli.queue_archive import redrive as redrive_matching
from pgsluice.cli.queue_look import pages

Command = TypeVar("Command", bound=Callable[..., Any])

_ids_argument = click.argument("ids", metavar="[ID]...", type=int, nargs=-1)


def _filter_options(command: Command) -> Command:
    """The options that say which dead letters: those given become one dictionary, by `_matching`."""
    for option in (
        click.option(
            "--error-type", metavar="TEXT", help="Only those whose last error was of this type."
        ),
        click.option("--reason", metavar="TEXT", help="Only given up for this reason."),
    ):
        command = option(command)
    return filter_options(command)


def _matching(
    reason: str | None,
    error_type: str | None,
    conditional: str | None,
    conditional_headers: str | None,
    since: datetime | None,
    until: datetime | None,
) -> dict[str, Any]:
    matching = read_filter(conditional, conditional_headers, since, until)
    given = {"reason": reason, "error_type": error_type}
    return matching | {name: value for name, value in given.items() if value is not None}


@click.group("dead-letters")
def dead_letters() -> None:
    """Look at the dead letters of a queue, send them again, or delete them."""


@dead_letters.command("list")
@name_argument
@click.option("--after", "after_id", type=int, metavar="ID", help="Only with a higher id.")
@click.option("--qty", type=click.IntRange(1), help="The most to print.  [default: all]")
@click.option("--count", "count_only", is_flag=True, help="Print only how many there are.")
@_filter_options
@json_lines_option
@dsn_option
def list_(
    queue_name: str,
    after_id: int | None,
    qty: int | None,
    count_only: bool,
    dsn: str | None,
    **given: Any,
) -> None:
    """Print dead letters, lowest dead_letter_id first; those of a dropped queue are still there.

    Each with its message and headers, the reason, the last error with its type and trace, how often it was tried, since
    when, and who tried it last. It reads page by page, so it may be long: to go on later, give --after the last id.
    """
    if count_only and (after_id is not None or qty is not None):
        raise click.UsageError("--count goes without --after and --qty")
    matching = _matching(**given)
    with work_queue(dsn, queue_name) as work:
        if count_only:
            click.echo(work.count_dead_letters(queue_name, **matching))
            return
        for page in pages(work, queue_name, "dead", after_id, qty, matching):
            print_lines(page)


@dead_letters.command()
@name_argument
@_ids_argument
@click.option("--into", "target", metavar="QUEUE", help="Where to send them.  [default: the same]")
@click.option("--all", "everything", is_flag=True, help="All there are by now.")
@click.option("--rate", type=click.IntRange(1), help="The most a second.  [default: no limit]")
@_filter_options
@json_option
@dsn_option
def redrive(
    queue_name: str,
    ids: tuple[int, ...],
    target: str | None,
    everything: bool,
    rate: int | None,
    as_json: bool,
    dsn: str | None,
    **given: Any,
) -> None:
    """Move dead letters back into their queue, or another: those with these ids, or those that a filter matches.

    They become new messages whose attempts begin anew, and whose headers say in x-pgmq-replayed-from where they were.
    With ids it prints the old and the new ones, and exits 1 when one was not there. With a filter it works in
    transactions of a thousand at the most, and prints how many.
    """
    matching = _matching(**given)
    if bool(ids) + bool(matching or everything) != 1:
        raise click.UsageError("say what to send: ids, or a filter or --all; and one of these only")
    if ids and rate is not None:
        raise click.UsageError(
            "--rate goes with a filter or --all: ids are sent in one transaction"
        )
    with work_queue(dsn, queue_name) as work:
        if ids:
            redriven = work.redrive(queue_name, ids, target_queue_name=target)
            print_lines(redriven)
            report(ids, (pair.dead_letter_id for pair in redriven), "the dead letters of the queue")
            return
        moved = redrive_matching(work, queue_name, target, rate, matching)
    say({"redriven": moved}, f"{moved} dead letters moved", as_json)


@dead_letters.command()
@name_argument
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
    ids: tuple[int, ...],
    older_than: timedelta | str | None,
    as_json: bool,
    dsn: str | None,
) -> None:
    """Delete dead letters for good: those with these ids, or those that are old; in steps of ten thousand."""
    if bool(ids) == isinstance(older_than, timedelta):
        raise click.UsageError("say which: ids, or --older-than with a number and its unit")
    # What dies while this runs is not older.
    began_s = time.monotonic()
    purged = 0
    with (
        work_queue(dsn, queue_name) as work,
        interruptible(lambda: f"deleted {purged}; the same command goes on"),
    ):
        while True:
            if isinstance(older_than, timedelta):
                age = older_than + timedelta(seconds=time.monotonic() - began_s)
                deleted = work.purge_dead_letters(queue_name, older_than=age)
            else:
                deleted = work.purge_dead_letters(queue_name, dead_letter_ids=ids)
            purged += deleted
            if deleted == 0:
                break
    say({"purged": purged}, f"{purged} dead letters deleted", as_json)
