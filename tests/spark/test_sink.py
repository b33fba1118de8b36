"""DataFrames and streams into queues and logs, through Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgsluice.errors import ConfigurationError, PayloadError
from pgsluice.spark.retry import with_retries
from spark.conftest import LOG
from support import rows, value
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGES = "select count(*) from pg_class where relname ~ '^stage_[0-9]+$'"


@pytest.fixture
def orders(db: psycopg.Connection) -> psycopg.Connection:
    db.execute("select pgmq.create('orders')")
    return db


def write(frame: DataFrame, database: Database, **options: str) -> None:
    writer = frame.write.format("pgsluice").mode("append")
    with_retries(lambda: writer.options(dsn=database.url, **options).save())


def messages(spark: SparkSession, count: int, partitions: int) -> DataFrame:
    # The first half has few rows per task, which go through the driver; the last partition has
    # many.
    return spark.range(0, count, 1, partitions).selectExpr(
        f"to_json(named_struct('n', id, 'filler', repeat('x', if(id >= {count * 3 // 4}, 400, 1)))) as message"
    )


@pytest.mark.long
def test_a_frame_is_sent_whole_and_once_for_its_version(
    spark: SparkSession, orders: psycopg.Connection, database_18: Database
):
    sent = "select (message->>'n')::integer from pgmq.q_orders order by msg_id"
    everything = [(n,) for n in range(4000)]
    once = {"queue": "orders", "txnAppId": "copier", "txnVersion": "0"}

    write(messages(spark, 4000, 4), database_18, **once)
    assert rows(orders, sent) == everything
    write(messages(spark, 4000, 3), database_18, **once)
    assert rows(orders, sent) == everything
    # If one task fails, no rows are sent.
    broken = messages(spark, 4000, 4).selectExpr(
        "if(message like '{\"n\":1,%', '{', message) as message"
    )
    with pytest.raises(PayloadError):
        write(broken, database_18, queue="orders")
    assert rows(orders, sent) == everything
    assert value(orders, STAGES) == 0

    write(
        messages(spark, 3, 1).selectExpr("'orders' as queue", "*"), database_18, delivery="direct"
    )
    write(messages(spark, 3, 1), database_18, queue="orders", txnAppId="copier", txnVersion="1")
    assert rows(orders, sent)[4000:] == [(0,), (1,), (2,)] * 2


@pytest.mark.slow
def test_a_stream_into_a_log_or_a_queue_carries_each_row_once(
    spark: SparkSession, orders: psycopg.Connection, database_18: Database, tmp_path: Path
):
    orders.execute("select pgq.create_queue('log'), pgq.create_queue('copy')")
    source = {"dsn": database_18.url, "log": LOG, "consumer": "c"}

    def drain(target: dict[str, str], *columns: str) -> None:
        rows_in = (
            spark.readStream.format("pgsluice").options(**source, maxRowsPerTrigger="40").load()
        )
        name = next(iter(target))
        writer = (
            rows_in.selectExpr(*columns).writeStream.format("pgsluice").trigger(availableNow=True)
        )
        writer = writer.options(
            dsn=database_18.url, **target, checkpointLocation=str(tmp_path / name)
        )
        with_retries(lambda: writer.start().awaitTermination(250))

    for first in (0, 100):
        for n in range(first, first + 100, 50):
            orders.execute(
                "select sluice.insert_events('log', null, %s)", [[str(m) for m in range(n, n + 50)]]
            )
            orders.execute("select sluice.log_tick('log')")
        drain({"queue": "orders"}, "ev_data as message")
        if first:
            drain({"log": "copy"}, "ev_type", "ev_data", "ev_extra1")

    expected = list(range(200))
    assert (
        value(orders, "select array_agg(message::integer order by msg_id) from pgmq.q_orders")
        == expected
    )
    assert (
        value(orders, "select array_agg(ev_data::integer order by ev_id) from pgq.event_2")
        == expected
    )
    assert value(orders, "select count(*) from sluice.sink_commit") == 2
    assert value(orders, STAGES) == 0


@pytest.mark.slow
def test_invalid_option_is_one_sentence(spark: SparkSession, database_18: Database):
    frame = messages(spark, 1, 1)
    for options, words in (
        ({"queue": "orders", "delivery": "twice"}, "use staged or direct"),
        ({"queue": "orders", "txnAppId": "a"}, "belong together"),
        (
            {"queue": "orders", "txnAppId": "a", "txnVersion": "1", "delivery": "direct"},
            "omit delivery",
        ),
    ):
        with pytest.raises(ConfigurationError, match=words):
            write(frame, database_18, **options)
    with pytest.raises(ConfigurationError, match="only appends"):
        with_retries(
            lambda: frame.write.format("pgsluice").mode("overwrite").option("queue", "q").save()
        )
