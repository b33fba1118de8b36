"""What compaction, vacuum and a look at a table of the lake return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

TARGET_MB_DEFAULT = 256


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
