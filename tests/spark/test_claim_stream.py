"""A work queue as a stream: its reader without Spark, and a stream from queue to queue."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psycopg
import pytest
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError, QueueNotFoundError, ServerError
from pgsluice.spark.batch import QUEUE_SCHEMA
from pgsluice.spark.claim_stream import ClaimStreamReader, drop_stream, settle
from pgsluice.spark.retry import with_retries
from pgsluice.spark.sink import RowStreamWriter
from pgsluice.spark.source import PgsluiceSource
from support import rows, value
from support.queue_options import set_queue_options
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVED = "select coalesce(array_agg(message::integer order by msg_id), '{}') from pgmq.a_orders"


@pytest.fixture
def orders(db: psycopg.Connection) -> psycopg.Connection:
    db.execute("select pgmq.create('orders')")
    return db


def send(connection: psycopg.Connection, *numbers: int) -> None:
    connection.execute("select pgmq.send_batch('orders', %s::jsonb[])", [[str(n) for n in numbers]])


@pytest.fixture
def start(database_18: Database) -> Iterator[object]:
    """Return a function that creates the reader of a (re)started query."""
    readers = []

    def make(**options: str) -> ClaimStreamReader:
        reader = ClaimStreamReader(
            {"dsn": database_18.url, "queue": "orders", "consumer": "lake", **options}, QUEUE_SCHEMA
        )
        readers.append(pickle.loads(pickle.dumps(reader)))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


def read(reader: ClaimStreamReader, begin: dict, end: dict) -> list[int]:
    return [
        int(message)
        for partition in reader.partitions(begin, end)
        for batch in reader.read(partition)
        for message in batch.column("message").to_pylist()
    ]


def test_a_micro_batch_is_read_again_after_a_crash_wherever_that_was(orders, start):
    send(orders, *range(10))
    before = start()
    offset_0 = before.initialOffset()
    assert before.latestOffset(offset_0, ReadMaxRows(6)) == {**offset_0, "seq": 1}

    # Spark did not record the claim: it starts anew and reads the same messages.
    reader = start()
    assert reader.initialOffset() == offset_0
    offset_1 = reader.latestOffset(offset_0, ReadMaxRows(3))
    assert offset_1["seq"] == 1
    assert read(reader, offset_0, offset_1) == [0, 1, 2, 3, 4, 5]

    # Spark recorded the claim, and died before it recorded that the rows were stored.
    reader = start()
    assert read(reader, offset_0, offset_1) == [0, 1, 2, 3, 4, 5]
    assert value(orders, ARCHIVED) == []

    # Spark recorded the commit, and requests more.
    offset_2 = reader.latestOffset(offset_1, ReadMaxRows(100))
    assert value(orders, ARCHIVED) == [0, 1, 2, 3, 4, 5]
    assert read(reader, offset_1, offset_2) == [6, 7, 8, 9]
    assert reader.latestOffset(offset_2, ReadMaxRows(100)) == offset_2
    reader.commit(offset_2)
    assert value(orders, ARCHIVED) == list(range(10))
    assert read(reader, offset_2, offset_2) == read(reader, offset_2, offset_1) == []


def test_available_now_is_what_was_there_and_ends_while_others_send(orders, start):
    send(orders, *range(10))
    reader = start()
    offset = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    seen, ends = [], []
    for more in range(10, 100):
        send(orders, more)
        end = reader.latestOffset(offset, ReadMaxRows(4))
        seen += read(reader, offset, end)
        if end == offset:
            break
        ends.append(end["seq"])
        offset = end

    assert seen[:10] == list(range(10))
    assert len(ends) <= 5


def test_a_queue_that_allows_few_claims_is_read_to_its_end(orders, start):
    set_queue_options(orders, "orders", fleet_concurrency=3)
    send(orders, *range(8))
    reader = start(onCommit="delete")
    offset, seen = reader.initialOffset(), []
    for _ in range(4):
        end = reader.latestOffset(offset, ReadMaxRows(100))
        seen += read(reader, offset, end)
        offset = end

    assert seen == list(range(8))
    assert value(orders, "select count(*) from pgmq.q_orders") == 0
    assert value(orders, ARCHIVED) == []


def test_a_backend_that_is_ended_is_not_noticed(orders, start):
    send(orders, 1)
    reader = start()
    offset = reader.initialOffset()
    orders.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )

    end = reader.latestOffset(offset, ReadMaxRows(5))
    orders.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    assert read(reader, offset, end) == [1]
    reader.commit(end)
    assert value(orders, ARCHIVED) == [1]


def test_the_last_micro_batch_is_settled_when_asked_and_claims_are_released(
    orders, start, database_18
):
    send(orders, *range(10))
    reader = start()
    first = reader.initialOffset()
    second = reader.latestOffset(first, ReadMaxRows(4))
    reader.stop()
    connection = {"dsn": database_18.url}

    # Its last progress shows the first micro-batch as stored; the outcome of the second is unknown.
    query = SimpleNamespace(
        lastProgress={"sources": [{"endOffset": json.dumps(second)}, {"endOffset": "12"}]}
    )
    third = start().latestOffset(second, ReadMaxRows(4))
    assert value(orders, ARCHIVED) == [0, 1, 2, 3]
    query.lastProgress["sources"][0]["endOffset"] = third
    assert settle(query, options=connection) == 4
    assert settle(query, options=connection) == 0
    start().latestOffset(third, ReadMaxRows(4))
    assert value(orders, ARCHIVED) == list(range(8))

    assert drop_stream("lake", options=connection) == 2
    assert drop_stream("lake", options=connection) is None
    assert value(
        orders, "select array_agg(message::integer) from pgmq.read('orders', 30, 100)"
    ) == [8, 9]
    with pytest.raises(ServerError, match="was given up.*new checkpoint"):
        start().latestOffset(third, ReadMaxRows(4))


def test_invalid_option_is_one_sentence(db, start):
    with pytest.raises(QueueNotFoundError, match="'orders' does not exist"):
        start().initialOffset()
    for options, words in (
        ({"consumer": ""}, "requires the option consumer"),
        ({"onCommit": "drop"}, "use archive or delete"),
        ({"table": "archive"}, "omit the option table"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            start(**options)


class FailingWriter(RowStreamWriter):
    """Fails once after its first commit and once before its second, as if its process had died."""

    folder = ""

    def commit(self, messages: list, batchId: int) -> None:
        self.fail_once("before 1" if batchId == 1 else None)
        super().commit(messages, batchId)
        self.fail_once("after 0" if batchId == 0 else None)

    def fail_once(self, moment: str | None) -> None:
        if moment and not Path(self.folder, moment).exists():
            Path(self.folder, moment).touch()
            raise RuntimeError(moment)


class FailingSink(PgsluiceSource):
    def __init__(self, options: CaseInsensitiveDict) -> None:
        known = options.copy()
        self.folder = known.pop("folder")
        super().__init__(known)

    @classmethod
    def name(cls) -> str:
        return "failing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> FailingWriter:
        writer = FailingWriter(self.options, schema)
        writer.folder = self.folder
        return writer


@pytest.mark.slow
def test_a_queue_is_carried_into_another_once_through_failures_beside_a_consumer(
    spark: SparkSession, orders: psycopg.Connection, database_18: Database, tmp_path: Path
):
    register_pickle_by_value(sys.modules[__name__])  # Spark's processes cannot import the tests
    spark.dataSource.register(FailingSink)
    orders.execute("select pgmq.create('copy')")
    send(orders, *range(100))
    taken = rows(orders, "select msg_id, message::integer from pgmq.read('orders', 3600, 7)")
    source = {
        "dsn": database_18.url,
        "queue": "orders",
        "consumer": "copy",
        "maxRowsPerTrigger": "40",
    }
    frame = with_retries(lambda: spark.readStream.format("pgsluice").options(**source).load())
    writer = (
        frame.select("message", "headers").writeStream.format("failing").trigger(availableNow=True)
    )
    places = {"folder": str(tmp_path), "checkpointLocation": str(tmp_path / "checkpoint")}
    writer = writer.options(dsn=database_18.url, queue="copy", **places)
    copied = "select coalesce(array_agg(message::integer order by msg_id), '{}') from pgmq.q_copy"

    for moment, expected in (
        ("after 0", range(7, 47)),
        ("before 1", range(7, 47)),
        (None, range(7, 100)),
    ):
        if moment:
            with pytest.raises(ServerError, match=moment):
                with_retries(lambda: writer.start().awaitTermination(250))
            assert (tmp_path / moment).exists()
        else:
            with_retries(lambda: writer.start().awaitTermination(250))
        assert value(orders, copied) == list(expected)

    assert [message for _, message in taken] == list(range(7))
    assert value(orders, ARCHIVED) == list(range(7, 100))
