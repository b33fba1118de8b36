"""Options that several commands of `pgsluice pipeline run` have."""

from __future__ import annotations

from typing import Any

import click

from pgsluice.cli.options import combined, dsn_only_option, json_option
from pgsluice.cli.types import Duration

lake_option = click.option(
    "--lake",
    required=True,
    metavar="DIR",
    help="Folder or URL (s3://bucket/orders) of the Delta table, or iceberg:CATALOG/NAMESPACE.TABLE; created if it "
    "does not exist.",
)
interval_option = click.option(
    "--interval",
    "every_s",
    type=Duration(is_open=True),
    default="1m",
    show_default=True,
    help="Time between two runs, without --once.",
)
run_options = combined(
    click.option("--once", is_flag=True, help="Process what is available now, and exit."),
    click.option(
        "--master",
        metavar="URL",
        help="Master of Spark, such as spark://head:7077, instead of that of the configuration or of a local one.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Format of log lines on standard error. They contain no payloads or passwords.",
    ),
    json_option,
    dsn_only_option,
)
target_options = combined(
    click.option("--queue", metavar="NAME", help="Destination work queue."),
    click.option("--log", metavar="NAME", help="Destination event log, instead of --queue."),
)
stream_options = combined(
    run_options,
    click.option(
        "--max-rows",
        "max_rows_per_trigger",
        type=click.IntRange(min=1),
        default=200_000,
        show_default=True,
        help="Approximate maximum number of events per lake commit.",
    ),
    click.option(
        "--trigger-interval",
        "trigger_s",
        type=Duration(),
        default="1s",
        show_default=True,
        help="Time between two micro-batches.",
    ),
    click.option(
        "--driver-memory",
        metavar="SIZE",
        help="Maximum memory of Spark's Java process, such as 512m or 4g. In a file, settings under [spark] apply to "
        "all pipelines.  [default: 2g]",
    ),
    click.option(
        "--starting",
        default="earliest",
        show_default=True,
        metavar="WHERE",
        help="Starting offset of the first run: earliest, latest, committed (the position of --consumer) or "
        '{"tick": 12}.',
    ),
    click.option(
        "--consumer",
        metavar="NAME",
        help="Consumer to register, so that the log keeps events until they are in the lake. To end the stream for "
        "good, unregister it: `pgsluice log unregister`.  [default: derived from the lake folder]",
    ),
)


def require_target(options: dict[str, Any]) -> None:
    """Refuse neither and both of --queue and --log."""
    if (options["queue"] is None) == (options["log"] is None):
        raise click.UsageError("give exactly one of --queue and --log")
