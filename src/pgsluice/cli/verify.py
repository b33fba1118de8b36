"""`pgsluice pipeline verify`: compare the lake with PostgreSQL, row by row."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import datetime
from typing import Any

import click
from rich.table import Table

from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import combined, dsn_only_option, json_option
from pgsluice.cli.printing import Terminal, cell, echo, echo_json
from pgsluice.cli.types import Time
from pgsluice.verify import (
    Report,
    verify_archive,
    verify_changes,
    verify_current,
    verify_events,
)
from pgsluice.verify.report import Row

_VALUE_CHARACTERS_MAX = 60


_common = combined(
    click.option(
        "--lake",
        required=True,
        metavar="DIR",
        help="Lake table: a folder, or iceberg:CATALOG/NAMESPACE.TABLE.",
    ),
    click.option(
        "--show",
        type=click.IntRange(min=0),
        default=5,
        show_default=True,
        help="Maximum number of rows to show per kind of difference, in order of key.",
    ),
    dsn_only_option,
    json_option,
)


@click.group()
def verify() -> None:
    """Compare the lake with PostgreSQL, row by row, without Spark and Java.

    Exits with 1 if they differ: missing, extra, duplicate or changed rows, columns of another type, or a parked
    table. Memory use does not depend on the table size; the temporary folder needs 32 bytes per row.

    Requires pip install 'pgsluice[verify]', which 'pgsluice[spark]' includes.
    """


@verify.command(short_help="Compare an archive or queue with its lake table.")
@click.option("--queue", required=True, metavar="NAME", help="Work queue.")
@click.option(
    "--table",
    type=click.Choice(["archive", "queue"]),
    default="archive",
    show_default=True,
    help="Table of the queue.",
)
@click.option(
    "--dropped",
    is_flag=True,
    help="Accept messages that are in the lake and no longer in PostgreSQL.",
)
@click.option(
    "--archived-before",
    type=Time(),
    help="Require only messages archived before this time; later ones may be missing in the lake.",
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
    """Compare the rows of an archive with the lake, by msg_id and enqueued_at."""
    report = verify_archive(
        queue,
        lake,
        table=table,
        dropped=dropped,
        archived_before=archived_before,
        dsn=dsn,
        show=show,
    )
    _print(report, as_json=as_json)


@verify.command(short_help="Compare an event log with its lake table.")
@click.option("--log", required=True, metavar="NAME", help="Event log.")
@click.option(
    "--consumer",
    metavar="NAME",
    help="Compare only events up to the position of this consumer. Name the consumer of the stream into the lake, "
    "and the stream may keep running.  "
    "[default: up to the latest tick]",
)
@click.option(
    "--shard",
    metavar="NAME",
    help="Name of this database in a lake table that several shards write.",
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
    """Compare the events of a log with the lake, which may also contain older events."""
    report = verify_events(log, lake, consumer=consumer, shard=shard, dsn=dsn, show=show)
    _print(report, as_json=as_json)


@verify.command(short_help="Check that the current-state tables of a lake are complete.")
@click.option("--log", required=True, metavar="NAME", help="Event log of the lake.")
@click.option(
    "--lake",
    required=True,
    metavar="DIR",
    help="Lake folder of the pipeline changes.",
)
@click.option(
    "--tables",
    multiple=True,
    metavar="SCHEMA.TABLE",
    help="Check this table only; repeatable. Use the --tables of the pipeline.  [default: all]",
)
@dsn_only_option
@json_option
def changes(log: str, lake: str, tables: tuple[str, ...], dsn: str | None, as_json: bool) -> None:
    """Check that each captured table has a complete current-state table, without reading rows.

    Names tables that are parked, have no complete snapshot, were renamed, or lost their folder or their capture, with
    the solution. Exits with 1 if there are any. Also names the gaps in the table of events that --after-loss rebuild
    skipped. `current` compares the rows of a table.
    """
    found = verify_changes(log, lake, tables=tables or None, dsn=dsn)

    def kept(name: str) -> str:
        return f"; {found.kept[name]}" if name in found.kept else ""

    if as_json:
        echo_json(asdict(found))
    else:
        for name, since in sorted(found.complete.items()):
            state = found.states.get(name)
            changed = "" if state in (None, "same", "unknown") else f", {state} in PostgreSQL"
            echo(f"{name}: complete{f' since {since}' if since else ''}{changed}{kept(name)}")
        for name, problem in found.problems.items():
            echo(f"{name}: {problem}{kept(name)}")
        for gap in found.gaps:
            echo(f"events: {gap}")
    if found.problems:
        sys.exit(EXIT_DIFFERENCE)


@verify.command(short_help="Compare a table with its current-state table.")
@click.option("--table", required=True, metavar="NAME", help="Table, as schema.table.")
@click.option(
    "--key",
    multiple=True,
    metavar="COLUMN",
    help="Key column; repeatable.  [default: the primary key, else all columns]",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="COLUMN",
    help="Column that may be missing in the lake; repeatable.",
)
@click.option(
    "--at-tick",
    metavar="LOG",
    help="Compare in one snapshot while writers and the pipeline from this event log continue. Rows that changed since "
    "are not compared. The table needs a key.",
)
@click.option(
    "--consumer",
    metavar="NAME",
    help="Consumer of the pipeline, with --at-tick.  [default: the one recorded in the lake]",
)
@_common
def current(
    table: str,
    key: tuple[str, ...],
    ignore: tuple[str, ...],
    at_tick: str | None,
    consumer: str | None,
    lake: str,
    show: int,
    dsn: str | None,
    as_json: bool,
) -> None:
    """Compare a table with its current-state table in the lake.

    Stop writers first, and let the lake catch up; or use --at-tick.
    """
    report = verify_current(
        table,
        lake,
        key=key or None,
        ignore=ignore,
        at_tick=at_tick,
        consumer=consumer,
        dsn=dsn,
        show=show,
    )
    _print(report, as_json=as_json)


def _print(report: Report, *, as_json: bool) -> None:
    if as_json:
        echo_json(report.as_json())
    else:
        echo(str(report))
        if report.differences:
            _show(report)
    if not report.equal:
        sys.exit(EXIT_DIFFERENCE)


def _show(report: Report) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("difference", "key", "in PostgreSQL", "in the lake"):
        table.add_column(cell(name), overflow="fold")
    for difference in report.differences:
        cells = (difference.key, difference.postgresql, difference.lake)
        table.add_row(difference.kind, *(cell(_cell(row)) for row in cells))
    Terminal().print(table)


def _cell(row: Row | None) -> str:
    if row is None:
        return "-"
    return "\n".join(f"{name} {_value(value)}" for name, value in row.items())


def _value(value: str | None) -> str:
    if value is None:
        return "null"
    return value if len(value) <= _VALUE_CHARACTERS_MAX else f"{value[:_VALUE_CHARACTERS_MAX]}…"
