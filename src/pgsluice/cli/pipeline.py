"""`pgsluice pipeline`: carry event logs, queues, archives and files into the lake, and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pgsluice.cli.options import combined, dsn_option, json_option
from pgsluice.cli.parsing import time
from pgsluice.cli.pipeline_run import carry, carry_kind
from pgsluice.cli.verify import verify
from pgsluice.pipelines import config

_lake_option = click.option(
    "--lake",
    required=True,
    metavar="DIR",
    help="The Delta table's folder; made when it is not there.",
)
_every_option = click.option(
    "--every-s",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Without --once: how long to rest before looking again, seconds.",
)
_run_options = combined(
    click.option("--once", is_flag=True, help="End when everything is done that is there now."),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="How each line on standard error is written. None holds a payload or a password.",
    ),
    json_option,
    dsn_option,
)
_target_options = combined(
    click.option("--queue", metavar="NAME", help="The work queue to add to; or"),
    click.option("--log", metavar="NAME", help="the event log."),
)


class _Kinds(click.Group):
    """Each kind is a command; every other name is a section of a file."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or _sections

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0].startswith("-") or args[0] in self.commands:
            return super().resolve_command(ctx, args)
        if not any(word.partition("=")[0] == "--config" for word in args):
            ctx.fail(
                f"there is no kind of pipeline {args[0]!r}, only {', '.join(self.commands)}; for a section "
                "of a file give it with --config FILE"
            )
        return args[0], _sections, args  # the word is the first of the sections


_stream_options = combined(
    _run_options,
    click.option(
        "--max-rows",
        "max_rows_per_trigger",
        type=click.IntRange(min=1),
        default=200_000,
        show_default=True,
        help="About the most events in one commit of the lake.",
    ),
    click.option(
        "--trigger-s",
        type=click.FloatRange(min=0),
        default=1.0,
        show_default=True,
        help="How often to look for new events, seconds.",
    ),
    click.option(
        "--starting",
        default="earliest",
        show_default=True,
        metavar="WHERE",
        help='Where the first run begins: earliest, latest, committed or {"tick": 12}.',
    ),
    click.option(
        "--consumer",
        metavar="NAME",
        help="The consumer that holds the log for this stream. Default: made from the table's folder.",
    ),
)


def _counts(
    _context: click.Context, _option: click.Parameter, values: Sequence[str]
) -> dict[str, int]:
    counts = {}
    for value in values:
        table, sign, count = value.rpartition("=")
        if not sign or not count.isdecimal():
            raise click.BadParameter(f"{value!r} is no table and number; write schema.table=64")
        counts[table] = int(count)
    return counts


@click.group()
def pipeline() -> None:
    """Carry event logs, queues, archives and files into the lake, and back.

    Most need pip install 'pgsluice[spark]'; Java is found, or comes with it.
    """


@pipeline.group(cls=_Kinds, subcommand_metavar="KIND [OPTIONS] | NAME... --config FILE")
def run() -> None:
    """Run a pipeline until it is done, or until it is told to end; run again, it goes on where it was.

    A KIND is described by its options. NAMEs are sections of a TOML file, several of which run side by
    side; `all` runs all of them. A section has the kind, and its options with underscores:

    \b
      [orders-to-lake]
      kind = "events"
      log = "orders"
      lake = "lake/orders"
      checkpoint = "lake/orders.checkpoint"

    What fails is started again after a pause. SIGTERM and SIGINT end all; with --once the sections run one
    after the other, each until everything is done that is there now.

    \b
    Exit codes:
      0  told to end, and done; or with --once all is done
      2  the command line cannot be understood
      3  the file cannot be used, or a pipeline cannot go on; one line says why
    """


@click.command(name="NAME...")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--config",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The TOML file with the sections.",
)
@_run_options
def _sections(names: tuple[str, ...], file: Path, **how: Any) -> None:
    """Run pipelines that are sections of a TOML file; `all` runs all of them.

    --dsn is for those whose section does not say where to connect.
    """
    found = config.load(file)
    carry(config.choose(found, names), spark=found.spark, **how)


pipeline.add_command(verify)


def _by_name(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, str] | None:
    """The values of NAME=VALUE by name; None when there are none."""
    found = dict(text.partition("=")[::2] for text in given)
    if not all(found) or not all(found.values()) or len(found) < len(given):
        raise click.BadParameter("use NAME=DSN, each name once")
    return found or None


@run.command(short_help="Stream an event log into a Delta table.")
@click.option("--log", required=True, metavar="NAME", help="The event log.")
@_lake_option
@click.option(
    "--checkpoint",
    required=True,
    metavar="DIR",
    help="Spark's notes on how far it is. It belongs to the table: keep both, or neither.",
)
@click.option(
    "--offsets",
    type=click.Choice(["ticks", "snapshots"]),
    default="ticks",
    show_default=True,
    help="Where a commit of the lake may end: at ticks of the log, or between any two transactions.",
)
@click.option(
    "--shard",
    "shards",
    multiple=True,
    metavar="NAME=DSN",
    callback=_by_name,
    help="A database with a log of this name, and what the table calls it; once for each, instead of --dsn.",
)
@_stream_options
def events(**options: Any) -> None:
    """Stream an event log into a Delta table, each committed event once, whatever dies in between.

    With --lake iceberg:CATALOGUE/NAMESPACE.TABLE into an Iceberg table of a catalogue that pyiceberg knows.
    """
    carry_kind("events", **options)


