"""Stream a lake table: the rows of each commit once; see `lake_source` for the options.

A new query first reads the table as it is, then its later commits. An offset is a position in the log: a version, and
the number of its files that are already read. Every offset also records where the query started, as Spark asks for the
initial offset again after a crash, when the table has newer versions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError, LogStateError
from pgsluice.lake.changes import DataFile, LakeCommit, LakeLog
from pgsluice.lake.columns import plain
from pgsluice.printable import print_warning
from pgsluice.spark.features import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pgsluice.spark.lake_batch import FilesPartition, read_file, require_columns, tasks_of
from pgsluice.spark.offsets import moment
from pgsluice.spark.options import truth, whole_number, whole_number_or_zero
from pgsluice.spark.schemas import arrow_schema

# As for Delta's own source.
MAX_FILES_DEFAULT = 1000
_LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Position:
    """Position in the log of a table; the order of the attributes is that of the JSON text, which Spark compares.

    Attributes:
        table: Id of the table.
        start: Version at which the query started.
        from_snapshot: True if it started with all rows of that version, False with the rows of its commit.
        version: The next version to read.
        index: Number of its files that are already read.
    """

    table: str
    start: int
    from_snapshot: bool
    version: int
    index: int

    @property
    def is_in_snapshot(self) -> bool:
        return self.from_snapshot and self.version == self.start


# The start of any query, before it is known where it starts.
_INITIAL = Position("", -1, False, -1, 0)


@dataclass(frozen=True, slots=True)
class _Start:
    version: int | None = None
    time: datetime | None = None
    is_latest: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> _Start:
        version, time = options.get("startingVersion"), options.get("startingTimestamp")
        if version and time:
            raise ConfigurationError(
                "the options startingVersion and startingTimestamp are mutually exclusive; set only one"
            )
        if time:
            return cls(time=moment("startingTimestamp", time))
        if version and version.lower() == _LATEST:
            return cls(is_latest=True)
        return cls(version=whole_number_or_zero(options, "startingVersion"))


class LakeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Read the rows that commits add to a lake table.

    Args:
        log: Log of the table.
        table_schema: All columns of the table.
        schema: The columns to read.
        options: The options.
    """

    def __init__(
        self, log: LakeLog, table_schema: StructType, schema: StructType, options: Mapping[str, str]
    ) -> None:
        require_columns(table_schema, schema)
        self.log = log
        self.columns = {field.name: field.type for field in plain(arrow_schema(table_schema))}
        self.schema = arrow_schema(schema)
        self.start = _Start.from_options(options)
        self.max_files = whole_number(options, "maxFilesPerTrigger", MAX_FILES_DEFAULT)
        self.ignores_deletes = truth(options, "ignoreDeletes", default=False)
        self.skips_changes = truth(options, "skipChangeCommits", default=False)
        self.fail_on_data_loss = truth(options, "failOnDataLoss", default=True)
        self.until: int | None = None
        self.lost = -2

    # --- planning, on the driver ---------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        return asdict(_INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self.max_files)

    def prepareForTriggerAvailableNow(self) -> None:
        _, self.until = self.log.newest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        table_id, newest = self.log.newest()
        if self.until is not None:
            newest = self.until
        end = Position(**start)
        if end == _INITIAL:
            end = self._first(table_id, newest)
        elif end.table != table_id:
            raise LogStateError(
                f"{self.log} is another one than that of the checkpoint; start the query with a "
                "new checkpoint"
            )
        left = limit.max_files if isinstance(limit, ReadMaxFiles) else sys.maxsize
        for file, after in self._walk(end, newest):
            end = after
            left -= file is not None
            if left == 0:
                break
        return asdict(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[FilesPartition]:
        begin, finish = Position(**start), Position(**end)
        if begin == _INITIAL:
            if finish == _INITIAL:
                return []
            begin = Position(
                finish.table, finish.start, finish.from_snapshot, finish.start, index=0
            )
        files = []
        for file, after in self._walk(
            begin, finish.version if finish.index else finish.version - 1
        ):
            if (after.version, after.index) > (finish.version, finish.index):
                break
            if file is not None:
                files.append(file)
        return tasks_of(files)

    # --- reading, on the executors -------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # If there are no partitions, Spark passes a default one.
        if not isinstance(partition, FilesPartition):
            return
        for file in partition.files:
            try:
                yield from read_file(file, self.schema)
            except FileNotFoundError:
                self._lost(f"the file {file.path} no longer exists, for example after a vacuum")

    # --- inside --------------------------------------------------------------------------------------

    def _first(self, table_id: str, newest: int) -> Position:
        """Return the position at which a new query starts."""
        start = self.start
        if start.is_latest:
            version = newest + 1
        elif start.time is not None:
            version = self.log.since(start.time)
        elif start.version is not None:
            version = start.version
            if version > newest + 1:
                raise ConfigurationError(
                    f"startingVersion is {version}, but the newest version of {self.log} is "
                    f"{newest}; use {_LATEST} for later commits"
                )
        else:
            return Position(table_id, newest, True, newest, 0)
        return Position(table_id, version, False, version, 0)

    def _walk(self, begin: Position, last: int) -> Iterator[tuple[DataFile | None, Position]]:
        """Yield each unread file up to a version with the position after it; None for a version without files."""
        at = begin
        while at.version <= last:
            files = self._files(at)
            following = Position(at.table, at.start, at.from_snapshot, at.version + 1, 0)
            if not files[at.index :]:
                yield None, following
            for index in range(at.index, len(files)):
                inside = Position(at.table, at.start, at.from_snapshot, at.version, index + 1)
                yield files[index], following if index + 1 == len(files) else inside
            at = following

    def _files(self, at: Position) -> Sequence[DataFile]:
        """Return the files of a version to read, in a stable order."""
        if at.is_in_snapshot:
            return self.log.files(at.version)
        commit = self.log.commit(at.version)
        if commit is None:
            # One line for adjacent versions.
            if self.fail_on_data_loss or at.version != self.lost + 1:
                self._lost(f"version {at.version} of its log no longer exists")
            self.lost = at.version
            return ()
        self._require_columns(at.version, commit)
        if not commit.removes_rows:
            return commit.added
        if not self.skips_changes and (commit.added or not self.ignores_deletes):
            hint = "skipChangeCommits" if commit.added else "ignoreDeletes"
            raise LogStateError(
                f"version {at.version} of {self.log} removes or changes rows, which a stream "
                f"cannot show; set {hint} to true to ignore that commit"
            )
        return ()

    def _require_columns(self, version: int, commit: LakeCommit) -> None:
        if commit.columns is None:
            return
        changed = [f.name for f in commit.columns if self.columns.get(f.name) != f.type]
        if changed:
            raise LogStateError(
                f"version {version} of {self.log} changes the columns {', '.join(changed)}; "
                "restart the query to read them"
            )

    def _lost(self, what: str) -> None:
        if self.fail_on_data_loss:
            raise LogStateError(
                f"the stream of {self.log} has lost rows: {what}; set failOnDataLoss to false to "
                "continue with the next ones"
            )
        print_warning(f"skipping lost rows of {self.log}: {what}")
