"""Logs of lake tables, read commit by commit, independent of their format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from pgsluice.lake.storage import Folder


@dataclass(frozen=True, slots=True)
class DataFile:
    """File of a lake table.

    Attributes:
        folder: Folder of the table.
        path: Relative to the folder.
        size_bytes: File size.
        partition: Values of the partition columns that the file lacks, as text.
    """

    folder: Folder
    path: str
    size_bytes: int
    partition: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class LakeCommit:
    """One commit.

    Attributes:
        added: Files with new rows, in a stable order; a compaction adds none.
        removes_rows: True if it removed or changed rows.
        columns: Columns of the table after it; None if they are as before.
    """

    added: Sequence[DataFile]
    removes_rows: bool
    columns: pa.Schema | None


class LakeLog(ABC):
    """Log of a lake table, picklable."""

    @abstractmethod
    def newest(self) -> tuple[str, int]:
        """Return the id of the table and its newest version.

        Raises:
            ConfigurationError: The table does not exist, or it uses a feature not supported for reading.
        """

    @abstractmethod
    def files(self, version: int) -> list[DataFile]:
        """Return all files of a version, in a stable order."""

    @abstractmethod
    def commit(self, version: int) -> LakeCommit | None:
        """Return one commit; None if the log no longer has it."""

    @abstractmethod
    def since(self, moment: datetime) -> int:
        """Return the oldest version that was committed at or after a time, or else the next version."""
