"""`pgsluice queue dead-letters` and `pgsluice group dead-letters`: list, redrive and purge.

Both have the same commands; `Letters`, the filters and the help texts differ.
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

from pgsluice.cli.clients import (
    STEP,
    check_queue_exists,
    pages,
    queue_exists,
    share_group,
    work_queue,
)
from pgsluice.cli.options import (
    Decorator,
    combined,
    confirm,
    dsn_option,
    group_argument,
    json_lines_option,
    json_option,
    log_argument,
    name_argument,
    yes_option,
)
from pgsluice.cli.output import interruptible, print_lines, print_result, progress, report
from pgsluice.cli.parsing import filter_options, read_filter
from pgsluice.cli.printing import echo
from pgsluice.cli.types import Duration, Time
from pgsluice.client import WorkQueue
from pgsluice.errors import QueueNotFoundError

_ids_argument = click.argument("ids", metavar="[ID]...", type=int, nargs=-1)


@dataclass(frozen=True)
class Letters:
    """The dead letters of a queue or of a share group.

    Attributes:
        noun: Their name in messages.
        where: Their place in messages.
        id_name: Name of their id.
        check_exists: Raises if the queue or group does not exist; called when no dead letter was found.
        browse, count, redrive, redrive_matching, purge: Methods of the client.
    """

    noun: str
    where: str
    id_name: str
    check_exists: Callable[[], object]
    browse: Callable[..., list[Any]]
    count: Callable[..., int]
    redrive: Callable[..., list[Any]]
    redrive_matching: Callable[..., list[Any]]
    purge: Callable[..., int]


def letters_of_queue(work: WorkQueue, queue_name: str) -> Letters:
    """Return the dead letters of a queue."""

    def check_exists() -> None:
        if not queue_exists(work, queue_name):
            raise QueueNotFoundError(
                f"queue {queue_name!r} does not exist and has no dead letters; see: pgsluice queue list"
            )

    return Letters(
        "dead letters",
        "the dead letters of the queue",
        "dead_letter_id",
        check_exists,
        partial(work.browse_dead_letters, queue_name),
        partial(work.count_dead_letters, queue_name),
        partial(work.redrive, queue_name),
        partial(work.redrive_matching, queue_name),
        partial(work.purge_dead_letters, queue_name),
    )


def redrive_ids(letters: Letters, ids: Sequence[int], target: str | None) -> None:
    """Redrive dead letters by id and print the old and new ids. Exits with 1 if one was not found."""
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
    """Redrive dead letters that match a filter, at most `rate` per second, and print their number."""
    # Limited to the current number: messages that fail again immediately would be redriven forever.
    total = left = letters.count(**matching)
    after: dict[str, int] = {}
    step = STEP if rate is None else min(STEP, rate)
    began_s = time.monotonic()
    with (
        interruptible(lambda: f"redrove {total - left}; run the command again to continue"),
        progress("redriven", lambda: total) as advance,
    ):
        if left == 0:
            letters.check_exists()
        going_on = left > 0
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
    print_result({"redriven": total - left}, f"{total - left} {letters.noun} redriven", as_json)


def _purge(
    letters: Letters, ids: Sequence[int], older_than_s: float | None, *, as_json: bool
) -> None:
    began_s = time.monotonic()
    purged = 0
    with interruptible(lambda: f"deleted {purged}; run the command again to continue"):
        while True:
            if older_than_s is None:
                deleted = letters.purge(**{f"{letters.id_name}s": ids})
            else:
                # A message that is dead-lettered during the purge is not older.
                age_s = older_than_s + time.monotonic() - began_s
                deleted = letters.purge(older_than=timedelta(seconds=age_s))
            purged += deleted
            if deleted == 0:
                break
    if purged == 0:
        letters.check_exists()
    print_result({"purged": purged}, f"{purged} {letters.noun} deleted", as_json)


@dataclass(frozen=True)
class _Kind:
    """Differences between the commands of queues and of share groups.

    Attributes:
        letters: Opens the dead letters of a queue or group.
        place_arguments: Arguments that name the queue or group.
        filters: Filter options, named as the client's arguments.
        into_help: Help of --into.
        helps: Help of each command by name, and of the group by "".
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
    @click.option("--after", "after_id", type=int, metavar="ID", help="Only higher ids.")
    @click.option("--qty", type=click.IntRange(1), help="Maximum number.  [default: all]")
    @click.option("--count", "count_only", is_flag=True, help="Print the number only.")
    @kind.filters
    @json_lines_option
    @dsn_option
    def list_(
        after_id: int | None, qty: int | None, count_only: bool, dsn: str | None, **given: Any
    ) -> None:
        if count_only and (after_id is not None or qty is not None):
            raise click.UsageError("--count and --after or --qty are mutually exclusive")
        place = _pop_place(given)
        matching = read_filter(**given)
        with kind.letters(dsn, **place) as letters:
            if count_only:
                found = letters.count(**matching)
                echo(found)
            else:
                found = 0
                for page in pages(letters.browse, letters.id_name, after_id, qty, matching):
                    print_lines(page)
                    found += len(page)
            if found == 0:
                letters.check_exists()

    return list_


