"""Readers adapted to a PySpark without admission control, called as its engine calls them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceStreamReader

from pgsluice.errors import ConfigurationError
from pgsluice.lake.delta.log import DeltaLog
from pgsluice.spark import batch, features
from pgsluice.spark.batch import QUEUE_SCHEMA
from pgsluice.spark.features import ReadMaxFiles, WithoutLimits
from pgsluice.spark.lake_source import DeltaSource
from pgsluice.spark.running import reported_offset
from pgsluice.spark.schemas import arrow_schema, struct
from pgsluice.spark.source import PgsluiceSource
from pgsluice.spark.stream import LOG_SCHEMA
from support import value
from support.servers import Database


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "HAS_LIMITS", False)
    monkeypatch.setattr(features, "HAS_FILTERS", False)


class Query:
    """Engine of PySpark 4.0: `latestOffset` without arguments, and partitions at a restart."""

    def __init__(self, reader: DataSourceStreamReader, column: str) -> None:
        self.reader, self.column = reader, column
        self.copy = pickle.loads(pickle.dumps(reader))
        self.start: dict | None = None

    def restarted(self, reader: DataSourceStreamReader) -> Query:
        query = Query(reader, self.column)
        query.start = self.start
        assert reader.partitions(self.start, self.start) == []
        return query

    def micro_batch(self) -> list[str] | None:
        end = self.reader.latestOffset()
        if end == self.start:
            return None
        first, self.start = self.start, end
        if first is None:
            first = self.reader.initialOffset()
        else:
            self.reader.commit(first)
        return sorted(
            text
            for partition in self.reader.partitions(first, end)
            for found in self.copy.read(partition)
            for text in found.column(self.column).to_pylist()
        )

    def close(self) -> None:
        self.reader.stop()


def insert(log: psycopg.Connection, *events: str) -> None:
    for data in events:
        log.execute("select pgq.insert_event('log', 'n', %s)", (data,))
    log.execute("select pgq.force_tick('log')")
    log.execute("select pgq.ticker('log')")


@pytest.fixture
def options(database_18: Database) -> Mapping[str, str]:
    return {"dsn": database_18.url, "consumer": "lake"}


@pytest.mark.parametrize("offsets", ["ticks", "snapshots"])
def test_log_is_read_whole_at_each_start_and_in_limited_micro_batches_later(
    older: None, log: psycopg.Connection, options: Mapping[str, str], offsets: str
):
    options = {**options, "log": "log", "offsets": offsets, "maxRowsPerTrigger": "1"}

    def start() -> DataSourceStreamReader:
        return PgsluiceSource(options).streamReader(LOG_SCHEMA)

    insert(log, "1")
    insert(log, "2")
    query = Query(start(), "ev_data")
    assert isinstance(query.reader, WithoutLimits)
    assert query.micro_batch() == ["1", "2"]
    insert(log, "3")
    insert(log, "4")
    assert [query.micro_batch(), query.micro_batch()] == [["3"], ["4"]]
    query.close()

    insert(log, "5")
    insert(log, "6")
    again = query.restarted(start())
    assert again.micro_batch() == ["5", "6"]
    assert not again.micro_batch()
    again.close()


def test_claims_of_a_start_take_all_visible_messages_and_later_ones_are_limited(
    older: None, db: psycopg.Connection, options: Mapping[str, str]
):
    db.execute("select pgmq.create('orders')")
    options = {**options, "queue": "orders", "maxRowsPerTrigger": "2"}

    def start() -> DataSourceStreamReader:
        return PgsluiceSource(options).streamReader(QUEUE_SCHEMA)

    def send(*numbers: int) -> None:
        for n in numbers:
            db.execute("select pgmq.send('orders', to_jsonb(%s::int))", (n,))

    send(1, 2, 3, 4, 5)
    query = Query(start(), "message")
    assert query.micro_batch() == ["1", "2", "3", "4", "5"]
    assert value(db, "select count(*) from pgmq.a_orders") == 0
    send(6, 7, 8)
    assert [query.micro_batch(), query.micro_batch()] == [["6", "7"], ["8"]]
    assert value(db, "select count(*) from pgmq.a_orders") == 7
    query.close()

    send(9, 10, 11)
    again = query.restarted(start())
    assert again.micro_batch() == ["10", "11", "9"]
    again.close()


@pytest.fixture
def table(tmp_path: Path) -> DeltaSource:
    return DeltaSource({"path": str(tmp_path / "t"), "maxFilesPerTrigger": "1"})


def test_lake_table_is_read_whole_at_each_start_and_file_by_file_later(
    older: None, table: DeltaSource
):
    schema = struct(item="string")

    def write(*items: str) -> None:
        lake = table._table(schema)
        lake.create()
        for item in items:
            rows = pa.RecordBatch.from_pydict({"item": [item]}, schema=arrow_schema(schema))
            lake.commit(lake.write(iter([rows]), part=0), app_id=None, version=None)

    write("a", "b")
    query = Query(table.streamReader(schema), "item")
    assert query.micro_batch() == ["a", "b"]
    write("c", "d")
    assert [query.micro_batch(), query.micro_batch()] == [["c"], ["d"]]
    write("e", "f")
    again = query.restarted(table.streamReader(schema))
    assert again.micro_batch() == ["e", "f"]
    assert again.micro_batch() is None
    # Continued from the checkpoint, not as a new query.
    assert query.start is not None
    assert again.start["start"] == query.start["start"]
    assert isinstance(again.reader.reader.log, DeltaLog)
    assert isinstance(again.reader.reader.getDefaultReadLimit(), ReadMaxFiles)


def test_options_that_an_older_pyspark_lacks_are_refused(
    older: None, options: Mapping[str, str], table: DeltaSource
):
    low = PgsluiceSource({"dsn": options["dsn"], "log": "log", "lowLatency": "true"})
    with pytest.raises(ConfigurationError, match="lowLatency requires PySpark 4.2 or newer"):
        low.streamReader(LOG_SCHEMA)
    pushed = {"dsn": options["dsn"], "queue": "orders", "pushdown": "true"}
    with pytest.raises(ConfigurationError, match="pushdown requires PySpark 4.1 or newer"):
        batch.reader(pushed, QUEUE_SCHEMA)


def test_offset_of_a_progress_report_is_read_in_either_format():
    offset = {"log": "7", "tick": None, "is": True}
    assert reported_offset('{"log": "7", "tick": null, "is": true}') == offset
    assert reported_offset(str(offset)) == offset
    assert reported_offset(offset) == offset
    assert reported_offset(None) is None
