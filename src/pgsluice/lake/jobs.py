"""What keeps a table of the lake quick and small: compact, vacuum, and a look at it. No Spark, no Java.

    compact("/lake/events")                       # many small files become few large ones
    vacuum("/lake/events", retention_hours=168)   # what no reader needs any more is removed from the disk
    show("/lake/events")

Each may run while pipelines write into the table and readers read it.
"""

from __future__ import annotations

from pathlib import Path

from pgsluice.errors import ConfigurationError
from pgsluice.extras import require_packages
from pgsluice.lake.address import IcebergAddress, parse
from pgsluice.lake.file_errors import plain_errors
from pgsluice.lake.job_results import TARGET_MB_DEFAULT, Compaction, TableState, Vacuum

# Delta's and Iceberg's own default is a week too.
RETENTION_HOURS_DEFAULT = 168.0
# Files of a write that somebody else's tool does right now are known by their age alone.
RETENTION_HOURS_MIN = 1.0
HISTORY_DEFAULT = 10


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
    _require_extra()
    place = parse(lake)
    with plain_errors(f"the lake table in {place}"):
        if isinstance(place, IcebergAddress):
            from pgsluice.lake.iceberg import jobs as iceberg

            return iceberg.compact(place, target_bytes=target_mb << 20)
        from pgsluice.lake.delta import jobs as delta

        return delta.compact(place, target_bytes=target_mb << 20)


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
    _require_extra()
    place = parse(lake)
    with plain_errors(f"the lake table in {place}"):
        if isinstance(place, IcebergAddress):
            from pgsluice.lake.iceberg import jobs as iceberg

            return iceberg.vacuum(place, retention_hours=retention_hours, dry_run=dry_run)
        from pgsluice.lake.delta import jobs as delta

        return delta.vacuum(place, retention_hours=retention_hours, dry_run=dry_run)


def show(lake: str | Path, *, history: int = HISTORY_DEFAULT) -> TableState:
    """Say what a table holds.

    Args:
        lake: The table's address.
        history: The most commits to list.

    Raises:
        ConfigurationError: There is no such table.
    """
    _require_extra()
    place = parse(lake)
    with plain_errors(f"the lake table in {place}"):
        if isinstance(place, IcebergAddress):
            from pgsluice.lake.iceberg import jobs as iceberg

            return iceberg.show(place, history=history)
        from pgsluice.lake.delta import jobs as delta

        return delta.show(place, history=history)


def _require_extra() -> None:
    require_packages("tables of the lake need", ("pyarrow", "deltalake"), "spark")
