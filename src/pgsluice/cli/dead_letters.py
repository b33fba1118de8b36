"""`pgsluice dead-letters`: list, redrive and purge the dead letters of a queue, share group or consumer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import click
from psycopg import Connection

from pgsluice.cli.clients import (
    STEP,
    check_log_exists,
    check_queue_exists,
    open_connection,
    pages,
    queue_exists,
    work_queue,
)
from pgsluice.cli.options import (
    accepted_yes_option,
    combined,
    confirm,
    dsn_option,
    json_lines_option,
    json_option,
    yes_option,
)
from pgsluice.cli.output import interruptible, print_lines, print_result, progress, report
from pgsluice.cli.parsing import filter_options, matching_option, read_filter
from pgsluice.cli.printing import echo
from pgsluice.cli.types import Duration
from pgsluice.client import DeadLetters, EventLog, WorkQueue
from pgsluice.client.sentences import counted
from pgsluice.errors import ConsumerNotFoundError, QueueNotFoundError

_place = combined(
    click.argument("queue_name", metavar="QUEUE"),
    click.option(
        "--consumer",
        "consumer_name",
        metavar="NAME",
        help="Share group or consumer of the log QUEUE.  [default: QUEUE is a queue]",
    ),
)
_ids_argument = click.argument("ids", metavar="[ID]...", type=int, nargs=-1)
_filters = combined(
    filter_options("dead-lettered"),
    matching_option,
    click.option(
        "--msg-id",
        "msg_ids",
        type=int,
        multiple=True,
        help="Only this msg_id, or ev_id of an event; repeatable.",
    ),
    click.option("--ev-type", metavar="TEXT", help="Only events of this type."),
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


@click.group("dead-letters")
def dead_letters() -> None:
    """List, redrive or purge the dead letters of a queue, or of a share group or consumer of a log.

    A message or event becomes a dead letter after its last attempt or delivery, or immediately if its handler rejects
    it.
    """


@dataclass(frozen=True)
class _Letters:
    """The dead letters of a queue, share group or consumer.

    Attributes:
        connection: A connection in autocommit mode.
        queue_name: The queue, or the log.
        consumer_name: The share group or consumer, or None.
    """

    connection: Connection[Any]
    queue_name: str
    consumer_name: str | None

    @property
    def client(self) -> DeadLetters:
        """Their client."""
        return DeadLetters(self.connection, self.queue_name, self.consumer_name)

    def check_exists(self) -> None:
        """Raise an error if nothing is there; called when no dead letter was found."""
        if self.consumer_name is None:
            if not queue_exists(WorkQueue(self.connection), self.queue_name):
                raise QueueNotFoundError(
                    f"queue {self.queue_name!r} does not exist and has no dead letters; see: pgsluice queue list"
                )
            return
        log = EventLog(self.connection)
        consumers = log.list_consumers(self.queue_name)
        if not consumers:
            check_log_exists(log, self.queue_name)
        if all(each.consumer_name != self.consumer_name for each in consumers):
            raise ConsumerNotFoundError(
                f"log {self.queue_name!r} has neither a share group nor a consumer {self.consumer_name!r}, and no dead "
                f"letters of it; see: pgsluice log consumers {self.queue_name}"
            )


@contextmanager
def _open(dsn: str | None, queue_name: str, consumer_name: str | None) -> Iterator[_Letters]:
    with open_connection(dsn) as connection:
        yield _Letters(connection, queue_name, consumer_name)


@dead_letters.command("list")
@_place
@click.option("--after", "after_id", type=int, metavar="ID", help="Only higher ids.")
@click.option("--qty", type=click.IntRange(1), help="Maximum number.  [default: all]")
@click.option("--count", "count_only", is_flag=True, help="Print the number only.")
@_filters
@json_lines_option
@dsn_option
def list_(
    queue_name: str,
    consumer_name: str | None,
    after_id: int | None,
    qty: int | None,
    count_only: bool,
    dsn: str | None,
    **given: Any,
) -> None:
    """Print dead letters in order of dead_letter_id; those of a dropped queue, log or share group are kept.

    Each has the message and headers, or the fields of the event, the reason, the last error with its type and
    traceback, the number of attempts, the first attempt and the last worker. Reads page by page; to continue later,
    pass the last id to --after.
    """
    if count_only and (after_id is not None or qty is not None):
        raise click.UsageError("--count and --after or --qty are mutually exclusive")
    matching = read_filter(**given)
    with _open(dsn, queue_name, consumer_name) as letters:
        if count_only:
            found = letters.client.count(**matching)
            echo(found)
        else:
            found = 0
            for page in pages(letters.client.browse, "dead_letter_id", after_id, qty, matching):
                print_lines(page)
                found += len(page)
        if found == 0:
            letters.check_exists()


@dead_letters.command()
@_place
@_ids_argument
@click.option(
    "--into", "target", metavar="QUEUE", help="Destination queue.  [default: where they came from]"
)
@click.option("--all", "everything", is_flag=True, help="Redrive all.")
@click.option(
    "--rate", type=click.IntRange(1), help="Maximum number per second.  [default: no limit]"
)
@accepted_yes_option
@_filters
@json_option
@dsn_option
def redrive(
    queue_name: str,
    consumer_name: str | None,
    ids: tuple[int, ...],
    target: str | None,
    everything: bool,
    rate: int | None,
    as_json: bool,
    dsn: str | None,
    **given: Any,
) -> None:
    """Move dead letters back, or to another queue, by id, by filter, or all.

    A message becomes a new message of its queue, an event a new event of its log that only its share group or consumer
    receives, with the attempt count reset. Messages have their origin in the header x-pgmq-replayed-from. With ids,
    prints the old and new ids, and exits with 1 if one was not found. With a filter, works in transactions of at most
    1,000 and prints the number.
    """
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
    with _open(dsn, queue_name, consumer_name) as letters:
        if ids:
            redriven = letters.client.redrive(ids, target_queue_name=target)
            print_lines(redriven)
            report(ids, (each.dead_letter_id for each in redriven), "the dead letters")
        else:
            _redrive_matching(letters, target, rate, matching, as_json=as_json)


def _redrive_matching(
    letters: _Letters,
    target: str | None,
    rate: int | None,
    matching: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    # Limited to the current number: messages that fail again immediately would be redriven forever.
    total = left = letters.client.count(**matching)
    after_id: int | None = None
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
            moved = letters.client.redrive_matching(
                target_queue_name=target,
                after_dead_letter_id=after_id,
                qty=max(1, min(left, step)),
                **matching,
            )
            left -= len(moved)
            advance(len(moved))
            going_on = bool(moved) and left > 0
            if going_on:
                after_id = moved[-1].dead_letter_id
                if rate is not None:
                    time.sleep(max(0.0, began_s + (total - left) / rate - time.monotonic()))
    print_result(
        {"redriven": total - left}, f"{counted(total - left, 'dead letter')} redriven", as_json
    )


@dead_letters.command()
@_place
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
    queue_name: str,
    consumer_name: str | None,
    ids: tuple[int, ...],
    older_than_s: float | None,
    yes: bool,
    as_json: bool,
    dsn: str | None,
) -> None:
    """Delete dead letters permanently, by id or age, in batches of 10,000, and print their number."""
    if bool(ids) == (older_than_s is not None):
        raise click.UsageError("give one of: ids, --older-than")
    confirm(yes, "Delete these dead letters permanently?")
    with _open(dsn, queue_name, consumer_name) as letters:
        _purge(letters, ids, older_than_s, as_json=as_json)


def _purge(
    letters: _Letters, ids: Sequence[int], older_than_s: float | None, *, as_json: bool
) -> None:
    began_s = time.monotonic()
    purged = 0
    with interruptible(lambda: f"deleted {purged}; run the command again to continue"):
        while True:
            if older_than_s is None:
                deleted = letters.client.purge(dead_letter_ids=ids)
            else:
                # A message that is dead-lettered during the purge is not older.
                age_s = older_than_s + time.monotonic() - began_s
                deleted = letters.client.purge(older_than=timedelta(seconds=age_s))
            purged += deleted
            if deleted == 0:
                break
    if purged == 0:
        letters.check_exists()
    print_result({"purged": purged}, f"{counted(purged, 'dead letter')} deleted", as_json)
