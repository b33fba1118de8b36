"""Spark's format `pgsluice-delta`: rows into a Delta table, each micro-batch once, without any jar.

Executors write Parquet files beside the table. Then the driver makes one commit that names the files and
carries, in Delta's own `txn` action, the query's id and the micro-batch's number. Three things follow:

  - nobody sees a file before the commit, and everybody after it: any reader of Delta, not only Spark;
  - after a crash between this commit and Spark's, Spark replays the micro-batch. The table already holds
    its number, and nothing is added. The replay's files are left for `vacuum`, as are those of failed tasks;
  - a driver that was thought dead and commits late finds its number there, or fails: Delta refuses two
    commits of one query that did not see each other.

The table is a folder that the driver and all executors share.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties, Transaction
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.spark.options import whole_number_or_zero
from pgsluice.spark.schemas import arrow_schema, conform

# Rows are collected up to this size and written as one row group: readers like 16 MiB and more.
_ROW_GROUP_BYTES = 64 << 20


class DeltaSink(DataSource):  # type: ignore[misc]
    """The format `pgsluice-delta`.

    Options: `path`, the table's folder, made when it is not there. For a write that is no stream also
    `txnAppId` and `txnVersion`: a write whose version is not above the last one of that name adds nothing.
    """

    @classmethod
    def name(cls) -> str:
        return "pgsluice-delta"

    def writer(self, schema: StructType, overwrite: bool) -> DeltaBatchWriter:
        _refuse_overwrite(overwrite)
        return DeltaBatchWriter(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DeltaStreamWriter:
        _refuse_overwrite(overwrite)
        return DeltaStreamWriter(LakeTable.of(self.options.get("path"), schema))


@dataclass(frozen=True)
class LakeFile:
    """A Parquet file that was written and belongs to no commit yet.

    Attributes:
        path: Relative to the table's folder.
        size_bytes: Its size.
        stats: Delta's statistics as JSON: numRecords, minValues, maxValues, nullCount.
        row_count: Its rows.
    """

    path: str
    size_bytes: int
    stats: str
    row_count: int


@dataclass(frozen=True)
class FilesWritten(WriterCommitMessage):  # type: ignore[misc]
    """What one task tells the driver: its files, and which micro-batch of which query they are of."""

    files: tuple[LakeFile, ...]
    query_id: str | None = None
    batch_id: int | None = None


@dataclass(frozen=True)
class LakeTable:
    """A Delta table in a folder.

    Attributes:
        path: The folder, absolute.
        schema_json: Its columns as Spark writes a schema, which is how Delta does.
    """

    path: str
    schema_json: str

    @classmethod
    def of(cls, path: str | None, schema: StructType) -> LakeTable:
        """The table in a folder; nothing is touched.

        Raises:
            ConfigurationError: There is no path, or it is not a folder's.
        """
        if not path:
            raise ConfigurationError(
                "the format pgsluice-delta needs the table's folder: start(path) or save(path)"
            )
        local = path.removeprefix("file://")
        if "://" in local:
            raise ConfigurationError(
                f"the lake {path!r} is not a folder; give a path that Spark's driver and executors share"
            )
        nullable = StructType.fromJson(
            {**schema.jsonValue(), "fields": [{**f.jsonValue(), "nullable": True} for f in schema]}
        )
        return cls(str(Path(local).absolute()), nullable.json())

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of its files."""
        return arrow_schema(StructType.fromJson(json.loads(self.schema_json)))

    def create(self) -> DeltaTable:
        """Make the table if it is not there, and open it.

        Raises:
            ConfigurationError: It is there and has other columns.
        """
        wanted = Schema.from_json(self.schema_json)
        if not DeltaTable.is_deltatable(self.path):
            # Somebody may be making it at this moment: then theirs is taken.
            DeltaTable.create(self.path, wanted, mode="ignore")
        table = DeltaTable(self.path)
        there = [(field.name, field.type) for field in table.schema().fields]
        if there != [(field.name, field.type) for field in wanted.fields]:
            raise ConfigurationError(
                f"the lake table in {self.path} has the columns {', '.join(n for n, _ in there)}, not "
                f"{', '.join(field.name for field in wanted.fields)}, or other types; use another folder"
            )
        return table

    def write(self, batches: Iterator[pa.RecordBatch], *, part: int) -> tuple[LakeFile, ...]:
        """Write record batches to a new file and force it to disk; no rows, no file.

        Args:
            batches: In any schema that can be cast to the table's.
            part: The partition's number, for the name.
        """
        schema = self.arrow_schema
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return ()
        folder = Path(self.path)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"part-{part:05d}-{uuid.uuid4()}.zstd.parquet"
        stats = _Stats(schema)
        try:
            with path.open("xb") as file:
                with pq.ParquetWriter(file, schema, compression="zstd") as writer:
                    for group in _groups(first, batches, schema):
                        stats.add(group)
                        writer.write_table(group, row_group_size=group.num_rows)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        _sync_folder(folder)
        written = LakeFile(path.name, path.stat().st_size, stats.to_json(), stats.row_count)
        return (written,)

    def commit(self, files: Sequence[LakeFile], *, app_id: str | None, version: int | None) -> bool:
        """Add files in one commit, once for each version of an app.

        Args:
            files: From `write`.
            app_id: Who commits; with None the files are added whatever was committed before.
            version: Rises with each commit of this app; its first may be 0.

        Returns:
            False when this or a later version was committed already; the files are not added then.

        Raises:
            SluiceError: Another commit came between again and again; nothing was added.
        """
        table = self.create()
        if not files:
            return True
        properties = None
        if app_id is not None and version is not None:
            if _is_committed(table, app_id, version):
                return False
            properties = CommitProperties(app_transactions=[Transaction(app_id, version)])
        now_ms = int(time.time() * 1000)
        actions = [AddAction(f.path, f.size_bytes, {}, now_ms, True, f.stats) for f in files]
        before = table.version()
        try:
            table.create_write_transaction(
                actions, "append", table.schema(), commit_properties=properties
            )
        except CommitFailedError as error:
            again = DeltaTable(self.path)
            if app_id is not None and version is not None and _is_committed(again, app_id, version):
                return False  # by a driver that was thought dead
            raise SluiceError(
                f"the lake table in {self.path} refused a commit: {error}; run the write again"
            ) from error
        table.update_incremental()
        self._sync_log(before + 1, table.version())
        return True

    def _sync_log(self, first: int, last: int) -> None:
        """Force commits to disk: Spark forgets a micro-batch once we say that it is there."""
        log = Path(self.path) / "_delta_log"
        for version in range(first, last + 1):
            try:
                handle = os.open(log / f"{version:020d}.json", os.O_RDONLY)
            except FileNotFoundError:
                continue  # already replaced by a checkpoint
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        _sync_folder(log)


class DeltaStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Write each micro-batch of a query once."""

    def __init__(self, table: LakeTable) -> None:
        self.table = table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesWritten:
        # Spark tells a task neither the query nor the micro-batch, except here.
        task = TaskContext.get()
        query_id = task.getLocalProperty("sql.streaming.queryId")
        batch_id = task.getLocalProperty("streaming.sql.batchId")
        if query_id is None or batch_id is None:
            raise SluiceError(
                "Spark does not say which micro-batch of which query this is; use PySpark 4.2 or newer "
                "and start the stream with writeStream"
            )
        files = self.table.write(iterator, part=task.partitionId())
        return FilesWritten(files, query_id, int(batch_id))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        told = [message for message in messages if isinstance(message, FilesWritten)]
        if {message.batch_id for message in told} - {batchId}:
            raise SluiceError(
                f"tasks of another micro-batch reported to micro-batch {batchId}; restart the stream"
            )
        query_ids = {message.query_id for message in told}
        if len(query_ids) > 1:
            raise SluiceError(
                f"tasks of several queries reported to micro-batch {batchId}; restart the stream"
            )
        query_id = query_ids.pop() if query_ids else None
        self.table.commit(_files(told), app_id=query_id and app_id_of(query_id), version=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        # Spark also calls this when commit() died after the table took the files: nothing may be undone.
        pass


class DeltaBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Append rows once."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.table = LakeTable.of(options.get("path"), schema)
        self.app_id = options.get("txnAppId") or None
        self.version = whole_number_or_zero(options, "txnVersion")
        if (self.app_id is None) != (self.version is None):
            raise ConfigurationError(
                "txnAppId and txnVersion belong together: give both or neither"
            )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FilesWritten:
        task = TaskContext.get()
        return FilesWritten(self.table.write(iterator, part=task.partitionId()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        told = [message for message in messages if isinstance(message, FilesWritten)]
        self.table.commit(_files(told), app_id=self.app_id, version=self.version)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # As for a stream: the commit may have gone through.
        pass


def app_id_of(query_id: str) -> str:
    """The name under which a query's commits stand in the table's log."""
    return f"pgsluice:{query_id}"


def _files(told: Sequence[FilesWritten]) -> list[LakeFile]:
    return [file for message in told for file in message.files]


def _is_committed(table: DeltaTable, app_id: str, version: int) -> bool:
    last = table.transaction_version(app_id)
    # Not `last or -1`: the first micro-batch has the number 0.
    return last is not None and last >= version


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise ConfigurationError(
            "the format pgsluice-delta only appends; use mode('append'), or remove the folder first"
        )


def _groups(
    first: pa.RecordBatch, rest: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.Table]:
    """Collect batches to tables of about a row group's size."""
    held = [conform(first, schema)]
    held_bytes = held[0].nbytes
    for batch in rest:
        if held_bytes >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(held, schema)
            held, held_bytes = [], 0
        held.append(conform(batch, schema))
        held_bytes += batch.nbytes
    yield pa.Table.from_batches(held, schema)


class _Stats:
    """Delta's statistics of one file: readers skip files by them."""

    def __init__(self, schema: pa.Schema) -> None:
        self.row_count = 0
        # Text is left out: a cut-off maximum needs care, and a whole one may be megabytes.
        self._ranged = [f.name for f in schema if _has_range(f.type)]
        self._counted = [f.name for f in schema if not pa.types.is_nested(f.type)]
        self._null_count = dict.fromkeys(self._counted, 0)
        self._min: dict[str, Any] = {}
        self._max: dict[str, Any] = {}

    def add(self, table: pa.Table) -> None:
        self.row_count += table.num_rows
        for name in self._counted:
            self._null_count[name] += table.column(name).null_count
        for name in self._ranged:
            low_high = pc.min_max(table.column(name)).as_py()
            if low_high["min"] is not None:
                self._min[name] = min(self._min.get(name, low_high["min"]), low_high["min"])
                self._max[name] = max(self._max.get(name, low_high["max"]), low_high["max"])

    def to_json(self) -> str:
        return json.dumps(
            {
                "numRecords": self.row_count,
                "minValues": {name: _as_json(value) for name, value in self._min.items()},
                "maxValues": {name: _as_json(value) for name, value in self._max.items()},
                "nullCount": self._null_count,
            }
        )


def _has_range(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _as_json(value: Any) -> Any:
    if isinstance(value, int):
        return value
    return value.isoformat().replace("+00:00", "Z")


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
