"""Interface to lake tables whose rows are changed, independent of their format.

A `MutableTable` is a table at one version. Each change is one commit on this version, and fails if another commit was
first; `commit_once` then repeats it on the newest version. A commit records versions of apps, as those of `LakeTable`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Self

import pyarrow as pa

from pgsluice.lake.files import LakeFile
from pgsluice.lake.skipping import Range
from pgsluice.lake.storage import Folder


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows to merge into a lake table.

    Attributes:
        rows: One row per key, with the table's columns.
        key: Non-null columns that identify a row.
        seq: Column that orders the rows of one key. A row updates the table's row if its `seq` is higher, and is
            inserted if its key is new.
        deleted: Boolean column; where true, the table's row is deleted regardless of its `seq`. None for no column.
        emptied_at: Delete the table's rows with a lower `seq`; None to keep them.
    """

    rows: pa.Table
    key: Sequence[str]
    seq: str
    deleted: str | None = None
    emptied_at: int | None = None


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to create.

    Attributes:
        schema: Its columns.
        partition_by: Its partition columns.
        name: Its name for readers.
        description: Its description for readers.
        properties: Its properties.
    """

    schema: pa.Schema
    partition_by: Sequence[str]
    name: str
    description: str | None
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RowFile:
    """File of a table.

    Attributes:
        path: Relative to the folder of the table's files.
        size_bytes: File size.
        partition: Value of each partition column as text.
        row_count: Number of rows; 0 if not recorded.
        ranges: Statistics by column.
        origin: What the format needs to remove the file.
    """

    path: str
    size_bytes: int
    partition: Mapping[str, str | None]
    row_count: int
    ranges: Mapping[str, Range] = field(default_factory=dict)
    origin: Any = None


Rows = Callable[["MutableTable"], Iterator[pa.RecordBatch]]


class MutableTable(ABC):
    """Lake table at one version."""

    # True if its files contain the partition columns.
    keeps_partition_columns: ClassVar[bool] = False

    @property
    @abstractmethod
    def folder(self) -> Folder:
        """The folder of its files."""

    @property
    @abstractmethod
    def columns(self) -> pa.Schema:
        """Its columns, with the types in its files."""

    @property
    @abstractmethod
    def partition_by(self) -> Sequence[str]:
        """Its partition columns."""

    @property
    @abstractmethod
    def properties(self) -> Mapping[str, str]:
        """Its properties."""

    @property
    @abstractmethod
    def description(self) -> str | None:
        """Its description for readers."""

    @property
    @abstractmethod
    def number(self) -> int:
        """Number of its version, which increases with each commit."""

    @abstractmethod
    def last_version(self, app_id: str) -> int | None:
        """Return the last version that an app committed; None without a commit."""

    @abstractmethod
    def files(self, columns: Sequence[str] = ()) -> list[RowFile]:
        """Return its files, with the statistics of these columns."""

    @abstractmethod
    def rows(self) -> Iterator[pa.RecordBatch]:
        """Read its rows, with its columns in any order."""

    @abstractmethod
    def newest(self) -> Self:
        """Return the newest version of the table."""

    @abstractmethod
    def commit_once(
        self, commit: Callable[[Self], None], *, app_id: str | None, version: int | None
    ) -> Self | None:
        """Commit a version of an app idempotently; retry conflicts on the newest version of the table.

        Args:
            commit: Changes the given table by one of the next three methods, or not at all.
            app_id: Id of the committing app; None to commit unconditionally.
            version: Increases with each commit of this app; the first may be 0.

        Returns:
            The table after the commit; None if this or a later version is already committed.

        Raises:
            StoreError: All attempts conflicted with other commits.
        """

    @abstractmethod
    def merge(self, changes: Changes, versions: Mapping[str, int]) -> None:
        """Merge rows in one commit; without `emptied_at`, make no commit if nothing changes.

        Args:
            changes: The changes.
            versions: Versions of apps to record.
        """

    @abstractmethod
    def replace(
        self, added: Sequence[LakeFile], removed: Sequence[RowFile], versions: Mapping[str, int]
    ) -> None:
        """Replace files in one commit.

        Args:
            added: Files from `write_files`; may be empty.
            removed: Files of this version; may be empty.
            versions: Versions of apps to record.
        """

    @abstractmethod
    def forget(self, marked: str, at: str, before: datetime) -> None:
        """Remove rows with a true column `marked` and an earlier time `at`; do nothing after a conflict."""

    @abstractmethod
    def overwrite(self, schema: pa.Schema, rows: Rows, versions: Mapping[str, int]) -> None:
        """Replace all rows and columns in one commit, with retries after conflicts.

        Args:
            schema: The new columns.
            rows: Returns the new rows, with this schema; called at each attempt, with the table at its newest version.
            versions: Versions of apps to record.

        Raises:
            SluiceError: An error of `rows`, or all attempts conflicted with other commits.
        """

    @abstractmethod
    def add_columns(self, columns: pa.Schema) -> None:
        """Add columns, null in existing rows."""

    @abstractmethod
    def describe(self, description: str) -> None:
        """Set the description, in a commit if it differs."""
