"""`pgsluice queue peek`, `browse`, `count` and `get`: inspect messages without claiming them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from pgsluice.cli.clients import pages, work_queue
from pgsluice.cli.options import dsn_option, json_lines_option, name_argument
from pgsluice.cli.output import print_lines, report
from pgsluice.cli.parsing import filter_options, read_filter

_in = click.option(
    "--in",
    "relation",
    type=click.Choice(["queue", "archive", "dead"]),
    default="queue",
    show_default=True,
    help="The queue, its archive or its dead letters (dead).",
)


@click.command()
@name_argument
@click.option(
    "--qty",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Maximum number of messages.",
)
@click.option(
    "--after",
    "after_msg_id",
    type=int,
    metavar="MSG_ID",
    help="Only messages with a higher msg_id.",
)
@json_lines_option
@dsn_option
def peek(queue_name: str, qty: int, after_msg_id: int | None, dsn: str | None) -> None:
    """Print the first messages of a queue, visible or not; their visibility and read_ct do not change."""
    with work_queue(dsn, queue_name) as work:
        print_lines(work.peek(queue_name, qty, after_msg_id=after_msg_id))


@click.command()
@name_argument
@click.argument("msg_ids", metavar="MSG_ID...", type=int, nargs=-1, required=True)
@json_lines_option
@dsn_option
def get(queue_name: str, msg_ids: tuple[int, ...], dsn: str | None) -> None:
    """Print messages by msg_id, from the queue, archive or dead letters. Exits with 1 if one was not found.

    The field state is one of: visible, in flight, delayed, archived, dead.
    """
    with work_queue(dsn, queue_name) as work:
        found = work.get_messages(queue_name, msg_ids)
    print_lines(found)
    report(msg_ids, (message.msg_id for message in found), "the queue, archive or dead letters")


@click.command()
@name_argument
@_in
@click.option(
    "--after",
    "after_id",
    type=int,
    metavar="ID",
    help="Only messages with a higher msg_id (dead letters: dead_letter_id).",
)
@click.option("--qty", type=click.IntRange(1), help="Maximum number of messages.  [default: all]")
@filter_options("sent (in the archive: archived)")
@json_lines_option
@dsn_option
def browse(
    queue_name: str,
    relation: str,
    after_id: int | None,
    qty: int | None,
    dsn: str | None,
    **given: Any,
) -> None:
    """List messages of a queue, its archive or dead letters by filter, without reading them.

    Prints in order of id. Reads page by page; to continue later, pass the last id to --after.
    """
    matching = read_filter(**given)
    with work_queue(dsn, queue_name) as work:
        if relation == "dead":
            method: Callable[..., Any] = partial(work.browse_dead_letters, queue_name)
            id_name = "dead_letter_id"
        else:
            method, id_name = partial(work.browse, queue_name, relation), "msg_id"
        for page in pages(method, id_name, after_id, qty, matching):
            print_lines(page)


@click.command()
@name_argument
@_in
@filter_options("sent (in the archive: archived)")
@json_lines_option
@dsn_option
def count(queue_name: str, relation: str, dsn: str | None, **given: Any) -> None:
    """Count the messages that match the options; scans the whole table."""
    matching = read_filter(**given)
    with work_queue(dsn, queue_name) as work:
        if relation == "dead":
            click.echo(work.count_dead_letters(queue_name, **matching))
        else:
            click.echo(work.count_messages(queue_name, relation, **matching))
