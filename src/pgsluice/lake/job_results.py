"""Results of lake table maintenance jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

TARGET_MB_DEFAULT = 256


@dataclass(frozen=True, slots=True)
class Compaction:
    """Result of a compaction.

    Attributes:
        files_removed: Number of small files removed from the table; `vacuum` removes them from disk.
        files_added: Number of larger files that replace them.
        version: Table version, or snapshot id, afterwards.
    """

    files_removed: int
    files_added: int
    version: int


@dataclass(frozen=True, slots=True)
class Vacuum:
    """Files that a vacuum removed, or would remove.

    Attributes:
        files: Paths relative to the folder of the table, sorted.
        size_bytes: Total size.
    """

    files: Sequence[str]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit of a table.

    Attributes:
        version: Table version, or Iceberg's snapshot id.
        committed_at: Commit time by the writer's clock.
        operation: Operation name of the format: `WRITE`, `OPTIMIZE`, `append`, `overwrite`.
    """

    version: int
    committed_at: datetime
    operation: str


@dataclass(frozen=True, slots=True)
class TableVersion:
    """Newest version of a table.

    Attributes:
        format: `delta` or `iceberg`.
        version: Table version, or Iceberg's snapshot id; 0 without a snapshot.
        rows, files, size_bytes: Totals of the newest version, without files that `vacuum` will remove.
        small_files: Number of files smaller than a quarter of the default compaction target.
        partition_by: Partition columns.
        columns: `name type`, in order.
        history: Recent commits, newest first.
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
