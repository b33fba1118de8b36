"""`pgsluice queue dead-letters` and `pgsluice group dead-letters`: list, redrive and purge what failed for good.

The commands are the same for both; `Letters` and the help texts are what differs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import Any

import click

from pgsluice.cli.clients import STEP, pages, share_group, work_queue
from pgsluice.cli.options import (
    Decorator,
    combined,
    dsn_option,
    group_argument,
    json_lines_option,
    json_option,
    log_argument,
    name_argument,
)
from pgsluice.cli.output import interruptible, print_lines, progress, report, say
from pgsluice.cli.parsing import duration, filter_options, read_filter
from pgsluice.cli.parsing import time as parse_time
from pgsluice.client import WorkQueue

_ids_argument = click.argument("ids", metavar="[ID]...", type=int, nargs=-1)


@dataclass(frozen=True)
class Letters:
    """The dead letters of a queue or the dead events of a share group.

    Attributes:
        noun: What they are called.
        where: Where they are.
        id_name: The name of their id.
        must_exist: True if redriving nothing fails where there is no such queue or group.
        browse, count, redrive, redrive_matching, purge: The client's methods.
    """

    noun: str
    where: str
    id_name: str
    must_exist: bool
    browse: Callable[..., list[Any]]
    count: Callable[..., int]
    redrive: Callable[..., list[Any]]
    redrive_matching: Callable[..., list[Any]]
    purge: Callable[..., int]


def letters_of_queue(work: WorkQueue, queue_name: str) -> Letters:
    """The dead letters of a queue."""
    return Letters(
        "dead letters",
        "the dead letters of the queue",
        "dead_letter_id",
        False,
        partial(work.browse_dead_letters, queue_name),
        partial(work.count_dead_letters, queue_name),
        partial(work.redrive, queue_name),
        partial(work.redrive_matching, queue_name),
        partial(work.purge_dead_letters, queue_name),
    )


def redrive_ids(letters: Letters, ids: Sequence[int], target: str | None) -> None:
    """Redrive dead letters by id, print the old and the new ids, and exit with 1 if one was not there."""
    redriven = letters.redrive(ids, target_queue_name=target)
    print_lines(redriven)
    report(ids, map(attrgetter(letters.id_name), redriven), letters.where)


def redrive_matching(
    letters: Letters,
    target: str | None,
    rate: int | None,
    matching: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Redrive the dead letters that a filter matches, at most `rate` a second, and print how many."""
    # No more than there are now: what fails again at once would otherwise be moved for ever.
    total = left = letters.count(**matching)
    after: dict[str, int] = {}
    step = STEP if rate is None else min(STEP, rate)
    began_s = time.monotonic()
    with (
        interruptible(lambda: f"moved {total - left}; the same command goes on"),
        progress("moved", lambda: total) as advance,
    ):
        going_on = left > 0 or letters.must_exist
        while going_on:
            qty = max(1, min(left, step))
            moved = letters.redrive_matching(target_queue_name=target, qty=qty, **after, **matching)
            left -= len(moved)
            advance(len(moved))
            going_on = bool(moved) and left > 0
            if going_on:
                after = {f"after_{letters.id_name}": getattr(moved[-1], letters.id_name)}
                if rate is not None:
                    time.sleep(max(0.0, began_s + (total - left) / rate - time.monotonic()))
    say({"redriven": total - left}, f"{total - left} {letters.noun} moved", as_json)


def _purge(
    letters: Letters, ids: Sequence[int], older_than: timedelta | None, *, as_json: bool
) -> None:
    # What dies while this runs is not older.
    began_s = time.monotonic()
    purged = 0
    with interruptible(lambda: f"deleted {purged}; the same command goes on"):
        while True:
            if older_than is None:
                deleted = letters.purge(**{f"{letters.id_name}s": ids})
            else:
                age = older_than + timedelta(seconds=time.monotonic() - began_s)
                deleted = letters.purge(older_than=age)
            purged += deleted
            if deleted == 0:
                break
    say({"purged": purged}, f"{purged} {letters.noun} deleted", as_json)


@dataclass(frozen=True)
class _Kind:
    """Differences between the commands of queues and of share groups.

    Attributes:
        letters: Opens the dead letters, given --dsn and the place.
        place_arguments: The arguments that name the place.
        filters: The options that say which dead letters, named as the client's arguments.
        into_help: The help of --into.
        helps: The help of the group, by "", and of each command, by its name.
    """

    letters: Callable[..., AbstractContextManager[Letters]]
    place_arguments: Decorator
    filters: Decorator
    into_help: str
    helps: dict[str, str]


def _commands(kind: _Kind) -> click.Group:
    commands = [_list_command(kind), _redrive_command(kind), _purge_command(kind)]
    return click.Group("dead-letters", commands, help=kind.helps[""])


def _list_command(kind: _Kind) -> click.Command:
    @click.command("list", help=kind.helps["list"])
    @kind.place_arguments
    @click.option("--after", "after_id", type=int, metavar="ID", help="Only with a higher id.")
    @click.option("--qty", type=click.IntRange(1), help="The most to print.  [default: all]")
    @click.option("--count", "count_only", is_flag=True, help="Print only how many there are.")
    @kind.filters
    @json_lines_option
    @dsn_option
    def list_(
        after_id: int | None, qty: int | None, count_only: bool, dsn: str | None, **given: Any
    ) -> None:
        if count_only and (after_id is not None or qty is not None):
            raise click.UsageError("--count goes without --after and --qty")
        place = _taken_place(given)
        matching = read_filter(**given)
        with kind.letters(dsn, **place) as letters:
            if count_only:
                click.echo(letters.count(**matching))
                return
            for page in pages(letters.browse, letters.id_name, after_id, qty, matching):
                print_lines(page)

    return list_


