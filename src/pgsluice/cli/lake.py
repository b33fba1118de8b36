"""`pgsluice lake`: compact, vacuum, inspect and rebuild lake tables, without Spark and Java."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

import click

from pgsluice.cli.options import (
    accepted_yes_option,
    confirm,
    dsn_option,
    json_option,
    yes_option,
)
from pgsluice.cli.output import show
from pgsluice.cli.printing import echo, echo_json
from pgsluice.cli.types import Duration
from pgsluice.client.sentences import counted
from pgsluice.lake.job_results import TARGET_MB_DEFAULT, TableVersion
from pgsluice.lake.jobs import HISTORY_DEFAULT, RETENTION_HOURS_DEFAULT
from pgsluice.lake.jobs import compact as run_compact
from pgsluice.lake.jobs import show as table_state
from pgsluice.lake.jobs import vacuum as run_vacuum

_lake = click.argument("lake", metavar="LAKE")


@click.group()
def lake() -> None:
    """Compact, vacuum, inspect and rebuild lake tables.

    LAKE is the folder or URL of a Delta table, or iceberg:CATALOG/NAMESPACE.TABLE. Safe with concurrent readers and
    writers. Requires pip install 'pgsluice[spark]'; does not start Java.
    """


@lake.command()
@_lake
@click.option(
    "--target-mb",
    type=click.IntRange(min=1),
    default=TARGET_MB_DEFAULT,
    show_default=True,
    help="Approximate target size of files, MiB.",
)
@accepted_yes_option
@json_option
def compact(lake: str, target_mb: int, as_json: bool) -> None:
    """Rewrite small files into larger ones, in one commit, without changing rows.

    The small files remain on disk for readers of older versions until a vacuum.
    """
    done = run_compact(lake, target_mb=target_mb)
    if as_json:
        _print_json(done)
    else:
        echo(
            f"compacted {counted(done.files_removed, 'file')} into {done.files_added}; version {done.version}"
        )


@lake.command()
@_lake
@click.option(
    "--retention",
    "retention_s",
    type=Duration(min_s=3600),
    default=f"{RETENTION_HOURS_DEFAULT / 24:g}d",
    show_default=True,
    help="Keep files written or replaced within this duration; at least 1h.",
)
@click.option("--dry-run", is_flag=True, help="List the files without removing them.")
@yes_option
@json_option
def vacuum(lake: str, retention_s: float, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove files from disk that no version within the retention needs.

    Older versions can no longer be read, for example by a `pipeline run replay` that started on one. Commits in flight
    are not affected.
    """
    confirm(yes or dry_run, f"Remove the files of older versions of {lake}?")
    done = run_vacuum(lake, retention_hours=retention_s / 3600, dry_run=dry_run)
    if as_json:
        _print_json(done)
        return
    if dry_run:
        for name in done.files:
            echo(name)
    would = "would be " if dry_run else ""
    echo(
        f"{counted(len(done.files), 'file')} of {done.size_bytes:,} bytes {would}removed",
        err=dry_run,
    )


@lake.command("show")
@_lake
@click.option(
    "--history",
    type=click.IntRange(min=0),
    default=HISTORY_DEFAULT,
    show_default=True,
    help="Number of commits to list, newest first.",
)
@json_option
def show_(lake: str, history: int, as_json: bool) -> None:
    """Show rows, files, bytes, columns and last commits of a table."""
    state = table_state(lake, history=history)
    if as_json:
        _print_json(state)
        return
    show([_summary(state)], False, empty="")
    show(state.history, False, empty="no commits")


@lake.command(short_help="Rebuild a current-state table.")
@click.argument("table", metavar="TABLE")
@click.option(
    "--lake",
    required=True,
    metavar="DIR",
    help="Lake of the pipeline changes: its folder, or iceberg:CATALOG/NAMESPACE.",
)
@accepted_yes_option
@dsn_option
def rebuild(table: str, lake: str, dsn: str | None) -> None:
    """Rebuild the current-state table of TABLE (schema.table) by a new snapshot.

    The running pipeline, or its next run, fills a second table from the snapshot and later changes. When that is
    complete, its rows replace those of the table in one commit; the table is no longer parked. Writers of the
    table are not blocked.
    """
    from pgsluice.pipelines.current_state.snapshot import rebuild as run_rebuild

    run_rebuild(table, lake, dsn=dsn)
    echo(f"appended a snapshot of {table} to its log; the pipeline rebuilds the table from it")


def _print_json(record: Any) -> None:
    echo_json(asdict(record), datetime.isoformat)


def _summary(state: TableVersion) -> dict[str, Any]:
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
