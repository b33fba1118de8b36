"""Queues and archives as tables of Spark, and the way of real payloads through all of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from conftest import Database
from pgsluice.client import WorkQueue
from pgsluice.errors import ConfigurationError, QueueNotFoundError
from pgsluice.spark.pipelines.archive import archive
from spark.lake_reading import lake_column, lake_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WEBHOOKS = Path(__file__).parents[3] / "shared" / "data" / "github-webhooks.jsonl.gz"
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


def test_a_schema_of_the_callers_is_all_that_is_read(
    spark: SparkSession, db: psycopg.Connection, database_18: Database
):
    WorkQueue(db).create("q")
    WorkQueue(db).send("q", {"n": 1})

    rows = (
        spark.read.format("pgsluice")
        .schema("message string, msg_id int")
        .options(dsn=database_18.url, queue="q")
        .load()
    )

    assert [tuple(row) for row in rows.collect()] == [('{"n": 1}', 1)]


def test_an_empty_queue_has_no_rows(
    spark: SparkSession, db: psycopg.Connection, database_18: Database
):
    WorkQueue(db).create("q")

    assert reading(spark, database_18, queue="q").count() == 0


def test_with_a_snapshot_all_tasks_see_the_same(
    spark: SparkSession, db: psycopg.Connection, database_18: Database
):
    queue = WorkQueue(db)
    queue.create("q")
    queue.send_batch("q", [{"n": n} for n in range(100)])
    with database_18.connect(autocommit=False) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        (snapshot,) = holder.execute("select pg_export_snapshot()").fetchone() or ("",)
        db.execute("delete from pgmq.q_q where msg_id < 90")
        queue.send("q", {"later": True})

        rows = reading(spark, database_18, queue="q", snapshot=snapshot, numPartitions="4")

        assert sorted(row.msg_id for row in rows.select("msg_id").collect()) == list(range(1, 101))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"log": "events"}, "give the option queue"),
        ({"queue": "q", "table": "both"}, "table is 'both'"),
        ({"queue": "none"}, "queue 'none' does not exist"),
        ({"queue": "q", "snapshot": "'; drop"}, "is no snapshot"),
    ],
)
def test_bad_options_are_named(
    spark: SparkSession,
    db: psycopg.Connection,
    database_18: Database,
    options: dict[str, str],
    message: str,
):
    WorkQueue(db).create("q")

    with pytest.raises(Exception, match=message):
        reading(spark, database_18, **options).collect()


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


def test_a_lake_that_is_no_folder_is_named(spark: SparkSession, database_18: Database):
    with pytest.raises(ConfigurationError, match="lake 's3://bucket/table' is not a folder"):
        archive("q", "s3://bucket/table", dsn=database_18.url, spark=spark)


@pytest.mark.skipif(not WEBHOOKS.exists(), reason=f"the payloads are not in {WEBHOOKS}")
def test_real_payloads_go_from_queue_to_archive_to_lake_unchanged(
    spark: SparkSession, db: psycopg.Connection, database_18: Database, tmp_path: Path
):
    with gzip.open(WEBHOOKS, "rt", encoding="utf-8") as lines:
        sent = [json.loads(line) for line in lines]
    queue = WorkQueue(db)
    queue.create("hooks")
    ids = queue.send_batch("hooks", sent)
    messages = queue.read("hooks", vt=60, qty=1000)
    assert [message.message for message in messages] == sent
    queue.archive_batch("hooks", ids)

    added = archive("hooks", tmp_path / "lake", dsn=database_18.url, spark=spark).rows

    rows = lake_table(tmp_path / "lake").sort_by("msg_id")
    assert added == len(sent) == 502
    assert [json.loads(text) for text in rows.column("message").to_pylist()] == sent
    assert rows.column("msg_id").to_pylist() == ids
    assert [tuple(row.values())[3:5] for row in rows.to_pylist()] == db.execute(
        "select last_read_at, archived_at from pgmq.a_hooks order by msg_id"
    ).fetchall()
