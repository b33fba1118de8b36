"""Interface for writing to lake tables, independent of their format.

Tasks write files, on any machine; one commit on the driver adds all files to the table atomically:

    files = table.write(batches, part=0)                        # on the executors
    table.commit(files, app_id="pgsluice:…", version=7)         # on the driver; False if 7 is already committed

Files are visible to readers from the commit on and not before. Commits are idempotent by app and version: a replay
after a crash adds nothing. A stale writer that commits late finds its version committed, or its commit fails.

Columns are matched by name: columns that the rows lack are null, and unknown columns are refused, or added if
`merge_schema` is true. Types never change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import pyarrow as pa

from pgsluice.lake.columns import with_nulls
from pgsluice.lake.files import LakeFile, write_files
from pgsluice.lake.storage import Folder, folder_at


class Replace(Enum):
    """Rows that a commit replaces: all, or those of the partitions that its files have."""

    TABLE = "static"
    PARTITIONS = "dynamic"


@dataclass(frozen=True)
class LakeTable(ABC):
    """Lake table, picklable so that Spark can send it to the tasks.

    Attributes:
        path: Absolute path or URL of the folder of its files, the same on all machines.
        rows_schema: Columns of the rows to write, all nullable.
        arrow_schema: Columns of its files: its own, and those of the rows that it lacks.
        partition_by: Partition columns.
        merge_schema: Add columns of the rows that it lacks.
    """

    path: str
    rows_schema: pa.Schema
    arrow_schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    merge_schema: bool = False

    # Name of the Spark data source that writes to it.
    format_name: ClassVar[str]
    # True if its files contain the partition columns.
    keeps_partition_columns: ClassVar[bool] = False

    @property
    @abstractmethod
    def place(self) -> str:
        """The address of the table."""

    @property
    def folder(self) -> Folder:
        """The folder of its files."""
        return folder_at(self.path)

    def write(self, batches: Iterable[pa.RecordBatch], *, part: int) -> tuple[LakeFile, ...]:
        """Write record batches to new, durable files; without rows, write no file.

        Args:
            batches: With columns that can be cast to the table's; columns they lack are null.
            part: Number of the Spark partition, for the file names.
        """
        return write_files(
            self.folder,
            self.arrow_schema,
            (with_nulls(batch, self.arrow_schema) for batch in batches),
            part=part,
            partition_by=self.partition_by,
            keep_partition_columns=self.keeps_partition_columns,
        )

    @abstractmethod
    def exists(self) -> bool:
        """Return True if the table exists."""

    @abstractmethod
    def create(self) -> object:
        """Create the table if it does not exist; with `merge_schema`, add the columns it lacks.

        Raises:
            ConfigurationError: Its columns do not fit the rows, or it has other partition columns.
            SluiceError: Commits conflicted.
        """

    @abstractmethod
    def commit(
        self,
        files: Sequence[LakeFile],
        *,
        app_id: str | None,
        version: int | None,
        replace: Replace | None = None,
    ) -> bool:
        """Add files in one commit, idempotent by app and version; retry conflicts.

        Args:
            files: Files from `write`.
            app_id: Id of the committing app; None to add the files unconditionally.
            version: Increases with each commit of this app; the first may be 0.
            replace: Remove these rows in the same commit, as they are at the call; None to remove none. Rows that other
                writers add during the call stay.

        Returns:
            False if this or a later version is already committed; the files are not added.

        Raises:
            SluiceError: Commits conflicted, a concurrent commit replaced the files to remove, or a new file no longer
                exists; nothing was changed.
        """

    @abstractmethod
    def last_version(self, app_id: str) -> int | None:
        """Return the last version that an app committed; None without a commit or table."""

    @abstractmethod
    def row_count(self) -> int:
        """Return the number of rows from table statistics; 0 if the table does not exist."""