def _redrive_command(kind: _Kind) -> click.Command:
    @click.command("redrive", help=kind.helps["redrive"])
    @kind.place_arguments
    @_ids_argument
    @click.option("--into", "target", metavar="QUEUE", help=kind.into_help)
    @click.option("--all", "everything", is_flag=True, help="Redrive all.")
    @click.option(
        "--rate", type=click.IntRange(1), help="Maximum number per second.  [default: no limit]"
    )
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
        place = _pop_place(given)
        matching = read_filter(**given)
        if bool(ids) + bool(matching or everything) != 1:
            raise click.UsageError("give one of: ids, a filter or --all")
        if ids and rate is not None:
            raise click.UsageError(
                "--rate requires a filter or --all; ids are redriven in one transaction"
            )
        if target is not None:
            with work_queue(dsn) as work:
                check_queue_exists(work, target)
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
        "older_than_s",
        type=Duration(),
        help="Purge what was dead-lettered longer ago than this; 0 purges all.",
    )
    @yes_option
    @json_option
    @dsn_option
    def purge(
        ids: tuple[int, ...],
        older_than_s: float | None,
        yes: bool,
        as_json: bool,
        dsn: str | None,
        **place: str,
    ) -> None:
        if bool(ids) == (older_than_s is not None):
            raise click.UsageError("give one of: ids, --older-than")
        confirm(yes, "Delete these dead letters permanently?")
        with kind.letters(dsn, **place) as letters:
            _purge(letters, ids, older_than_s, as_json=as_json)

    return purge


def _pop_place(given: dict[str, Any]) -> dict[str, str]:
    return {name: given.pop(name) for name in ("queue_name", "group_name") if name in given}


@contextmanager
def _queue_letters(dsn: str | None, queue_name: str) -> Iterator[Letters]:
    with work_queue(dsn, queue_name) as work:
        yield letters_of_queue(work, queue_name)


@contextmanager
def _group_letters(dsn: str | None, queue_name: str, group_name: str) -> Iterator[Letters]:
    with share_group(dsn, queue_name, group_name) as shared:
        yield Letters(
            "dead letters",
            "the dead letters of the group",
            "dead_event_id",
            shared.info,
            shared.browse_dead_events,
            shared.count_dead_events,
            shared.redrive_events,
            shared.redrive_events_matching,
            shared.purge_dead_events,
        )


_queue_filters = combined(
    filter_options("dead-lettered"),
    click.option(
        "--reason",
        metavar="TEXT",
        help='Only dead letters with this reason, such as "too many attempts".',
    ),
    click.option(
        "--error-type",
        metavar="TEXT",
        help="Only dead letters whose last error has this type, such as ValueError.",
    ),
)
_group_filters = combined(
    click.option("--ev-type", metavar="TEXT", help="Only events of this type."),
    click.option(
        "--reason",
        metavar="TEXT",
        help='Only dead letters with this reason, such as "too many attempts".',
    ),
    click.option("--ev-id", "ev_ids", type=int, multiple=True, help="Only this ev_id; repeatable."),
    click.option("--since", type=Time(), help="Only events dead-lettered at this time or later."),
    click.option("--until", type=Time(), help="Only events dead-lettered before this time."),
)
_QUEUE = _Kind(
    _queue_letters,
    name_argument,
    _queue_filters,
    into_help="Destination queue.  [default: QUEUE]",
    helps={
        "": """List, redrive or purge the dead letters of a queue.

        Workers move a message here after its last attempt, or immediately if its handler rejects it.
        """,
        "list": """Print dead letters in order of dead_letter_id; those of a dropped queue are kept.

        Each has the message and headers, the reason, the last error with its type and traceback, the number of
        attempts, the first attempt and the last worker. Reads page by page; to continue later, pass the last id to
        --after.
        """,
        "redrive": """Move dead letters back to their queue or another, by id, by filter, or all.

        Each becomes a new message with the attempt count reset, and its origin in the header x-pgmq-replayed-from.
        With ids, prints the old and new ids, and exits with 1 if one was not found. With a filter, works in
        transactions of at most 1,000 and prints the number.
        """,
        "purge": """Delete dead letters permanently, by id or age, in batches of 10,000, and print their number.""",
    },
)
_GROUP = _Kind(
    _group_letters,
    combined(log_argument, group_argument),
    _group_filters,
    into_help="Destination work queue.  [default: the group]",
    helps={
        "": """List, redrive or purge the dead letters of a share group.

        An event is moved here after its last attempt or delivery, or immediately if its consumer rejects it.
        """,
        "list": """Print dead letters in order of dead_event_id; those of a dropped group or log are kept.

        Reads page by page; to continue later, pass the last id to --after.
        """,
        "redrive": """Move dead letters back to their group or to a work queue, by id, by filter, or all.

        In the group, each becomes a new event with the attempt count reset, for this group only; in a queue, a message
        with its origin in the header x-pgmq-replayed-from. With ids, prints the old and new ids, and exits with 1 if
        one was not found. With a filter, works in transactions of at most 1,000 and prints the number.
        """,
        "purge": """Delete dead letters permanently, by id or age, in batches of 10,000.""",
    },
)

queue_dead_letters = _commands(_QUEUE)
group_dead_letters = _commands(_GROUP)
