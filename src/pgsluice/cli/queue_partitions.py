"""The partition options of `pgsluice queue create`."""

from __future__ import annotations

import click

from pgsluice.cli.options import combined
from pgsluice.cli.types import PartitionSize

partition_options = combined(
    click.option(
        "--partitioned",
        is_flag=True,
        help="Create a partitioned queue, which drops its oldest messages as whole partitions.",
    ),
    click.option(
        "--interval",
        type=PartitionSize(),
        metavar="SIZE",
        help="Size of a partition: a number of messages (10000), or a duration with a unit (1d).  [default: 10000]",
    ),
    click.option(
        "--retention",
        type=PartitionSize(may_be_none=True),
        metavar="SIZE|none",
        help="Drop partitions older than this, also with unread messages; a number or a duration, as --interval. none "
        "keeps all.  [default: 100000]",
    ),
    click.option(
        "--premake",
        type=click.IntRange(min=1),
        help="Number of partitions created in advance.  [default: 4]",
    ),
)


def partition_arguments(
    partitioned: bool, interval: str | None, retention: str | None, premake: int | None
) -> tuple[str, str | None, int] | None:
    """Return the arguments of `create_partitioned`; None for a queue without partitions."""
    if partitioned:
        size, kept = interval or "10000", retention or "100000"
        if kept != "none" and size.isdecimal() != kept.isdecimal():
            raise click.UsageError(
                f"--interval {size} and --retention {kept} must both be numbers of messages, or both durations"
            )
        return size, None if kept == "none" else kept, premake or 4
    if interval or retention or premake:
        raise click.UsageError("--interval, --retention and --premake require --partitioned")
    return None
