"""What a table of the lake is to those who write into it, whatever its format.

Tasks write files, on any machine; one commit on the driver puts them all into the table, or none:

    files = table.write(batches, part=0)                        # on the executors
    table.commit(files, app_id="pgsluice:…", version=7)         # on the driver; False when 7 was there already

Three things follow. Nobody sees a file before the commit, and everybody after it. What is committed a second
time, after a crash, is recognised by its app and version and adds nothing. A committer that was thought dead
and comes late finds its version there, or is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from pgsluice.lake.files import LakeFile, write_files


@dataclass(frozen=True)
class LakeTable(ABC):
    """A table of the lake. It can be pickled: Spark sends it to the tasks.

    Attributes:
        path: The folder of its files, absolute, the same on all machines.
        arrow_schema: Its columns; each may be null.
        partition_by: The columns whose values have folders of their own.
    """

    path: str
    arrow_schema: pa.Schema
    partition_by: tuple[str, ...] = ()

    # The format of Spark's that writes into it.
    format_name: ClassVar[str]
    # Whether its files hold the partition columns as well: formats differ.
    keeps_partition_columns: ClassVar[bool] = False

    def write(self, batches: Iterable[pa.RecordBatch], *, part: int) -> tuple[LakeFile, ...]:
        """Write record batches to new files and force them to disk; no rows, no file.

        Args:
            batches: In any schema that can be cast to the table's.
            part: The partition's number, for the names.
        """
        return write_files(
            Path(self.path),
            self.arrow_schema,
            batches,
            part=part,
            partition_by=self.partition_by,
            keep_partition_columns=self.keeps_partition_columns,
        )

    @abstractmethod
    def exists(self) -> bool:
        """Whether it has been made."""

    @abstractmethod
    def create(self) -> object:
        """Make the table if it is not there.

        Raises:
            ConfigurationError: It is there and has other columns, or other partition columns.
        """

    @abstractmethod
    def commit(self, files: Sequence[LakeFile], *, app_id: str | None, version: int | None) -> bool:
        """Add files in one commit, once for each version of an app.

        Args:
            files: From `write`.
            app_id: Who commits; with None the files are added whatever was committed before.
            version: Rises with each commit of this app; its first may be 0.

        Returns:
            False when this or a later version was committed already; the files are not added then.

        Raises:
            SluiceError: Another commit came between again and again, or a file is gone; nothing was added.
        """

    @abstractmethod
    def last_version(self, app_id: str) -> int | None:
        """The highest version that an app has committed; None when it has none, or there is no table."""

    @abstractmethod
    def row_count(self) -> int:
        """How many rows it holds, from its own statistics; 0 when there is no table."""
