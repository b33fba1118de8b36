"""Lake table maintenance without Spark and Java: compact, vacuum and show.

    compact("/lake/events")                       # rewrite many small files into few large ones
    vacuum("/lake/events", retention_hours=168)   # remove unreferenced files from disk
    show("/lake/events")

All jobs may run concurrently with readers and writers of the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from pgsluice.errors import ConfigurationError
from pgsluice.extras import require_packages
from pgsluice.lake.address import IcebergAddress, parse
from pgsluice.lake.file_errors import plain_errors
from pgsluice.lake.job_results import TARGET_MB_DEFAULT, Compaction, TableVersion, Vacuum
from pgsluice.lake.storage import Folder

# One week, the default of Delta and Iceberg.
RETENTION_HOURS_DEFAULT = 168.0
# Uncommitted files of other tools are protected only by their age.
RETENTION_HOURS_MIN = 1.0
HISTORY_DEFAULT = 10


def compact(lake: str | Path, *, target_mb: int = TARGET_MB_DEFAULT) -> Compaction:
    """Rewrite small files of each partition into larger ones, in one commit, without changing rows.

    Concurrent appends do not conflict.

    Args:
        lake: Address of the table.
        target_mb: Approximate target file size in MiB, 1 or more.

    Raises:
        ConfigurationError: The table does not exist.
        SluiceError: A concurrent commit removed or rewrote files; nothing was changed.
    """
    if target_mb < 1:
        raise ConfigurationError(f"invalid target size {target_mb} MiB; use 1 or more")
    with _jobs_of(lake) as (jobs, place):
        done: Compaction = jobs.compact(place, target_bytes=target_mb << 20)
        return done


def vacuum(
    lake: str | Path, *, retention_hours: float = RETENTION_HOURS_DEFAULT, dry_run: bool = False
) -> Vacuum:
    """Remove files from disk that no table version within the retention references.

    These are files replaced by compaction or merge, and files of failed tasks and replayed micro-batches. Older
    versions of the table can no longer be read, and queries on them fail.

    A concurrent commit never loses files, however old: it touches its files before it references them, and fails
    without changing the table if one no longer exists.

    Args:
        lake: Address of the table.
        retention_hours: Keep files written or replaced within these hours, 1 or more. Use more than the duration of
            the longest query, and of the longest write of other tools.
        dry_run: List the files without removing them.

    Raises:
        ConfigurationError: The table does not exist, or the retention is too short.
    """
    if retention_hours < RETENTION_HOURS_MIN:
        raise ConfigurationError(
            f"invalid retention of {retention_hours:g} hours; use {RETENTION_HOURS_MIN:g} or more, and more than the "
            "duration of any running query or write"
        )
    with _jobs_of(lake) as (jobs, place):
        done: Vacuum = jobs.vacuum(place, retention_hours=retention_hours, dry_run=dry_run)
        return done


def show(lake: str | Path, *, history: int = HISTORY_DEFAULT) -> TableVersion:
    """Return size, columns and recent commits of a table.

    Args:
        lake: Address of the table.
        history: Maximum number of commits to list.

    Raises:
        ConfigurationError: The table does not exist.
    """
    with _jobs_of(lake) as (jobs, place):
        done: TableVersion = jobs.show(place, history=history)
        return done


@contextmanager
def _jobs_of(lake: str | Path) -> Iterator[tuple[Any, Folder | IcebergAddress]]:
    """Return the jobs of the format of a table, and its address, with translated errors."""
    require_packages("lake tables need", ("pyarrow", "deltalake"), "spark")
    place = parse(lake)
    name = "iceberg" if isinstance(place, IcebergAddress) else "delta"
    with plain_errors(f"the lake table in {place}"):
        yield import_module(f"pgsluice.lake.{name}.jobs"), place