@run.command(short_help="Keep the current state of captured tables in the lake.")
@click.option("--log", required=True, metavar="NAME", help="The event log that has the changes.")
@click.option(
    "--lake",
    required=True,
    metavar="DIR",
    help="The folder of all tables: events, and current/schema.table for each.",
)
@click.option(
    "--checkpoint",
    required=True,
    metavar="DIR",
    help="Spark's notes on how far it is. It belongs to the lake: keep both, or neither.",
)
@click.option(
    "--snapshots",
    multiple=True,
    metavar="TABLE",
    help="A captured table whose rows of before are wanted too; may be repeated.",
)
@click.option(
    "--tables",
    multiple=True,
    metavar="SCHEMA.TABLE",
    help="Only this table gets a current state; may be repeated.",
)
@click.option(
    "--buckets",
    multiple=True,
    callback=_counts,
    metavar="SCHEMA.TABLE=N",
    help="Let Spark's executors apply the changes of this table, in so many parts; may be repeated.",
)
@click.option(
    "--text-columns",
    multiple=True,
    metavar="SCHEMA.TABLE.COLUMN",
    help="A column that is text in the lake; may be repeated.",
)
@click.option(
    "--deleted-kept-h",
    type=click.FloatRange(min=0),
    default=168.0,
    show_default=True,
    help="For how many hours at least a deleted row leaves a trace.",
)
@_stream_options
def changes(**options: Any) -> None:
    """Stream captured changes into the lake: each event once, and what every table is now."""
    # None given is not the same as none wanted.
    carry_kind("changes", **{**options, "tables": options["tables"] or None})


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
    help="Drop from the archive what all copies have verified in the lake.",
)
@_every_option
@_run_options
def archive(**options: Any) -> None:
    """Copy the rows that the Delta table does not hold yet, in one commit, and verify them there.

    From its first run on, the archive keeps what is not verified in the table, whatever its retention: `pgsluice
    queue exports` shows that, and ends it. Killed at any moment and run again, it goes on where it was.
    """
    carry_kind("archive", **options)


@run.command(short_help="Figures of queues into gold tables and a report.")
@click.option(
    "--queue",
    multiple=True,
    metavar="NAME",
    help="A work queue, once for each. Default: all.",
)
@click.option(
    "--lake",
    metavar="DIR",
    help="A folder with the archive of each queue in a folder of its name; for one queue the table itself. "
    "Default: only what PostgreSQL still has.",
)
@click.option(
    "--gold", required=True, metavar="DIR", help="The folder of the tables, and of report.html."
)
@click.option(
    "--window-s",
    type=click.IntRange(min=1),
    default=600,
    show_default=True,
    help="The length of a window, seconds.",
)
@click.option(
    "--since",
    metavar="TIME",
    help="Windows that begin before it stay as they are, and the figures for all of the time: 2026-01-31T10:00Z.",
)
@click.option("--report/--no-report", default=True, help="Write report.html, with plots.")
@_every_option
@_run_options
def analytics(**options: Any) -> None:
    """Count and measure what became of the messages of queues, per window of time.

    Latency, throughput, retries, dead letters and what waits, from the lake, the live archives and the queues. The
    tables are queue_windows, queue_totals and queue_attempts. The report needs pip install 'pgsluice[report]'.
    """
    carry_kind("analytics", **options)


@run.command(short_help="Add the rows of files to a queue or a log.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@_target_options
@click.option(
    "--ev-type",
    default="ingest",
    show_default=True,
    metavar="TYPE",
    help="With --log: the type of the events.",
)
@click.option(
    "--rejects",
    metavar="DIR",
    help="Where rows go that cannot be added, in FILE.rejects with line and reason.  [default: beside FILE]",
)
@click.option(
    "--batch-rows",
    type=click.IntRange(min=1),
    default=5000,
    show_default=True,
    help="The most rows in one transaction.",
)
@_every_option
@_run_options
def ingest(**options: Any) -> None:
    """Add the rows of files to a work queue or to an event log, each once, however often it is run.

    FILE is a file, a folder, or a pattern in quotes: JSON lines (.jsonl, .ndjson) and CSV, each also with .gz,
    and Parquet. A file may grow at its end; one that has changed otherwise is named and left alone. Needs
    neither Spark nor Java.
    """
    carry_kind("ingest", **options)


@run.command(short_help="Add rows of the lake to a queue or a log.")
@click.option(
    "--lake",
    required=True,
    metavar="DIR",
    help="The Delta table's folder, or iceberg:CATALOGUE/NAMESPACE.TABLE.",
)
@click.option(
    "--name",
    required=True,
    help="What this replay is called: each row is added once for each name. Another selection needs another.",
)
@_target_options
@click.option(
    "--ev-type",
    default="replay",
    show_default=True,
    metavar="TYPE",
    help="For messages into a log: the type of the events.",
)
@click.option("--id-from", type=int, metavar="ID", help="Only from this msg_id or ev_id on.")
@click.option("--id-to", type=int, metavar="ID", help="Only up to this one.")
@click.option("--since", type=time, metavar="TIME", help="Only what was sent from this time on.")
@click.option("--until", type=time, metavar="TIME", help="Only what was sent before this time.")
@click.option(
    "--where",
    metavar="SQL",
    help="Only rows for which this is true, in Spark's SQL: \"message like '%refund%'\".",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    help="The most rows a second.  [default: as fast as it goes]",
)
@click.option(
    "--batch-rows",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="The most rows in one transaction.",
)
@_run_options
def replay(**options: Any) -> None:
    """Add rows of a table of the lake to a work queue or to an event log, in the order of their ids.

    The table is one that `archive` or `events` has written; its rows are taken as they are when the replay first
    starts. Run again, it goes on where it was, and adds nothing once it is done.
    """
    carry_kind("replay", **options)
