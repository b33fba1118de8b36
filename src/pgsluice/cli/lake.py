"""`pgsluice lake`: keep tables of the lake quick and small, and look at them. No Spark, no Java."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

import click

from pgsluice.cli.options import json_option
from pgsluice.cli.output import show
from pgsluice.lake.job_results import TARGET_MB_DEFAULT, TableState
from pgsluice.lake.jobs import HISTORY_DEFAULT, RETENTION_HOURS_DEFAULT
from pgsluice.lake.jobs import compact as run_compact
from pgsluice.lake.jobs import show as table_state
from pgsluice.lake.jobs import vacuum as run_vacuum

_lake = click.argument("lake", metavar="LAKE")


@click.group()
def lake() -> None:
    """Compact, vacuum and show tables of the lake.

    LAKE is the folder of a Delta table, or iceberg:CATALOGUE/NAMESPACE.TABLE. Pipelines may write into it and
    others read it meanwhile. Needs pip install 'pgsluice[spark]', and no Java.

    Exit code 0: done; 2: the command line cannot be understood; 3: an error.
    """


@lake.command()
@_lake
@click.option(
    "--target-mb",
    type=click.IntRange(min=1),
    default=TARGET_MB_DEFAULT,
    show_default=True,
    help="About the size of the files afterwards, MiB.",
)
@json_option
def compact(lake: str, target_mb: int, as_json: bool) -> None:
    """Rewrite small files into larger ones, in one commit; the rows stay the same.

    The small ones stay on the disk for those who read older versions, until a vacuum.
    """
    done = run_compact(lake, target_mb=target_mb)
    if as_json:
        _print_json(done)
    else:
        click.echo(f"{done.files_removed} files became {done.files_added}; version {done.version}")


@lake.command()
@_lake
@click.option(
    "--retention-hours",
    type=float,
    default=RETENTION_HOURS_DEFAULT,
    show_default=True,
    help="Files that were written or replaced within these hours stay; 1 or more.",
)
@click.option("--dry-run", is_flag=True, help="Only say which files would be removed.")
@json_option
def vacuum(lake: str, retention_hours: float, dry_run: bool, as_json: bool) -> None:
    """Remove files from the disk that no version of the last hours needs.

    Older versions cannot be read afterwards. A commit that is in flight loses nothing.
    """
    done = run_vacuum(lake, retention_hours=retention_hours, dry_run=dry_run)
    if as_json:
        _print_json(done)
        return
    if dry_run:
        for name in done.files:
            click.echo(name)
    would = "would be " if dry_run else ""
    click.echo(f"{len(done.files)} files of {done.size_bytes:,} bytes {would}removed", err=dry_run)


@lake.command("show")
@_lake
@click.option(
    "--history",
    type=click.IntRange(min=0),
    default=HISTORY_DEFAULT,
    show_default=True,
    help="How many commits to list, newest first.",
)
@json_option
def show_(lake: str, history: int, as_json: bool) -> None:
    """Show what a table holds: rows, files, bytes, columns and its last commits."""
    state = table_state(lake, history=history)
    if as_json:
        _print_json(state)
        return
    show([_summary(state)], False, empty="")
    show(state.history, False, empty="no commits")


def _print_json(record: Any) -> None:
    click.echo(json.dumps(asdict(record), ensure_ascii=False, default=datetime.isoformat))


def _summary(state: TableState) -> dict[str, Any]:
    return {
        "format": state.format,
        "version": state.version,
        "rows": state.rows,
        "files": state.files,
        "small_files": state.small_files,
        "size_bytes": state.size_bytes,
        "partition_by": ", ".join(state.partition_by),
        "columns": ", ".join(state.columns),
    }
