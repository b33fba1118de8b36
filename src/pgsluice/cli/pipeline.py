"""`pgsluice pipeline`: export event logs and archives to a lake, ingest files, and replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pgsluice.cli.main import did_you_mean
from pgsluice.cli.options import accepted_yes_option
from pgsluice.cli.pipeline_options import (
    interval_option,
    lake_option,
    require_target,
    run_options,
    stream_options,
    target_options,
)
from pgsluice.cli.pipeline_run import run_kind, run_pipelines
from pgsluice.cli.pipeline_status import status
from pgsluice.cli.types import Duration, Time, counts_by_table, dsns_by_name, types_by_column
from pgsluice.cli.verify import verify
from pgsluice.pipelines import config


class _Kinds(click.Group):
    """Group with a command for each kind; any other name is a section of a config file."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or _sections

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0].startswith("-") or args[0] in self.commands:
            return super().resolve_command(ctx, args)
        if not any(word.partition("=")[0] == "--config" for word in args):
            hint = did_you_mean(args[0], self.commands) or (
                f" The kinds are {', '.join(self.commands)}; to run a section of a file, add --config FILE."
            )
            ctx.fail(f"No such pipeline kind {args[0]!r}.{hint}")
        return args[0], _sections, args  # the name is the first of the sections


@click.group()
def pipeline() -> None:
    """Export event logs and archives to a data lake, ingest files, and replay from the lake.

    A lake is a folder or an object store (s3://, gs://, az://) with Delta tables, or a catalog of pyiceberg with
    Iceberg tables. All kinds of pipelines but `ingest` require pip install 'pgsluice[spark]', which includes a Java
    runtime.
    """


@pipeline.group(cls=_Kinds, subcommand_metavar="KIND [OPTIONS] | NAME... --config FILE")
def run() -> None:
    """Run a pipeline until stopped, or with --once until it has caught up. A restart resumes at the last commit.

    KIND is configured by its options: pgsluice pipeline run KIND --help. NAMEs are sections of the TOML file --config,
    which run concurrently; `all` runs all of them. --once, --master, --dsn, --log-format and --json apply to both. A
    section has the kind and its options, with underscores. Durations are numbers: every_s (--interval), trigger_s
    (--trigger-interval), apply_every_s (--apply-every), compact_every_s (--compact-every) and window_s (--window) in
    seconds, deleted_kept_h (--tombstone-retention) and vacuum_retention_h (--vacuum-retention) in hours.

    \b
      [orders-to-lake]
      kind = "events"
      log = "orders"
      lake = "lake/orders"
      checkpoint = "lake/orders.checkpoint"

    A pipeline is restarted with a back-off after a transient error. After a permanent one, such as a dropped log, it
    stops, the others continue, and the exit code is 3. SIGTERM and SIGINT stop all. With --once the sections run one
    after the other.
    """


@click.command(name="NAME...")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--config",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="TOML file with the sections.",
)
@run_options
def _sections(names: tuple[str, ...], file: Path, **how: Any) -> None:
    """Run pipelines from sections of a TOML file; `all` runs all of them.

    --dsn applies to sections without a dsn.
    """
    found = config.load(file)
    run_pipelines(config.choose(found, names), spark=found.spark, **how)


pipeline.add_command(verify)
pipeline.add_command(status)


@run.command(short_help="Stream an event log into a lake table.")
@click.option("--log", required=True, metavar="NAME", help="Event log.")
@lake_option
@click.option(
    "--checkpoint",
    required=True,
    metavar="DIR",
    help="Spark's checkpoint, one per stream: a folder, or a URL such as s3://bucket/orders.checkpoint. Back up, move "
    "and delete it together with the table.",
)
@click.option(
    "--offsets",
    type=click.Choice(["ticks", "snapshots"]),
    default="ticks",
    show_default=True,
    help="Read up to the last tick, or up to the snapshot of the micro-batch, which needs no ticker.",
)
@click.option(
    "--shard",
    "shards",
    multiple=True,
    metavar="NAME=DSN",
    callback=dsns_by_name,
    help="Read the log of this database too; NAME identifies its events in the table. Repeatable, instead of --dsn.",
)
@click.option(
    "--shards",
    "file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Read the logs of all databases of this file, instead of --shard.",
)
@click.option(
    "--partition-by",
    multiple=True,
    metavar="COLUMN",
    help="Partition column of a new table: one of the log's, or ev_date, the date of ev_time in UTC; repeatable.",
)
@stream_options
def events(file: str | None, shards: dict[str, str] | None, **options: Any) -> None:
    """Stream an event log into a lake table, with each committed event exactly once.

    Catalogs of Iceberg tables are configured for pyiceberg.
    """
    if file is not None and shards is not None:
        raise click.UsageError("give --shard or --shards")
    run_kind("events", shards=shards or file, **options)