def _redrive_command(kind: _Kind) -> click.Command:
    @click.command("redrive", help=kind.helps["redrive"])
    @kind.place_arguments
    @_ids_argument
    @click.option("--into", "target", metavar="QUEUE", help=kind.into_help)
    @click.option("--all", "everything", is_flag=True, help="All there are by now.")
    @click.option("--rate", type=click.IntRange(1), help="The most a second.  [default: no limit]")
    @kind.filters
    @json_option
    @dsn_option
    def redrive(
        ids: tuple[int, ...],
        target: str | None,
        everything: bool,
        rate: int | None,
        as_json: bool,
        dsn: str | None,
        **given: Any,
    ) -> None:
        place = _taken_place(given)
        matching = read_filter(**given)
        if bool(ids) + bool(matching or everything) != 1:
            raise click.UsageError(
                "say what to send: ids, or a filter or --all; and one of these only"
            )
        if ids and rate is not None:
            raise click.UsageError(
                "--rate goes with a filter or --all: ids are sent in one transaction"
            )
        with kind.letters(dsn, **place) as letters:
            if ids:
                redrive_ids(letters, ids, target)
            else:
                redrive_matching(letters, target, rate, matching, as_json=as_json)

    return redrive


def _purge_command(kind: _Kind) -> click.Command:
    @click.command("purge", help=kind.helps["purge"])
    @kind.place_arguments
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
        ids: tuple[int, ...],
        older_than: timedelta | str | None,
        as_json: bool,
        dsn: str | None,
        **place: str,
    ) -> None:
        age = older_than if isinstance(older_than, timedelta) else None
        if bool(ids) == (age is not None):
            raise click.UsageError("say which: ids, or --older-than with a number and its unit")
        with kind.letters(dsn, **place) as letters:
            _purge(letters, ids, age, as_json=as_json)

    return purge


def _taken_place(given: dict[str, Any]) -> dict[str, str]:
    return {name: given.pop(name) for name in ("queue_name", "group_name") if name in given}


@contextmanager
def _queue_letters(dsn: str | None, queue_name: str) -> Iterator[Letters]:
    with work_queue(dsn, queue_name) as work:
        yield letters_of_queue(work, queue_name)


@contextmanager
def _group_letters(dsn: str | None, queue_name: str, group_name: str) -> Iterator[Letters]:
    with share_group(dsn, queue_name, group_name) as shared:
        yield Letters(
            "dead events",
            "the dead events of the group",
            "dead_event_id",
            True,
            shared.browse_dead_events,
            shared.count_dead_events,
            shared.redrive_events,
            shared.redrive_events_matching,
            shared.purge_dead_events,
        )


_queue_filters = combined(
    filter_options,
    click.option("--reason", metavar="TEXT", help="Only given up for this reason."),
    click.option(
        "--error-type", metavar="TEXT", help="Only those whose last error was of this type."
    ),
)
_group_filters = combined(
    click.option("--type", "ev_type", metavar="TEXT", help="Only events of this type."),
    click.option("--reason", metavar="TEXT", help="Only given up for this reason."),
    click.option("--ev-id", "ev_ids", type=int, multiple=True, help="Only with these ev_ids."),
    click.option(
        "--since", type=parse_time, metavar="TIME", help="Only given up from this time on."
    ),
    click.option("--until", type=parse_time, metavar="TIME", help="Only given up before."),
)
_QUEUE = _Kind(
    _queue_letters,
    name_argument,
    _queue_filters,
    into_help="Where to send them.  [default: the same]",
    helps={
        "": "Look at the dead letters of a queue, send them again, or delete them.",
        "list": """Print dead letters, lowest dead_letter_id first; those of a dropped queue are still there.

        Each with its message and headers, the reason, the last error with its type and trace, how often it was tried,
        since when, and who tried it last. It reads page by page, so it may be long: to go on later, give --after the
        last id.
        """,
        "redrive": """Move dead letters back into their queue, or another: those with these ids, or those that a
        filter matches.

        They become new messages whose attempts begin anew, and whose headers say in x-pgmq-replayed-from where they
        were. With ids it prints the old and the new ones, and exits 1 when one was not there. With a filter it works
        in transactions of a thousand at the most, and prints how many.
        """,
        "purge": """Delete dead letters for good: those with these ids, or those that are old; in steps of ten
        thousand.""",
    },
)
_GROUP = _Kind(
    _group_letters,
    combined(log_argument, group_argument),
    _group_filters,
    into_help="A work queue.  [default: the group]",
    helps={
        "": "Look at the dead events of a share group, send them again, or delete them.",
        "list": """Print dead events, lowest dead_event_id first; those of a dropped group or log are still there.

        It reads page by page, so it may be long: to go on later, give --after the last id.
        """,
        "redrive": """Move dead events back to their group, or into a work queue: those with these ids, or those
        that a filter matches.

        In the group they are new events that it alone gets, and their attempts begin anew; in a queue they are messages
        whose headers say in x-pgmq-replayed-from where they were. With ids it prints the old and the new ones, and
        exits 1 when one was not there. With a filter it works in transactions of a thousand at the most, and prints how
        many.
        """,
        "purge": """Delete dead events for good: those with these ids, or those that are old; in steps of ten
        thousand.""",
    },
)

queue_dead_letters = _commands(_QUEUE)
group_dead_letters = _commands(_GROUP)
