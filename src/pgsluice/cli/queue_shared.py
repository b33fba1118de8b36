"""What `pgsluice queue` and other commands share: a client on the server, JSON in, JSON lines and tables out."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TextIO, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.client import WorkQueue
from pgsluice.connection import connect, resolve
from pgsluice.errors import PayloadError, QueueNotFoundError

Command = TypeVar("Command", bound=Callable[..., Any])

# Messages in one transaction.
STEP = 1_000
_WIDE = 10_000

name_argument = click.argument("queue_name", metavar="QUEUE")
json_lines_option = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    help="Changes nothing: what is printed is JSON lines anyway.",
)


def time(text: str) -> datetime:
    """A time as ISO 8601 writes it, in the local time zone unless it has one."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no time; write 2026-01-31T10:00 or 2026-01-31T10:00Z"
        ) from None
    return moment if moment.utcoffset() is not None else moment.astimezone()


def filter_options(command: Command) -> Command:
    """The options that say which messages: `read_filter` makes one dictionary of them."""
    for option in (
        click.option("--until", type=time, metavar="TIME", help="Only before this time."),
        click.option(
            "--since",
            type=time,
            metavar="TIME",
            help="Only from this time on: sent, archived or given up, whichever brought it where it is.",
        ),
        click.option(
            "--conditional-headers",
            metavar="JSON",
            help="Only messages whose headers contain this JSON object.",
        ),
        click.option(
            "--conditional", metavar="JSON", help="Only messages that contain this JSON object."
        ),
    ):
        command = option(command)
    return command


def read_filter(
    conditional: str | None,
    conditional_headers: str | None,
    since: datetime | None,
    until: datetime | None,
) -> dict[str, Any]:
    """The arguments of the clients' methods from what the filter options were given."""
    given = {
        "conditional": None if conditional is None else json_value(conditional, "--conditional"),
        "conditional_headers": json_object(conditional_headers, "--conditional-headers"),
        "since": since,
        "until": until,
    }
    return {name: value for name, value in given.items() if value is not None}


@contextmanager
def work_queue(dsn: str | None, queue_name: str | None = None) -> Iterator[WorkQueue]:
    """A client whose calls are transactions of their own; a missing queue is named with the command that makes it."""
    with connect(resolve(dsn), autocommit=True) as connection:
        try:
            yield WorkQueue(connection)
        except QueueNotFoundError as error:
            if error.sqlstate != "42P01":
                raise  # it names the queue itself, which may be another one
            raise QueueNotFoundError(
                f"queue {queue_name!r} does not exist; create it with `pgsluice queue create {queue_name}`",
                sqlstate=error.sqlstate,
            ) from error


def json_value(text: str, what: str) -> Any:
    """Decode JSON, or raise PayloadError that says where it was."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise PayloadError(f"{what} is not JSON ({error}): {text.strip()[:80]!r}") from None


def json_object(text: str | None, what: str) -> dict[str, Any] | None:
    """Decode a JSON object, or raise PayloadError that says where it was; None is None."""
    if text is None:
        return None
    value = json_value(text, what)
    if not isinstance(value, dict):
        raise PayloadError(f"{what} is not a JSON object: {text.strip()[:80]!r}")
    return value


def lines(stream: TextIO) -> Iterator[str]:
    """The lines of a stream that are not empty."""
    return (line for line in stream if line.strip())


def print_lines(records: Iterable[Any]) -> None:
    """Print each record as a line of JSON."""
    for record in records:
        click.echo(_json(_fields(record)))


def report(asked: Iterable[int], found: Iterable[int], where: str) -> None:
    """End with exit code 1, and say so, when something named was not there."""
    missing = sorted(set(asked) - set(found))
    if missing:
        click.echo(f"not in {where}: {', '.join(map(str, missing))}", err=True)
        sys.exit(EXIT_DIFFERENCE)


def show(records: Iterable[Any], as_json: bool, *, empty: str) -> None:
    """Print records as a table, or as one JSON array."""
    rows = [_fields(record) for record in records]
    if as_json:
        click.echo(_json(rows))
        return
    if not rows:
        click.echo(empty)
        return
    table = Table(box=None)
    for name in rows[0]:
        table.add_column(name)
    for row in rows:
        # As text: what looks like markup in a name is part of the name.
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    # Never cut: a terminal wraps long lines, and a pipe has no width.
    Console(soft_wrap=True, width=_WIDE).print(table)


@contextmanager
def progress(title: str, total: Callable[[], int | None]) -> Iterator[Callable[[int], None]]:
    """A bar on standard error while there is a terminal to show it on; yields what to call with each step's count.

    Args:
        title: What is counted.
        total: Asked only when there is a bar, as it may cost a scan; None when it cannot be known.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as bar:
        task = bar.add_task(title, total=total() if console.is_terminal else None)
        yield lambda count: bar.advance(task, count)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        value = round(value, 3)
    return "" if value is None else str(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=timedelta.total_seconds)


def _fields(record: Any) -> dict[str, Any]:
    fields = record if isinstance(record, dict) else dataclasses.asdict(record)
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in fields.items()
    }
