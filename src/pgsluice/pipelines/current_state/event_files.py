"""Write the events of a micro-batch to files, and apply them from there, in tasks of Spark.

In a classic session, a function of `foreachBatch` writes the files and commits them. Spark Connect would run that
function in a process of the server; there, a sink writes and commits the files, and records the micro-batch in the
checkpoint, from which the client applies it.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pgsluice.lake.files import LakeFile
from pgsluice.lake.names import TableName
from pgsluice.lake.table import LakeTable
from pgsluice.pipelines.current_state.pieces import Tasks, in_turn
from pgsluice.pipelines.current_state.reading import Event, Sources, markers_in, tables_in
from pgsluice.spark.lake_tables import table_at
from pgsluice.spark.micro_batch import MicroBatch
from pgsluice.spark.session import default_parallelism, is_connect, register_source

_EVENTS_ON_DRIVER_MAX = 2_000  # decoded in 20 ms, and a job of Spark takes longer
_TASKS_A_CORE = 4
_REPORT = "report"


@dataclass(frozen=True, slots=True)
class Written:
    """Events in files that are not yet committed.

    Attributes:
        files: The files.
        sources: Tables with changes among the events.
        markers: Markers of snapshots and partitions among the events.
    """

    files: Sequence[LakeFile]
    sources: Sources
    markers: tuple[Event, ...] = ()

    @classmethod
    def from_json(cls, text: str) -> Written:
        """Return what `to_json` wrote."""
        content = json.loads(text)
        files = [LakeFile(**file) for file in content["files"]]
        shapes = {TableName(*name): found for name, found in content["tables"]}
        sources = Sources(shapes, frozenset(content["joined"]))
        return cls(files, sources, tuple(map(tuple, content["markers"])))

    def to_json(self) -> str:
        """Return this as JSON."""
        files = [asdict(file) for file in self.files]
        tables = [(astuple(name), found) for name, found in sorted(self.sources.shapes.items())]
        joined = sorted(self.sources.joined)
        return json.dumps(
            {"files": files, "tables": tables, "joined": joined, "markers": self.markers}
        )

    @classmethod
    def joined(cls, parts: Iterable[Written]) -> Written:
        """Return the events of several tasks."""
        found = list(parts)
        return cls(
            [file for written in found for file in written.files],
            reduce(or_, (written.sources for written in found), Sources()),
            tuple(marker for written in found for marker in written.markers),
        )

    @property
    def row_count(self) -> int:
        """Number of events."""
        return sum(file.row_count for file in self.files)


@dataclass(frozen=True)
class EventsWritten(WriterCommitMessage):  # type: ignore[misc]
    """Commit message of one task: its events and, for a stream, their micro-batch."""

    written: Written
    micro_batch: MicroBatch | None = None


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]
    """Write events to files of a table, and report the files instead of committing them."""

    def __init__(self, table: LakeTable, report: Path) -> None:
        self.table = table
        self.report = report

    def write(self, iterator: Iterator[pa.RecordBatch]) -> EventsWritten:
        return EventsWritten(write_part(iterator, self.table, TaskContext.get().partitionId()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        found = (message.written for message in messages if isinstance(message, EventsWritten))
        self.report.write_text(Written.joined(found).to_json())

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        pass  # vacuum removes the files


class EventFiles(DataSource):  # type: ignore[misc]
    """The format of `write_files`: `path` is the table, `report` a file on the driver."""

    @classmethod
    def name(cls) -> str:
        return "pgsluice-event-files"

    def writer(self, schema: StructType, overwrite: bool) -> _Writer:  # noqa: ARG002 - Spark's signature
        return _Writer(table_at(self.options["path"], schema), Path(self.options[_REPORT]))


def write_part(batches: Iterator[pa.RecordBatch], table: LakeTable, part: int) -> Written:
    """Write the events of one task to files of a table, without a commit."""
    sources = Sources()
    markers: list[Event] = []

    def watched() -> Iterator[pa.RecordBatch]:
        nonlocal sources
        for batch in batches:
            sources |= tables_in(batch)
            markers.extend(markers_in(batch))
            yield batch

    files = table.write(watched(), part=part)
    return Written(files, sources, tuple(markers))


def write_files(events: DataFrame, table: LakeTable) -> Written:
    """Write events to files of a table, without a commit."""
    register_source(events.sparkSession, EventFiles)
    with tempfile.TemporaryDirectory(prefix="pgsluice-") as folder:
        report = Path(folder, _REPORT)
        writer = events.write.format(EventFiles.name()).mode("append")
        writer.option(_REPORT, str(report)).save(table.place)
        return Written.from_json(report.read_text())


def tasks_in(spark: SparkSession, row_count: int) -> Tasks[Any, Any]:
    """Return a function that runs tasks in Spark, or in this process for few events."""
    if row_count <= _EVENTS_ON_DRIVER_MAX:
        return in_turn

    def run(act: Callable[[Any], Any], units: Sequence[Any]) -> list[Any]:
        if not units:
            return []
        slices = min(len(units), _TASKS_A_CORE * default_parallelism(spark))
        if is_connect(spark):
            return _run_in_connect(spark, act, units, slices)
        results: list[Any] = spark.sparkContext.parallelize(units, slices).map(act).collect()
        return results

    return run


def _run_in_connect(
    spark: SparkSession, act: Callable[[Any], Any], units: Sequence[Any], slices: int
) -> list[Any]:
    """Run tasks as a query over the numbers of slices, as Spark Connect has no RDDs."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                results = pickle.dumps([act(unit) for unit in units[at::slices]])
                yield pa.RecordBatch.from_pydict({"at": [at], "results": [results]})

    rows = spark.range(0, slices, 1, slices).mapInArrow(run, "at long, results binary").collect()
    found: list[Any] = [None] * len(units)
    for row in rows:
        found[row.at :: slices] = pickle.loads(row.results)  # noqa: S301 - of our own task
    return found