@run.command(short_help="Maintain current-state tables of captured tables.")
@click.option("--log", required=True, metavar="NAME", help="Event log with the captured changes.")
@click.option(
    "--lake",
    required=True,
    metavar="DIR",
    help="Folder of the tables: events, and current/schema.table for each table; or iceberg:CATALOG/NAMESPACE, with "
    "the tables events, and schema__table for each table.",
)
@click.option(
    "--checkpoint",
    required=True,
    metavar="DIR",
    help="Spark's checkpoint, one per stream: a folder, or a URL such as s3://bucket/shop.checkpoint. Back up, move "
    "and delete it together with the lake.",
)
@click.option(
    "--snapshots",
    multiple=True,
    metavar="SCHEMA.TABLE",
    help="Table whose rows from before its capture are loaded too (a snapshot); repeatable.",
)
@click.option(
    "--tables",
    multiple=True,
    metavar="SCHEMA.TABLE",
    help="Maintain the current state of this table only; repeatable.  [default: all]",
)
@click.option(
    "--buckets",
    multiple=True,
    callback=counts_by_table,
    metavar="SCHEMA.TABLE=N",
    help="For a large table: apply its changes in parallel on Spark's executors, in N buckets; repeatable.  "
    "[default: in one process]",
)
@click.option(
    "--column-types",
    multiple=True,
    callback=types_by_column,
    metavar="SCHEMA.TABLE.COLUMN=TYPE",
    help="Type of a column in the lake, as Spark writes it: string, array<bigint>, struct<name: string>; repeatable.",
)
@click.option(
    "--tombstone-retention",
    "tombstone_retention_s",
    type=Duration(),
    default="7d",
    show_default=True,
    help="Keep the tombstone of a deleted row at least this long: an older change that arrives later does not "
    "restore the row.",
)
@click.option(
    "--on-bad-value",
    type=click.Choice(["park", "null", "fail"]),
    default="park",
    show_default=True,
    help="If a value does not fit its column: park its table; or store null, and the value in the table rejects; or "
    "stop the pipeline, also for any other change that cannot be applied.",
)
@click.option(
    "--on-change",
    type=click.Choice(["park", "rebuild"]),
    default="park",
    show_default=True,
    help="If the lake cannot follow a schema change: park the table; or rebuild it from a new snapshot.",
)
@click.option(
    "--after-loss",
    type=click.Choice(["fail", "rebuild"]),
    default="fail",
    show_default=True,
    help="If the log removed events that are not in the lake, as after the consumer was unregistered: fail; or skip "
    "them, which leaves a gap in the table of events, and rebuild the current-state tables from new snapshots.",
)
@click.option(
    "--apply-every",
    "apply_every_s",
    type=Duration(),
    help="Minimum time between two updates of the current-state tables; 0s for one per micro-batch. Each update "
    "rewrites files, so a longer time writes less.  [default: when the tables with changes have at most 50 rows per "
    "change, or 15m after the last update]",
)
@click.option(
    "--compact-every",
    "compact_every_s",
    type=Duration(is_open=True, may_be_forever=True),
    default="1h",
    show_default=True,
    help="Time between two runs of compaction and vacuum, without --once; forever for none.",
)
@click.option(
    "--vacuum-retention",
    "vacuum_retention_s",
    type=Duration(min_s=3600),
    default="7d",
    show_default=True,
    help="Keep files written or replaced within this duration; at least 1h.",
)
@stream_options
def changes(tombstone_retention_s: float, vacuum_retention_s: float, **options: Any) -> None:
    """Stream captured changes into the lake, each event exactly once, and maintain current-state tables.

    Capture tables first, with the SQL function sluice.capture.

    A table whose changes cannot be applied is parked: it stays at its last good version, and the others go on.
    `pgsluice lake rebuild` repairs it, and --on-change rebuild does so after schema changes. With --once the exit code
    is 1 if a table is parked.
    """
    options["tables"] = options["tables"] or None  # an empty selection would mean no tables
    options["vacuum_retention_h"] = vacuum_retention_s / 3600
    run_kind("changes", deleted_kept_h=tombstone_retention_s / 3600, **options)


