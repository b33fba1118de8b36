"""`pgsluice queue`: work queues from the shell, JSON lines in and out."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Any, TextIO

import click
from rich.console import Console
from rich.table import Table

from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import dsn_option, json_option
from pgsluice.client import Message, WorkQueue
from pgsluice.connection import connect, resolve
from pgsluice.errors import PayloadError, QueueNotFoundError

_BATCH = 1_000
_name = click.argument("queue_name", metavar="QUEUE")
_msg_ids = click.argument("msg_ids", metavar="MSG_ID...", type=int, nargs=-1, required=True)
_vt = click.option(
    "--vt", type=int, default=30, show_default=True, help="Seconds for which they are hidden."
)
_qty = click.option("--qty", type=int, default=1, show_default=True, help="The most to take.")


@click.group()
def queue() -> None:
    """Create, fill, read and watch work queues.

    Messages go in and out as JSON lines. Exit code 0: done; 1: something named was not there; 3: an error.
    """


@queue.command()
@_name
@dsn_option
def create(queue_name: str, dsn: str | None) -> None:
    """Create a queue; does nothing when it exists."""
    with _work_queue(dsn, queue_name) as work:
        work.create(queue_name)


@queue.command("list")
@json_option
@dsn_option
def list_(as_json: bool, dsn: str | None) -> None:
    """Show every queue, by name."""
    with _work_queue(dsn) as work:
        _show(work.list_queues(), as_json)


@queue.command()
@_name
@click.argument("messages", metavar="[JSON]...", nargs=-1)
@click.option("--headers", metavar="JSON", help="A JSON object that goes with each message.")
@click.option("--delay", type=int, default=0, show_default=True, help="Seconds until visible.")
@dsn_option
def send(
    queue_name: str, messages: tuple[str, ...], headers: str | None, delay: int, dsn: str | None
) -> None:
    """Send messages, given as arguments or as lines on standard input; prints their ids.

    Lines are sent by the thousand, each thousand in a transaction of its own. A line that is no JSON ends it, and the
    error says how many were sent before.
    """
    lines: Iterable[str] = messages or _lines(sys.stdin)
    extra = None if headers is None else _json(headers, "--headers")
    sent = 0
    with _work_queue(dsn, queue_name) as work:
        numbered = enumerate(lines, 1)
        while batch := list(islice(numbered, _BATCH)):
            try:
                values = [_json(text, f"message {number}") for number, text in batch]
                ids = work.send_batch(
                    queue_name, values, headers=[extra] * len(values), delay=delay
                )
            except PayloadError as error:
                raise PayloadError(f"{error}; {sent} messages were sent before it") from error
            sent += len(ids)
            click.echo("\n".join(map(str, ids)))


@queue.command()
@_name
@_vt
@_qty
@click.option("--conditional", metavar="JSON", help="Only messages that contain this JSON object.")
@dsn_option
def read(queue_name: str, vt: int, qty: int, conditional: str | None, dsn: str | None) -> None:
    """Claim visible messages and print them, lowest id first; nothing when there are none."""
    condition = None if conditional is None else _json(conditional, "--conditional")
    with _work_queue(dsn, queue_name) as work:
        _print_messages(work.read(queue_name, vt, qty, conditional=condition))


@queue.command()
@_name
@_qty
@dsn_option
def pop(queue_name: str, qty: int, dsn: str | None) -> None:
    """Take visible messages, delete them and print them, lowest id first."""
    with _work_queue(dsn, queue_name) as work:
        _print_messages(work.pop(queue_name, qty))


@queue.command()
@_name
@_msg_ids
@dsn_option
def archive(queue_name: str, msg_ids: tuple[int, ...], dsn: str | None) -> None:
    """Move messages into the archive; prints the ids that were there, exits 1 when one was not."""
    with _work_queue(dsn, queue_name) as work:
        _report(msg_ids, work.archive_batch(queue_name, msg_ids))


@queue.command()
@_name
@_msg_ids
@dsn_option
def delete(queue_name: str, msg_ids: tuple[int, ...], dsn: str | None) -> None:
    """Delete messages for good; prints the ids that were there, exits 1 when one was not."""
    with _work_queue(dsn, queue_name) as work:
        _report(msg_ids, work.delete_batch(queue_name, msg_ids))


@queue.command()
@_name
@click.confirmation_option(prompt="Delete every message of the queue?")
@dsn_option
def purge(queue_name: str, dsn: str | None) -> None:
    """Delete every message, visible or not; prints how many. The archive stays."""
    with _work_queue(dsn, queue_name) as work:
        click.echo(work.purge_queue(queue_name))


@queue.command()
@_name
@click.confirmation_option(prompt="Drop the queue with its messages and its archive?")
@dsn_option
def drop(queue_name: str, dsn: str | None) -> None:
    """Drop a queue with its messages and its archive; exits 1 when there is none."""
    with _work_queue(dsn, queue_name) as work:
        if not work.drop_queue(queue_name):
            click.echo(f"queue {queue_name!r} does not exist", err=True)
            sys.exit(EXIT_DIFFERENCE)


@queue.command()
@click.argument("queue_name", metavar="[QUEUE]", required=False)
@json_option
@dsn_option
def metrics(queue_name: str | None, as_json: bool, dsn: str | None) -> None:
    """Show lengths and ages (seconds) of one queue, or of all, by name."""
    with _work_queue(dsn, queue_name) as work:
        shown = work.metrics_all() if queue_name is None else [work.metrics(queue_name)]
        _show(shown, as_json)


@contextmanager
def _work_queue(dsn: str | None, queue_name: str | None = None) -> Iterator[WorkQueue]:
    with connect(resolve(dsn), autocommit=True) as connection:
        try:
            yield WorkQueue(connection)
        except QueueNotFoundError as error:
            raise QueueNotFoundError(
                f"queue {queue_name!r} does not exist; create it with `pgsluice queue create {queue_name}`",
                sqlstate=error.sqlstate,
            ) from error


def _lines(stream: TextIO) -> Iterator[str]:
    return (line for line in stream if line.strip())


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise PayloadError(f"{what} is not JSON ({error}): {text.strip()[:80]!r}") from None


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


def _print_messages(messages: list[Message]) -> None:
    for message in messages:
        fields = {name: _plain(value) for name, value in dataclasses.asdict(message).items()}
        click.echo(json.dumps(fields, ensure_ascii=False))


def _report(asked: tuple[int, ...], found: list[int]) -> None:
    for msg_id in found:
        click.echo(msg_id)
    missing = sorted(set(asked) - set(found))
    if missing:
        click.echo(f"not in the queue: {', '.join(map(str, missing))}", err=True)
        sys.exit(EXIT_DIFFERENCE)


def _show(records: list[Any], as_json: bool) -> None:
    rows = [{k: _plain(v) for k, v in dataclasses.asdict(record).items()} for record in records]
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    if not rows:
        click.echo("no queues")
        return
    table = Table(box=None)
    for name in rows[0]:
        table.add_column(name)
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    Console(soft_wrap=True).print(table)
