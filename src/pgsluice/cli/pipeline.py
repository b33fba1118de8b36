"""`pgsluice pipeline`: carry an event log, a queue or an archive into the lake with Spark."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType

import click
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from pgsluice.cli.options import dsn_option, json_option
from pgsluice.spark.pipelines.archive import ArchiveProgress
from pgsluice.spark.pipelines.archive import archive as run_archive
from pgsluice.spark.pipelines.events import events as run_events
from pgsluice.spark.running import Progress

_lake_option = click.option(
    "--lake",
    required=True,
    metavar="DIR",
    help="The Delta table's folder; made when it is not there.",
)


@click.group()
def pipeline() -> None:
    """Carry an event log, a queue or an archive into the lake with Spark.

    Needs pip install 'pgsluice[spark]'; Java is found, or comes with it.
    """


@pipeline.group()
def run() -> None:
    """Run a pipeline until it is done, or until it is interrupted; run again, it goes on where it was."""


@run.command(short_help="Stream an event log into a Delta table.")
@click.option("--log", required=True, metavar="NAME", help="The event log.")
@_lake_option
@click.option(
    "--checkpoint",
    required=True,
    metavar="DIR",
    help="Spark's notes on how far it is. It belongs to the table: keep both, or neither.",
)
@click.option("--once", is_flag=True, help="End when the lake holds what is there now.")
@click.option(
    "--max-rows",
    type=click.IntRange(min=1),
    default=200_000,
    show_default=True,
    help="About the most events in one commit of the lake.",
)
@click.option(
    "--trigger-s",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="How often to look for new events, seconds.",
)
@click.option(
    "--starting",
    default="earliest",
    show_default=True,
    metavar="WHERE",
    help='Where the first run begins: earliest, latest or {"tick": 12}.',
)
@click.option(
    "--consumer",
    metavar="NAME",
    help="The consumer that holds the log for this stream. Default: made from the table's folder.",
)
@dsn_option
@json_option
def events(
    log: str,
    lake: str,
    checkpoint: str,
    once: bool,
    max_rows: int,
    trigger_s: float,
    starting: str,
    consumer: str | None,
    dsn: str | None,
    as_json: bool,
) -> None:
    """Stream an event log into a Delta table, each committed event once, whatever dies in between.

    Runs until it is interrupted, or with --once until the lake holds what is there now. Run again,
    it goes on where it was.
    """
    with _bar(as_json) as show, _termination_interrupts():
        stream = run_events(
            log,
            lake,
            checkpoint,
            dsn=dsn,
            consumer=consumer,
            once=once,
            starting=starting,
            max_rows_per_trigger=max_rows,
            trigger_s=trigger_s,
            on_progress=show,
        )
        if once:
            progress = stream.progress()
        else:
            try:
                progress = stream.drain(on_progress=show)
            except KeyboardInterrupt:
                progress = stream.stop()
    if as_json:
        click.echo(json.dumps({"log": log, "lake": str(Path(lake).absolute()), **asdict(progress)}))
    else:
        click.echo(
            f"{progress.rows} events in {progress.micro_batches} commits; {lake} holds event log {log} "
            f"up to tick {stream.tick}"
        )


@run.command(short_help="Copy an archive, or a queue, into a Delta table.")
@click.option("--queue", required=True, metavar="NAME", help="The work queue.")
@click.option(
    "--table",
    type=click.Choice(["archive", "queue"]),
    default="archive",
    show_default=True,
    help="Which of its two tables. Only an archive is verified.",
)
@_lake_option
@click.option(
    "--export",
    metavar="NAME",
    help="The name of this copy. Default: the last part of the table's folder.",
)
@click.option(
    "--drop",
    is_flag=True,
    help="Drop from the archive what is verified in the lake, by all copies.",
)
@click.option(
    "--once/--no-once", default=True, show_default=True, help="End after one copy, or repeat it."
)
@click.option(
    "--every-s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="With --no-once, the pause between two copies, seconds.",
)
@dsn_option
@json_option
def archive(
    queue: str,
    table: str,
    lake: str,
    export: str | None,
    drop: bool,
    once: bool,
    every_s: float,
    dsn: str | None,
    as_json: bool,
) -> None:
    """Copy the rows that the Delta table does not hold yet, in one commit, and verify them there.

    From its first run on, the archive keeps what is not verified in the table, whatever its retention: `pgsluice
    queue exports` shows that, and ends it. Killed at any moment and run again, it goes on where it was.
    """
    progress = ArchiveProgress()

    def show(step: ArchiveProgress) -> None:
        nonlocal progress
        progress = step

    with _termination_interrupts():
        try:
            run_archive(
                queue,
                lake,
                table=table,
                export=export,
                drop=drop,
                once=once,
                every_s=every_s,
                dsn=dsn,
                on_progress=show,
            )
        except KeyboardInterrupt:
            if once:
                raise
    if as_json:
        place = {"queue": queue, "table": table, "lake": str(Path(lake).absolute())}
        counts = {name: getattr(progress, name) for name in ("rows", "verified", "dropped")}
        click.echo(json.dumps({**place, **counts}))
    else:
        more = f", {progress.verified} verified, {progress.dropped} dropped"
        click.echo(
            f"{progress.rows} rows of the {table} of {queue} added to {lake}"
            f"{more if table == 'archive' else ''}"
        )


@contextmanager
def _bar(quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A line on standard error that shows how far the stream is."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), disable=quiet, transient=True) as bar:
        task = bar.add_task("starting Spark", total=None)

        def show(progress: Progress) -> None:
            bar.update(
                task,
                description=f"{progress.rows:,} events, {progress.micro_batches} commits, "
                f"tick {progress.offset['tick'] if progress.offset else '…'}",
            )

        yield show


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Let SIGTERM, which service managers send, end the stream as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
