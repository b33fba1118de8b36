"""`pgsluice pipeline verify`: compare the lake with PostgreSQL, row by row."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import combined, dsn_option, json_option
from pgsluice.cli.parsing import time
from pgsluice.verify import Report, verify_archive, verify_current, verify_events
from pgsluice.verify.report import Row

_VALUE_CHARACTERS_MAX = 60


_common = combined(
    click.option(
        "--lake",
        required=True,
        metavar="DIR",
        help="The table: a folder, or iceberg:catalogue/namespace.table.",
    ),
    click.option(
        "--show",
        type=click.IntRange(min=0),
        default=5,
        show_default=True,
        help="Of each kind of difference show so many rows, the first by their keys.",
    ),
    dsn_option,
    json_option,
)


@click.group()
def verify() -> None:
    """Compare the lake with PostgreSQL, row by row, without Spark and Java.

    Exit code 1 says that they differ: rows that are missing in the lake, extra, doubled or changed, or columns of
    another type. Memory does not grow with the tables; 32 bytes for each row go to the temporary folder.

    Needs pip install 'pgsluice[verify]'.
    """


@verify.command(short_help="An archive, or a queue, against its table in the lake.")
@click.option("--queue", required=True, metavar="NAME", help="The work queue.")
@click.option(
    "--table",
    type=click.Choice(["archive", "queue"]),
    default="archive",
    show_default=True,
    help="Which of its two tables.",
)
@click.option(
    "--dropped",
    is_flag=True,
    help="The lake may hold messages that PostgreSQL does not: they were dropped there.",
)
@click.option(
    "--archived-before",
    type=time,
    metavar="TIME",
    help="Messages archived at this time or later may be missing in the lake.",
)
@_common
def archive(
    queue: str,
    table: Any,
    dropped: bool,
    archived_before: datetime | None,
    lake: str,
    show: int,
    dsn: str | None,
    as_json: bool,
) -> None:
    """Compare the rows of an archive with those in the lake. A row is known by msg_id and enqueued_at."""
    report = verify_archive(
        queue,
        lake,
        table=table,
        dropped=dropped,
        archived_before=archived_before,
        dsn=dsn,
        show=show,
    )
    _answer(report, as_json=as_json)


@verify.command(short_help="An event log against its table in the lake.")
@click.option("--log", required=True, metavar="NAME", help="The event log.")
@click.option(
    "--consumer",
    metavar="NAME",
    help="Compare up to where this consumer stands, the one of the stream into the lake, which may run meanwhile. "
    "Default: up to the newest tick.",
)
@click.option(
    "--shard",
    metavar="NAME",
    help="Which rows of the lake are this database's, where a stream of several shards wrote them.",
)
@_common
def events(
    log: str,
    consumer: str | None,
    shard: str | None,
    lake: str,
    show: int,
    dsn: str | None,
    as_json: bool,
) -> None:
    """Compare the events that a log keeps with those in the lake, which may hold older ones too."""
    report = verify_events(log, lake, consumer=consumer, shard=shard, dsn=dsn, show=show)
    _answer(report, as_json=as_json)


@verify.command(short_help="A table against its current state in the lake.")
@click.option("--table", required=True, metavar="NAME", help="The table, as schema.table.")
@click.option(
    "--key",
    multiple=True,
    metavar="COLUMN",
    help="A column that tells rows apart, once for each. Default: the primary key, and without one all columns.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="COLUMN",
    help="A column that the lake need not have, once for each.",
)
@_common
def current(
    table: str,
    key: tuple[str, ...],
    ignore: tuple[str, ...],
    lake: str,
    show: int,
    dsn: str | None,
    as_json: bool,
) -> None:
    """Compare a table with its current state in the lake. Stop what writes to it first, and let the lake catch up."""
    report = verify_current(table, lake, key=key or None, ignore=ignore, dsn=dsn, show=show)
    _answer(report, as_json=as_json)


def _answer(report: Report, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        click.echo(str(report))
        if report.differences:
            _show(report)
    if not report.equal:
        sys.exit(EXIT_DIFFERENCE)


def _show(report: Report) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("difference", "key", "in PostgreSQL", "in the lake"):
        table.add_column(Text(name), overflow="fold")
    for difference in report.differences:
        cells = (difference.key, difference.postgresql, difference.lake)
        table.add_row(difference.kind, *(Text(_cell(row)) for row in cells))
    Console().print(table)


def _cell(row: Row | None) -> str:
    if row is None:
        return "-"
    return "\n".join(f"{name} {_value(value)}" for name, value in row.items())


def _value(value: str | None) -> str:
    if value is None:
        return "null"
    return value if len(value) <= _VALUE_CHARACTERS_MAX else f"{value[:_VALUE_CHARACTERS_MAX]}…"
