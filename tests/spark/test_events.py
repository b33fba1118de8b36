"""`pipeline.events`: export of an event log to the lake, in this process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from deltalake import DeltaTable

from pgsluice.errors import ConfigurationError, LogNotFoundError, LogStateError
from pgsluice.lake.delta.opening import open_dataset
from pgsluice.pipelines.events import events
from pgsluice.pipelines.options import StreamOptions
from pgsluice.spark.running import Progress
from spark.conftest import LOG
from spark.lake_reading import has_rows, lake_column, lake_table
from spark.writing import insert
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.mark.slow
def test_a_running_stream_carries_every_commit_once_and_late_ones_late(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    lake: Path,
    checkpoint: Path,
):
    with (
        events(
            LOG,
            lake,
            checkpoint,
            dsn=database_18.url,
            spark=spark,
            reading=StreamOptions(trigger_s=0.1, consumer="c"),
        ) as stream,
        database_18.connect(autocommit=False) as late,
        database_18.connect(autocommit=False) as never,
    ):
        stream.await_ready()
        insert(late, "late")
        insert(never, "never")
        insert(log, "early")
        stream.catch_up()
        assert lake_column(lake, "ev_data") == ["early"]
        late.commit()
        never.rollback()
        progress = stream.catch_up()

    assert lake_column(lake, "ev_data") == ["early", "late"]
    assert (progress.rows, progress.micro_batches) == (2, 2)
    # Leaving the stream moved the consumer's position.
    assert log.execute(
        "select co_name, sub_last_tick from pgq.subscription join pgq.consumer on co_id = sub_consumer"
    ).fetchall() == [("c", progress.offset["tick"])]
    rows = lake_table(lake).select(
        ["ev_id", "ev_time", "ev_txid", "ev_type", "ev_data", "ev_extra1"]
    )
    assert [tuple(row.values()) for row in rows.sort_by("ev_id").to_pylist()] == log.execute(
        "select ev_id, ev_time, ev_txid::text::bigint, ev_type, ev_data, ev_extra1 from pgq.event_1 "
        "order by ev_id"
    ).fetchall()


@pytest.mark.slow
def test_a_table_partitioned_by_date_keeps_its_partitions(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    lake: Path,
    checkpoint: Path,
):
    def run(*partition_by: str) -> None:
        events(
            LOG, lake, checkpoint, dsn=database_18.url, once=True, partition_by=partition_by, spark=spark
        )  # fmt: skip

    spark.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")  # UTC+14
    try:
        insert(log, "first")
        run("ev_date", "ev_type")
        insert(log, "second")
        run()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    table = open_dataset(lake).to_table().to_pylist()
    assert [row["ev_data"] for row in sorted(table, key=lambda row: row["ev_id"])] == [
        "first",
        "second",
    ]
    assert all(row["ev_date"] == row["ev_time"].date() for row in table)
    assert DeltaTable(lake).metadata().partition_columns == ["ev_date", "ev_type"]
    with pytest.raises(
        ConfigurationError, match="is partitioned by ev_date, ev_type, not by ev_type"
    ):
        run("ev_type")


@pytest.mark.slow
def test_a_stream_goes_on_where_it_was_in_limited_micro_batches(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    lake: Path,
    checkpoint: Path,
):
    def drain() -> Progress:
        return events(
            LOG,
            lake,
            checkpoint,
            dsn=database_18.url,
            once=True,
            spark=spark,
            reading=StreamOptions(max_rows_per_trigger=10),
        ).progress()

    for number in range(30):
        insert(log, f"{number:02}")
        if number % 10 == 9:
            log.execute("select sluice.log_tick(%s)", (LOG,))
    first = drain()
    insert(log, "30")
    second, third = drain(), drain()

    assert (first.rows, first.micro_batches) == (30, 3)
    assert (second.rows, second.micro_batches) == (1, 1)
    assert third.rows == 0
    assert lake_column(lake, "ev_data") == [f"{number:02}" for number in range(31)]


@pytest.mark.slow
def test_a_table_and_a_checkpoint_that_do_not_belong_together_are_refused(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    lake: Path,
    checkpoint: Path,
):
    def drain(notes: Path) -> None:
        events(LOG, lake, notes, dsn=database_18.url, once=True, spark=spark)

    insert(log, "once")
    drain(checkpoint)

    with pytest.raises(ConfigurationError, match="which would add events twice"):
        drain(checkpoint.with_name("another"))
    shutil.rmtree(lake)
    with pytest.raises(ConfigurationError, match="which does not exist"):
        drain(checkpoint)


@pytest.mark.slow
def test_a_checkpoint_of_a_log_that_was_dropped_is_refused(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    lake: Path,
    checkpoint: Path,
):
    insert(log, "once")
    stream = events(LOG, lake, checkpoint, dsn=database_18.url, once=True, spark=spark)
    log.execute("select pgq.unregister_consumer(%s, %s)", (LOG, stream.consumer))
    log.execute("select pgq.drop_queue(%s)", (LOG,))
    log.execute("select pgq.create_queue(%s)", (LOG,))

    with pytest.raises(LogStateError, match="dropped and recreated"):
        events(LOG, lake, checkpoint, dsn=database_18.url, once=True, spark=spark)


def test_an_unknown_log_is_named_and_nothing_is_made(
    spark: SparkSession, database_18: Database, lake: Path, checkpoint: Path
):
    with pytest.raises(LogNotFoundError, match="event log 'none' does not exist"):
        events("none", lake, checkpoint, dsn=database_18.url, spark=spark)
    assert not lake.exists()


@pytest.mark.slow
def test_an_empty_log_makes_an_empty_table(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    lake: Path,
    checkpoint: Path,
):
    events(LOG, lake, checkpoint, dsn=database_18.url, once=True, spark=spark)

    assert not has_rows(lake)


def consumers(log: psycopg.Connection) -> list[tuple[str, int]]:
    return log.execute(
        "select co_name, sub_last_tick from pgq.subscription "
        "join pgq.consumer on co_id = sub_consumer order by co_name"
    ).fetchall()


@pytest.mark.slow
def test_lake_that_is_moved_keeps_its_consumer_and_another_name_is_registered(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
):
    def drain(place: str, consumer: str | None = None) -> None:
        events(
            LOG,
            tmp_path / place / "lake",
            tmp_path / place / "checkpoint",
            dsn=database_18.url,
            once=True,
            spark=spark,
            reading=StreamOptions(consumer=consumer),
        )

    insert(log, "1")
    drain("here")
    ((name, tick),) = consumers(log)
    (tmp_path / "here").rename(tmp_path / "there")
    insert(log, "2")

    drain("there")
    ((same, moved),) = consumers(log)
    assert (same, moved > tick) == (name, True)

    insert(log, "3")
    drain("there", "another")
    newest = max(tick for _, tick in consumers(log))
    assert consumers(log) == [("another", newest), (name, moved)]
    assert [
        record.getMessage() for record in caplog.records if "renamed" in record.getMessage()
    ] == ["consumer renamed; the former one still keeps events in the log until it is unregistered"]

    # The lake table records it too.
    (tmp_path / "there" / "checkpoint" / "consumer").unlink()
    for one in (name, "another"):
        log.execute("select pgq.unregister_consumer(%s, %s)", (LOG, one))
    insert(log, "4")
    drain("there")
    assert [name for name, _ in consumers(log)] == ["another"]
    assert lake_column(tmp_path / "there" / "lake", "ev_data") == ["1", "2", "3", "4"]


@pytest.mark.slow
def test_consumer_that_is_unregistered_while_the_stream_runs_is_registered_again(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    lake: Path,
    checkpoint: Path,
):
    with events(
        LOG,
        lake,
        checkpoint,
        dsn=database_18.url,
        spark=spark,
        reading=StreamOptions(trigger_s=0.1, consumer="c"),
    ) as stream:
        insert(log, "1")
        stream.catch_up()
        log.execute("select pgq.unregister_consumer(%s, 'c')", (LOG,))
        insert(log, "2")
        stream.catch_up()
        assert [name for name, _ in consumers(log)] == ["c"]
        log.execute("select pgq.unregister_consumer(%s, 'c')", (LOG,))

    assert [name for name, _ in consumers(log)] == ["c"]
    assert lake_column(lake, "ev_data") == ["1", "2"]
