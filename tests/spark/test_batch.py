"""Queues and archives as Spark tables, and real payloads from end to end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgsluice.client import WorkQueue
from pgsluice.errors import ConfigurationError, QueueNotFoundError
from pgsluice.pipelines.archive import archive
from spark.lake_reading import lake_column
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WEIRD = [
    {"text": 'Zażółć gęślą jaźń 🦆   \\ " \n\t'},
    {"big": "x" * 1_000_000},
    {"number": 12345678901234567890123456789, "nested": [[{"a": None}], []]},
    [],
    "text",
    None,
]


def reading(spark: SparkSession, database: Database, **options: str) -> DataFrame:
    return spark.read.format("pgsluice").option("dsn", database.url).options(**options).load()


def from_database(db: psycopg.Connection, table: str) -> list[tuple]:
    return db.execute(
        f"select msg_id, read_ct, enqueued_at, message::text, headers::text from pgmq.{table} "
        "order by msg_id".encode()
    ).fetchall()


def from_spark(rows: DataFrame) -> list[tuple]:
    taken = rows.select("msg_id", "read_ct", "enqueued_at", "message", "headers").toArrow()
    return sorted(zip(*(column.to_pylist() for column in taken.columns), strict=True))


@pytest.mark.slow
def test_both_tables_are_read_in_parallel_and_equal_the_database(
    spark: SparkSession, db: psycopg.Connection, database_18: Database
):
    queue = WorkQueue(db)
    queue.create("q")
    ids = queue.send_batch("q", [{"n": n} for n in range(500)], headers=[{"k": "v"}] * 500)
    ids += queue.send_batch("q", WEIRD)
    queue.archive_batch("q", ids[::3])
    queue.read("q", vt=30, qty=10)

    for table, name in (("queue", "q_q"), ("archive", "a_q")):
        rows = reading(spark, database_18, queue="q", table=table, numPartitions="3")

        assert rows.rdd.getNumPartitions() == 3
        assert from_spark(rows) == from_database(db, name)


@pytest.mark.slow
def test_filters_of_spark_reach_the_server_and_leave_the_same_rows(
    spark: SparkSession, db: psycopg.Connection, database_18: Database
):
    queue = WorkQueue(db)
    queue.create("q")
    ids = queue.send_batch("q", [{"n": n, "text": "it's"} for n in range(20)])
    queue.read("q", vt=0, qty=4)
    moment = db.execute("select max(last_read_at) from pgmq.q_q").fetchone()
    everything = reading(spark, database_18, queue="q").cache()
    # Filters for the server, for Spark, and for both.
    for condition in (
        "msg_id > 3 and msg_id <= 9 and msg_id <> 5",
        f"last_read_at = timestamp '{moment[0].isoformat() if moment else ''}' and msg_id in (1, 2, 40)",
        "last_read_at is null and message like '%it''s%' and msg_id not in (7, 8)",
        "message like '{\"n\": 1%' or msg_id = 3",
    ):
        pushed = from_spark(
            reading(spark, database_18, queue="q", pushdown="true").where(condition)
        )

        assert 0 < len(pushed) < len(ids)
        assert pushed == from_spark(everything.where(condition))
    one = reading(spark, database_18, queue="q", pushdown="true", numPartitions="1").where(
        "msg_id = 3"
    )
    plan = one._jdf.queryExecution().executedPlan().toString()
    assert "Filter (" not in plan  # no filter remains for Spark


@pytest.mark.slow
def test_json_as_variant_is_what_spark_parses_itself(
    spark: SparkSession, db: psycopg.Connection, database_18: Database
):
    WorkQueue(db).create("q")
    WorkQueue(db).send_batch("q", [text for text in WEIRD if text != {"big": "x" * 1_000_000}])

    variant = (
        spark.read.format("pgsluice")
        .schema("msg_id long, message variant, headers variant")
        .options(dsn=database_18.url, queue="q")
        .load()
        .selectExpr("msg_id", "to_json(message)", "headers is null")
    )
    parsed = reading(spark, database_18, queue="q").selectExpr(
        "msg_id", "to_json(parse_json(message))", "true"
    )

    assert sorted(variant.collect()) == sorted(parsed.collect())


@pytest.mark.slow
def test_a_copy_into_the_lake_adds_what_is_new_and_nothing_twice(
    spark: SparkSession, db: psycopg.Connection, database_18: Database, tmp_path: Path
):
    queue, lake = WorkQueue(db), tmp_path / "lake"
    queue.create("q")

    def copy() -> int:
        return archive("q", lake, dsn=database_18.url, spark=spark).rows

    added = [copy()]
    ids = queue.send_batch("q", [{"n": n} for n in range(10)])
    queue.archive_batch("q", ids[5:])
    added += [copy(), copy()]
    queue.archive_batch("q", ids[:5])  # lower ids, archived later
    added += [copy(), copy()]

    assert added == [0, 5, 0, 5, 0]
    assert lake_column(lake, "msg_id") == ids


def test_a_copy_of_an_unknown_queue_is_named(
    spark: SparkSession, database_18: Database, tmp_path: Path
):
    with pytest.raises(QueueNotFoundError, match="queue 'none' does not exist"):
        archive("none", tmp_path / "lake", dsn=database_18.url, spark=spark)
    assert not (tmp_path / "lake").exists()


def test_a_lake_that_is_no_folder_is_named(database_18: Database):
    with pytest.raises(ConfigurationError, match="the lake 'ftp://host/table' is neither a folder"):
        archive("q", "ftp://host/table", dsn=database_18.url)