@run.command(short_help="Export an archive or queue to a lake table.")
@click.option("--queue", required=True, metavar="NAME", help="Work queue.")
@click.option(
    "--table",
    type=click.Choice(["archive", "queue"]),
    default="archive",
    show_default=True,
    help="The archive, or the messages now in the queue. Only an archive is verified.",
)
@lake_option
@click.option(
    "--export",
    metavar="NAME",
    help="Name of this export.  [default: the last part of the lake folder, or NAMESPACE.TABLE]",
)
@click.option(
    "--drop",
    is_flag=True,
    help="After each export, delete the messages from the archive that all exports of the queue have verified in the"
    " lake.",
)
@click.option(
    "--partition-by",
    multiple=True,
    metavar="COLUMN",
    help="Partition column of a new table: one of the archive's or queue's, or archived_date, the date of archived_at "
    "in UTC; repeatable.",
)
@interval_option
@run_options
def archive(**options: Any) -> None:
    """Export rows that the lake table does not contain yet, in one commit, and verify them there.

    From the first run, the archive keeps messages that the export has not verified, regardless of its retention;
    `pgsluice queue drop-export` ends that. A restart resumes after the last commit.
    """
    run_kind("archive", **options)


@run.command(short_help="Write queue metrics to gold tables and a report.")
@click.option(
    "--queue",
    multiple=True,
    metavar="NAME",
    help="Work queue; repeatable.  [default: all]",
)
@click.option(
    "--lake",
    metavar="DIR",
    help="Folder, or iceberg:CATALOG/NAMESPACE, with an exported archive per queue; for one --queue, the table "
    "itself.  [default: only data still in PostgreSQL]",
)
@click.option(
    "--gold", required=True, metavar="DIR", help="Folder of the gold tables and report.html."
)
@click.option(
    "--window",
    "window_s",
    type=Duration(min_s=1, is_whole=True),
    default="10m",
    show_default=True,
    help="Length of a time window.",
)
@click.option(
    "--since",
    type=Time(),
    help="Recompute only windows from this time on, and no totals.  [default: all]",
)
@click.option(
    "--report/--no-report",
    default=True,
    show_default=True,
    help="Write report.html, with plots.",
)
@interval_option
@run_options
def analytics(**options: Any) -> None:
    """Write queue metrics per time window to summary tables (gold) and an HTML report.

    Computes latency, throughput, retries, dead letters and backlog from the lake, the archives and the queues. The
    tables are queue_windows, queue_totals and queue_attempts. The report requires pip install 'pgsluice[report]'.
    """
    if options["since"] is not None:
        options["since"] = options["since"].isoformat()
    run_kind("analytics", **options)


@run.command(short_help="Ingest files into a queue or a log.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@target_options
@click.option(
    "--ev-type",
    default="ingest",
    show_default=True,
    metavar="TYPE",
    help="Type of the events, with --log.",
)
@click.option(
    "--rejects",
    metavar="DIR",
    help="Folder of FILE.rejects, with line and reason of each rejected row.  [default: the folder of FILE]",
)
@click.option(
    "--batch-rows",
    type=click.IntRange(min=1),
    default=5000,
    show_default=True,
    help="Maximum number of rows per transaction.",
)
@interval_option
@run_options
def ingest(**options: Any) -> None:
    """Ingest the rows of files into a work queue or event log, each row once, also after a restart.

    FILE is a file, a folder, or a quoted pattern: JSON lines (.jsonl, .ndjson) and CSV, each also with .gz, and
    Parquet. Rows appended to a file are read by the next run; a file that changed otherwise is reported and skipped.
    Requires neither Spark nor Java.
    """
    require_target(options)
    run_kind("ingest", **options)


@run.command(short_help="Replay lake rows into a queue or a log.")
@click.option(
    "--lake",
    required=True,
    metavar="DIR",
    help="Folder or URL of the Delta table, or iceberg:CATALOG/NAMESPACE.TABLE.",
)
@click.option(
    "--name",
    required=True,
    help="Name of this replay: each row is added once per name. Use another name for another selection.",
)
@target_options
@click.option(
    "--ev-type",
    default="replay",
    show_default=True,
    metavar="TYPE",
    help="Type of the events, with --log.",
)
@click.option("--id-from", type=int, metavar="ID", help="Minimum msg_id or ev_id.")
@click.option("--id-to", type=int, metavar="ID", help="Maximum msg_id or ev_id.")
@click.option("--since", type=Time(), help="Only rows sent at this time or later.")
@click.option("--until", type=Time(), help="Only rows sent before this time.")
@click.option(
    "--where",
    metavar="SQL",
    help="Filter in Spark SQL: \"message like '%refund%'\".",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    help="Rate limit, rows per second.  [default: no limit]",
)
@click.option(
    "--batch-rows",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Maximum number of rows per transaction.",
)
@accepted_yes_option
@run_options
def replay(**options: Any) -> None:
    """Replay rows of a lake table into a work queue or event log, in order of id.

    The table must be written by `archive` or `events`. The replay reads the version that the table
    has at the first start, and ends when it has sent the rows. A restart resumes; a finished replay adds nothing.
    """
    require_target(options)
    run_kind("replay", **options)
