"""`pgsluice queue`: work queues from the shell, JSON lines in and out."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from pgsluice.cli.clients import send_texts, work_queue
from pgsluice.cli.dead_letters import queue_dead_letters
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import dsn_option, json_lines_option, json_option, name_argument
from pgsluice.cli.output import print_lines, report, show
from pgsluice.cli.parsing import json_object, json_value, lines
from pgsluice.cli.queue_archive import exports, replay, replays, retention
from pgsluice.cli.queue_limits import blocked, limits, unpark
from pgsluice.cli.queue_look import browse, count, get, peek
from pgsluice.cli.queue_partitions import create_queue, partition_options, partitions
from pgsluice.cli.queue_retries import retry_policy
from pgsluice.cli.queue_streams import streams
from pgsluice.cli.queue_tail import tail
from pgsluice.cli.queue_topics import topics

_msg_ids = click.argument("msg_ids", metavar="MSG_ID...", type=int, nargs=-1, required=True)
_vt = click.option(
    "--vt", type=int, default=30, show_default=True, help="Seconds for which they are hidden."
)
_qty = click.option("--qty", type=int, default=1, show_default=True, help="The most to take.")


@click.group()
def queue() -> None:
    """Create, fill, read and watch work queues.

    Messages go in and out as JSON lines. Exit code 0: done; 1: something named was not there; 2: the command line
    cannot be understood; 3: an error.
    """


@queue.command()
@name_argument
@partition_options
@json_lines_option
@dsn_option
def create(queue_name: str, dsn: str | None, **options: Any) -> None:
    """Create a queue; does nothing when it exists, but changes how it is partitioned if it is."""
    with work_queue(dsn, queue_name) as work:
        create_queue(work, queue_name, **options)


@queue.command("list")
@json_option
@dsn_option
def list_(as_json: bool, dsn: str | None) -> None:
    """Show every queue, by name."""
    with work_queue(dsn) as work:
        show(work.list_queues(), as_json, empty="no queues")


@queue.command()
@name_argument
@click.argument("messages", metavar="[JSON]...", nargs=-1)
@click.option("--headers", metavar="JSON", help="A JSON object that goes with each message.")
@click.option("--delay", type=int, default=0, show_default=True, help="Seconds until visible.")
@json_lines_option
@dsn_option
def send(
    queue_name: str, messages: tuple[str, ...], headers: str | None, delay: int, dsn: str | None
) -> None:
    """Send messages, given as arguments or as lines on standard input; prints their ids.

    Lines are sent by the thousand, each thousand in a transaction of its own. A line that is no JSON ends it, and the
    error says how many were sent before.
    """
    texts: Iterable[str] = messages or lines(sys.stdin)
    extra = json_object(headers, "--headers")
    with work_queue(dsn, queue_name) as work:

        def send(values: list[Any]) -> list[int]:
            return work.send_batch(queue_name, values, headers=[extra] * len(values), delay=delay)

        for ids in send_texts(texts, send):
            click.echo("\n".join(map(str, ids)))


@queue.command()
@name_argument
@_vt
@_qty
@click.option("--conditional", metavar="JSON", help="Only messages that contain this JSON object.")
@json_lines_option
@dsn_option
def read(queue_name: str, vt: int, qty: int, conditional: str | None, dsn: str | None) -> None:
    """Claim visible messages and print them, lowest id first; nothing when there are none."""
    condition = None if conditional is None else json_value(conditional, "--conditional")
    with work_queue(dsn, queue_name) as work:
        print_lines(work.read(queue_name, vt, qty, conditional=condition))


@queue.command()
@name_argument
@_qty
@json_lines_option
@dsn_option
def pop(queue_name: str, qty: int, dsn: str | None) -> None:
    """Take visible messages, delete them and print them, lowest id first."""
    with work_queue(dsn, queue_name) as work:
        print_lines(work.pop(queue_name, qty))


@queue.command()
@name_argument
@_msg_ids
@json_lines_option
@dsn_option
def archive(queue_name: str, msg_ids: tuple[int, ...], dsn: str | None) -> None:
    """Move messages into the archive; prints the ids that were there, exits 1 when one was not."""
    with work_queue(dsn, queue_name) as work:
        _acknowledged(msg_ids, work.archive_batch(queue_name, msg_ids))


@queue.command()
@name_argument
@_msg_ids
@json_lines_option
@dsn_option
def delete(queue_name: str, msg_ids: tuple[int, ...], dsn: str | None) -> None:
    """Delete messages for good; prints the ids that were there, exits 1 when one was not."""
    with work_queue(dsn, queue_name) as work:
        _acknowledged(msg_ids, work.delete_batch(queue_name, msg_ids))


@queue.command()
@name_argument
@click.confirmation_option(prompt="Delete every message of the queue?")
@json_lines_option
@dsn_option
def purge(queue_name: str, dsn: str | None) -> None:
    """Delete every message, visible or not; prints how many. The archive stays."""
    with work_queue(dsn, queue_name) as work:
        click.echo(work.purge_queue(queue_name))


@queue.command()
@name_argument
@click.confirmation_option(prompt="Drop the queue with its messages and its archive?")
@json_lines_option
@dsn_option
def drop(queue_name: str, dsn: str | None) -> None:
    """Drop a queue with its messages and its archive; exits 1 when there is none."""
    with work_queue(dsn, queue_name) as work:
        if not work.drop_queue(queue_name):
            click.echo(f"queue {queue_name!r} does not exist", err=True)
            sys.exit(EXIT_DIFFERENCE)


@queue.command()
@click.argument("queue_name", metavar="[QUEUE]", required=False)
@json_option
@dsn_option
def metrics(queue_name: str | None, as_json: bool, dsn: str | None) -> None:
    """Show lengths and ages (seconds) of one queue, or of all, by name."""
    with work_queue(dsn, queue_name) as work:
        shown = work.metrics_all() if queue_name is None else [work.metrics(queue_name)]
        show(shown, as_json, empty="no queues")


def _acknowledged(asked: tuple[int, ...], found: list[int]) -> None:
    for msg_id in found:
        click.echo(msg_id)
    report(asked, found, "the queue")


for _command in (
    *(blocked, browse, count, queue_dead_letters, exports, get, limits, partitions, peek, replay),
    *(replays, retention, retry_policy, streams, tail, topics, unpark),
):
    queue.add_command(_command)
