"""Output of commands: JSON lines, tables, progress bars and missing ids."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from rich.table import Table

from pgsluice.cli.main import EXIT_DIFFERENCE, EXIT_INTERRUPTED
from pgsluice.cli.printing import Terminal, cell, echo, echo_json
from pgsluice.errors import PrivilegeError

_WIDE = 10_000


def print_lines(records: Iterable[Any]) -> None:
    """Print each record as a line of JSON."""
    for record in records:
        echo_json(fields_of(record), timedelta.total_seconds)


def report(requested: Iterable[int], found: Iterable[int], where: str) -> None:
    """Exit with 1 and name the ids that were not found, if any."""
    missing = sorted(set(requested) - set(found))
    if missing:
        echo(f"not found in {where}: {', '.join(map(str, missing))}", err=True)
        sys.exit(EXIT_DIFFERENCE)


def show(records: Iterable[Any], as_json: bool, *, empty: str) -> None:
    """Print records as a table, or as one JSON array."""
    rows = [fields_of(record) for record in records]
    if as_json:
        echo_json(rows, timedelta.total_seconds)
        return
    if not rows:
        echo(empty)
        return
    table = Table(box=None)
    for name in rows[0]:
        table.add_column(name)
    for row in rows:
        table.add_row(*(cell(_cell(value)) for value in row.values()))
    # Never truncate: a terminal wraps long lines, and a pipe has no width.
    Terminal(soft_wrap=True, width=_WIDE).print(table)


def show_lists(
    lists: Mapping[str, Callable[[], Iterable[Any]]],
    as_json: bool,
    *,
    about: Any = None,
    rows_max: int | None = None,
) -> None:
    """Print lists as tables with a title, or as one JSON object.

    Args:
        lists: Reads each list, by name. One that the role may not read is null in JSON.
        as_json: Print JSON, with all rows.
        about: Record whose fields precede the lists in JSON.
        rows_max: Maximum number of rows of a table; None: all.
    """
    found = {name: _read(read) for name, read in lists.items()}
    if as_json:
        fields = {} if about is None else fields_of(about)
        echo_json(fields | found, timedelta.total_seconds)
        return
    for name, rows in found.items():
        title = name.replace("_", " ")
        if not rows:
            echo(f"no {title}" if rows is not None else f"{title}: this role may not read them")
            continue
        echo(f"{title}:")
        show(rows[:rows_max], as_json=False, empty="")
        if rows_max is not None and len(rows) > rows_max:
            echo(f"and {len(rows) - rows_max} more; --json has all")


def _read(read: Callable[[], Iterable[Any]]) -> list[dict[str, Any]] | None:
    try:
        return [fields_of(record) for record in read()]
    except PrivilegeError:
        return None


@contextmanager
def progress(title: str, total: Callable[[], int | None]) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error if it is a terminal; yield a function that advances it.

    Args:
        title: Label of the bar.
        total: Called only if the bar is shown, as it may cost a scan; returns None if the total is unknown.
    """
    # Few commands have one, and importing it takes as long as psycopg's types.
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Terminal(stderr=True)
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


@contextmanager
def interruptible(left: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C, report what was done and how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        echo(f"interrupted: {left()}", err=True)
        sys.exit(EXIT_INTERRUPTED)


def print_result(report: dict[str, int], text: str, as_json: bool) -> None:
    """Print a result as text or as JSON."""
    if as_json:
        echo_json(report)
    else:
        echo(text)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        value = round(value, 3)
    return "" if value is None else str(value)


def fields_of(record: Any) -> dict[str, Any]:
    fields = record if isinstance(record, dict) else dataclasses.asdict(record)
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in fields.items()
    }
