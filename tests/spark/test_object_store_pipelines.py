"""Pipelines into an object store, in Spark's tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest

from pgsluice import WorkQueue
from pgsluice.lake.jobs import compact, show
from pgsluice.lake.storage import files_in, folder_at
from pgsluice.pipelines.archive import ArchiveCopy, CopySource, archive
from pgsluice.pipelines.changes import changes
from pgsluice.pipelines.current_state.snapshot import rebuild
from pgsluice.pipelines.events import events
from pgsluice.pipelines.options import CurrentStateOptions
from pgsluice.spark.access import Access
from pgsluice.verify.changes import verify_changes
from pgsluice.verify.current import verify_current
from pgsluice.verify.events import verify_events
from spark.conftest import LOG
from spark.lake_reading import lake_column
from spark.writing import insert
from support import value
from support.object_store import ObjectStore
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(object_store: ObjectStore) -> str:
    return f"s3://lake/{uuid4()}"


class InterruptedCopy(ArchiveCopy):
    def verify(self, database: object, backlog: object) -> None:
        raise InterruptedError


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_each_event_is_in_the_lake_once_although_the_store_fails(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    object_store: ObjectStore,
    tmp_path: Path,
    event_log: Path,
    kind: str,
    request: pytest.FixtureRequest,
):
    lake = request.getfixturevalue("lake" if kind == "delta" else "iceberg_in_store")
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        events(LOG, lake, checkpoint, dsn=database_18.url, once=True, spark=spark)

    insert(log, "a")
    insert(log, "b")
    run()
    for how in ("503", "cut", "lost"):
        insert(log, how)
        object_store.fail(how, path="/part-")
        run()
        assert object_store.faults_left() == 0
    compacted = compact(lake)
    insert(log, "z")
    run()

    assert lake_column(lake, "ev_data") == ["503", "a", "b", "cut", "lost", "z"]
    assert (compacted.files_added, show(lake).rows) == (1, 6)
    assert verify_events(LOG, lake, dsn=database_18.url).equal
    texts = [path.read_text() for path in event_log.rglob("*") if path.is_file()]
    assert not any("sesame-object-store" in text for text in texts)


@pytest.mark.slow
def test_an_archive_is_copied_verified_and_dropped(
    spark: SparkSession, db: psycopg.Connection, database_18: Database, lake: str
):
    queue = WorkQueue(db)
    queue.create("orders")
    expected: list[int] = []
    for _ in range(2):
        expected += queue.send_batch("orders", [{"n": n} for n in range(10)])
        queue.archive_batch("orders", expected[-10:])
        progress = archive("orders", lake, drop=True, dsn=database_18.url, spark=spark)
        assert (progress.rows, progress.verified, progress.dropped) == (10, 10, 10)

    # A run that is interrupted after its copy: the next one verifies the copy, and adds the rest.
    expected += queue.send_batch("orders", [{"n": n} for n in range(6)])
    queue.archive_batch("orders", expected[-6:-3])
    there = CopySource(
        "orders", "archive", lake.rpartition("/")[2], Access(dsn=database_18.url), spark=spark
    )
    with pytest.raises(InterruptedError):
        InterruptedCopy(there, folder_at(lake)).run(drop=True)
    queue.archive_batch("orders", expected[-3:])
    progress = archive("orders", lake, drop=True, dsn=database_18.url, spark=spark)

    assert (progress.rows, progress.verified, progress.dropped) == (3, 6, 6)
    assert lake_column(lake, "msg_id") == sorted(expected)
    assert value(db, "select count(*) from pgmq.a_orders") == 0


@pytest.mark.slow
@pytest.mark.parametrize("buckets", [0, 4])
def test_current_state_tables_follow_their_tables(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    object_store: ObjectStore,
    lake: str,
    tmp_path: Path,
    buckets: int,
):
    log.execute("create table account (id int primary key, name text)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    state = CurrentStateOptions(buckets={"public.account": buckets} if buckets else {})
    for step, statement in enumerate(
        (
            "insert into account select n, 'first' from generate_series(1, 50) n",
            "update account set name = 'second' where id % 5 = 0",
            "delete from account where id > 40",
        )
    ):
        log.execute(statement)
        object_store.fail("503", path="current/public.account")
        changes(
            LOG,
            lake,
            tmp_path / "checkpoint",
            dsn=database_18.url,
            spark=spark,
            once=True,
            state=state,
        )
        assert object_store.faults_left() == 0, step
        report = verify_current("account", f"{lake}/current/public.account", dsn=database_18.url)
        assert report.equal, report


@pytest.mark.slow
def test_a_table_is_parked_and_rebuilt(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    lake: str,
    tmp_path: Path,
):
    def run() -> tuple[str, ...]:
        stream = changes(
            LOG, lake, tmp_path / "checkpoint", dsn=database_18.url, spark=spark, once=True
        )
        return tuple(stream.progress().parked)

    log.execute("create table account (id int primary key, name text)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    log.execute("insert into account select n, 'first' from generate_series(1, 50) n")
    assert run() == ()
    log.execute("alter table account drop constraint account_pkey, add primary key (id, name)")
    log.execute("update account set name = 'second' where id = 1")
    assert run() == ("public.account",)
    (problem,) = verify_changes(LOG, lake, dsn=database_18.url).problems.values()
    assert problem.startswith("parked since ")

    rebuild("public.account", lake, dsn=database_18.url)

    assert run() == ()
    report = verify_current("account", f"{lake}/current/public.account", dsn=database_18.url)
    assert report.equal, report
    assert verify_changes(LOG, lake, dsn=database_18.url).problems == {}
    assert list(files_in(folder_at(f"{lake}/current/_collapsed"))) == []
