"""What keeps a table of the lake quick and small: compact, vacuum, and a look at it. No Spark, no Java.

    compact("/lake/events")                       # many small files become few large ones
    vacuum("/lake/events", retention_hours=168)   # what no reader needs any more is removed from the disk
    show("/lake/events")

Each may run while pipelines write into the table and readers read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pgsluice.errors import ConfigurationError
from pgsluice.spark.lake.address import IcebergAddress, parse
from pgsluice.spark.session import require_extra
from pgsluice.table_formats.files import plain_errors

TARGET_MB_DEFAULT = 256
# Delta's and Iceberg's own default is a week too.
RETENTION_HOURS_DEFAULT = 168.0
# Files of a write that somebody else's tool does right now are known by their age alone.
RETENTION_HOURS_MIN = 1.0
HISTORY_DEFAULT = 10


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction did.

    Attributes:
        files_removed: Small files that are no part of the table any more; `vacuum` removes them from the disk.
        files_added: The larger ones that hold their rows.
        version: The table's version, or snapshot, afterwards.
    """

    files_removed: int
    files_added: int
    version: int


@dataclass(frozen=True, slots=True)
class Vacuum:
    """What a vacuum removed, or would remove.

    Attributes:
        files: Relative to the table's folder, by name.
        size_bytes: Their size.
    """

    files: Sequence[str]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table.

    Attributes:
        version: Its number; Iceberg's snapshot id.
        committed_at: By the clock of the machine that committed.
        operation: As the format names it: `WRITE`, `OPTIMIZE`, `append`, `overwrite`.
    """

    version: int
    committed_at: datetime
    operation: str


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as its newest commit has it.

    Attributes:
        format: `delta` or `iceberg`.
        version: Its number; Iceberg's snapshot id, 0 when there is none yet.
        rows, files, size_bytes: What belongs to it; what waits for `vacuum` does not.
        small_files: Files below a quarter of compaction's default target.
        partition_by: Its partition columns.
        columns: `name type`, in order.
        history: The last commits, newest first.
    """

    format: str
    version: int
    rows: int
    files: int
    size_bytes: int
    small_files: int
    partition_by: Sequence[str]
    columns: Sequence[str]
    history: Sequence[Commit]


def compact(lake: str | Path, *, target_mb: int = TARGET_MB_DEFAULT) -> Compaction:
    """Rewrite small files into larger ones, in one commit. The rows stay the same, and so does their partition.

    Pipelines that only append go on meanwhile.

    Args:
        lake: The table's address.
        target_mb: About the size of the files afterwards, MiB, 1 or more.

    Raises:
        ConfigurationError: There is no such table.
        SluiceError: Somebody removed or rewrote rows meanwhile; nothing was changed.
    """
    if target_mb < 1:
        raise ConfigurationError(f"the target is {target_mb} MiB; use 1 or more")
    require_extra()
    place = parse(lake)
    with plain_errors(f"the lake table in {place}"):
        if isinstance(place, IcebergAddress):
            from pgsluice.spark.lake import iceberg_jobs

            return iceberg_jobs.compact(place, target_bytes=target_mb << 20)
        from pgsluice.spark.lake import delta_jobs

        return delta_jobs.compact(place, target_bytes=target_mb << 20)


def vacuum(
    lake: str | Path, *, retention_hours: float = RETENTION_HOURS_DEFAULT, dry_run: bool = False
) -> Vacuum:
    """Remove files from the disk that no version of the last hours needs.

    These are the files that a compaction or a merge replaced, those of failed tasks and of replayed micro-batches.
    Older versions of the table cannot be read afterwards, and a reader that began before fails.

    A commit in flight loses nothing, whatever its age: it makes its files young before it names them, and fails
    without a trace if one is gone.

    Args:
        lake: The table's address.
        retention_hours: Files that were written or replaced within these hours stay; 1 or more. Longer than the
            longest query, and than a write of other tools.
        dry_run: Only say which.

    Raises:
        ConfigurationError: There is no such table, or the retention is too short.
    """
    if retention_hours < RETENTION_HOURS_MIN:
        raise ConfigurationError(
            f"the retention is {retention_hours:g} hours; use {RETENTION_HOURS_MIN:g} or more, longer than any "
            "query or write that may be running"
        )
    require_extra()
    place = parse(lake)
    with plain_errors(f"the lake table in {place}"):
        if isinstance(place, IcebergAddress):
            from pgsluice.spark.lake import iceberg_jobs

            return iceberg_jobs.vacuum(place, retention_hours=retention_hours, dry_run=dry_run)
        from pgsluice.spark.lake import delta_jobs

        return delta_jobs.vacuum(place, retention_hours=retention_hours, dry_run=dry_run)


def show(lake: str | Path, *, history: int = HISTORY_DEFAULT) -> TableState:
    """Say what a table holds.

    Args:
        lake: The table's address.
        history: The most commits to list.

    Raises:
        ConfigurationError: There is no such table.
    """
    require_extra()
    place = parse(lake)
    with plain_errors(f"the lake table in {place}"):
        if isinstance(place, IcebergAddress):
            from pgsluice.spark.lake import iceberg_jobs

            return iceberg_jobs.show(place, history=history)
        from pgsluice.spark.lake import delta_jobs

        return delta_jobs.show(place, history=history)
