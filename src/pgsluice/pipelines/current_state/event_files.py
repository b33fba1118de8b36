"""Write the events of a micro-batch to files, and apply them from there, in tasks of Spark."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkContext, TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pgsluice.lake.files import LakeFile
from pgsluice.lake.table import LakeTable
from pgsluice.pipelines.current_state.pieces import Tasks, in_turn
from pgsluice.pipelines.current_state.reading import Event, marks_in, tables_in
from pgsluice.spark.lake_tables import table_at
from pgsluice.spark.session import register_source

_EVENTS_ON_DRIVER_MAX = 2_000  # decoded in 20 ms, and a job of Spark takes longer
_TASKS_A_CORE = 4
_REPORT = "report"


@dataclass(frozen=True, slots=True)
class Written:
    """Events in files that are not yet committed.

    Attributes:
        files: The files.
        tables: Tables with changes among the events.
        marks: Marks of snapshots among the events.
    """

    files: Sequence[LakeFile]
    tables: frozenset[str]
    marks: tuple[Event, ...] = ()

    @classmethod
    def from_json(cls, text: str) -> Written:
        """Return what `to_json` wrote."""
        content = json.loads(text)
        files = [LakeFile(**file) for file in content["files"]]
        return cls(files, frozenset(content["tables"]), tuple(map(tuple, content["marks"])))

    def to_json(self) -> str:
        """Return this as JSON."""
        files = [asdict(file) for file in self.files]
        return json.dumps({"files": files, "tables": sorted(self.tables), "marks": self.marks})

    @property
    def row_count(self) -> int:
        """Number of events."""
        return sum(file.row_count for file in self.files)


@dataclass(frozen=True)
class _Message(WriterCommitMessage):  # type: ignore[misc]
    """Commit message of one task."""

    written: Written


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]
    """Write events to files of a table, and report the files instead of committing them."""

    def __init__(self, table: LakeTable, report: Path) -> None:
        self.table = table
        self.report = report

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Message:
        tables: set[str] = set()
        marks: list[Event] = []

        def watched() -> Iterator[pa.RecordBatch]:
            for batch in iterator:
                tables.update(tables_in(batch))
                marks.extend(marks_in(batch))
                yield batch

        files = self.table.write(watched(), part=TaskContext.get().partitionId())
        return _Message(Written(files, frozenset(tables), tuple(marks)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        found = [message.written for message in messages if isinstance(message, _Message)]
        files = [file for written in found for file in written.files]
        tables = frozenset(table for written in found for table in written.tables)
        marks = tuple(mark for written in found for mark in written.marks)
        self.report.write_text(Written(files, tables, marks).to_json())

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        pass  # vacuum removes the files


class EventFiles(DataSource):  # type: ignore[misc]
    """The format of `write_files`: `path` is the table, `report` a file on the driver."""

    @classmethod
    def name(cls) -> str:
        return "pgsluice-event-files"

    def writer(self, schema: StructType, overwrite: bool) -> _Writer:  # noqa: ARG002 - Spark's signature
        return _Writer(table_at(self.options["path"], schema), Path(self.options[_REPORT]))


def write_files(events: DataFrame, table: LakeTable) -> Written:
    """Write events to files of a table, without a commit."""
    register_source(events.sparkSession, EventFiles)
    with tempfile.TemporaryDirectory(prefix="pgsluice-") as folder:
        report = Path(folder, _REPORT)
        writer = events.write.format(EventFiles.name()).mode("append")
        writer.option(_REPORT, str(report)).save(table.place)
        return Written.from_json(report.read_text())


def tasks_on(context: SparkContext, *, row_count: int) -> Tasks[Any, Any]:
    """Return a function that runs tasks in Spark, or in this process for few events."""
    if row_count <= _EVENTS_ON_DRIVER_MAX:
        return in_turn

    def run(act: Callable[[Any], Any], units: Sequence[Any]) -> list[Any]:
        if not units:
            return []
        slices = min(len(units), _TASKS_A_CORE * context.defaultParallelism)
        results: list[Any] = context.parallelize(units, slices).map(act).collect()
        return results

    return run
