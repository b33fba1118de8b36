"""Crashes of the pipeline `changes` while pgbench runs: the tables end equal to PostgreSQL's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgsluice.errors import SluiceError
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.changes import changes
from pgsluice.pipelines.current_state import apply
from pgsluice.pipelines.options import CurrentStateOptions
from pgsluice.spark.java import find_java
from pgsluice.verify import verify_current
from spark.changing import NAME
from spark.conftest import LOG
from spark.lake_reading import lake_table
from spark.test_crash import committed_micro_batches, driver, more_micro_batches
from support import value, wait_until
from support.object_store import ObjectStore
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = Path(__file__).with_name("changes_driver.py")
TABLES = [f"pgbench_{name}" for name in ("accounts", "branches", "history", "tellers")]


@pytest.fixture
def bench(log: psycopg.Connection, database_18: Database) -> psycopg.Connection:
    """pgbench's four tables with rows, captured; one has no key."""
    pgbench(database_18, "-i", "-q", "-I", "dtgp")
    log.execute("delete from pgbench_accounts where aid > 3000")
    for table in TABLES:
        log.execute("select sluice.capture(%s, %s)", (table, LOG))
    return log


def pgbench(database: Database, *arguments: str) -> None:
    subprocess.run(command(database, *arguments), check=True, timeout=120, capture_output=True)


def command(database: Database, *arguments: str) -> list[str]:
    return [str(database.server.bin_dir / "pgbench"), *arguments, database.url]


@contextmanager
def running_pgbench(database: Database, seed: int) -> Iterator[subprocess.Popen]:
    """Run pgbench without an end; it truncates pgbench_history first."""
    script = Path(__file__).with_name("pgbench.sql")
    arguments = ["-c", "2", "-T", "3600", "-R", "200", f"--random-seed={seed}", "-f", str(script)]
    with subprocess.Popen(
        command(database, *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
            assert process.poll() is None, "pgbench ended"
        finally:
            process.terminate()


def assert_equal(database: Database, lake: Path | str) -> None:
    for table in TABLES:
        place = tables_in(lake).place_of(TableName("public", table))
        report = verify_current(f"public.{table}", str(place), dsn=database.url)
        assert report.equal, str(report)


class CrashError(SluiceError):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_micro_batch_that_died_between_two_tables_is_applied_once_to_each(
    spark: SparkSession,
    bench: psycopg.Connection,
    database_18: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    seed: int,
    request: pytest.FixtureRequest,
):
    lake = request.getfixturevalue("iceberg") if kind == "iceberg" else tmp_path / "lake"
    checkpoint, script = tmp_path / "checkpoint", str(PROGRAM.with_name("pgbench.sql"))
    merge = apply.merge

    def run() -> None:
        changes(LOG, lake, checkpoint, dsn=database_18.url, once=True, spark=spark)

    def crashing_after(count: int) -> None:
        applied = 0

        def merge_or_crash(*arguments, **options):
            nonlocal applied
            if applied == count:
                raise CrashError("after a table, before the next one")
            applied += 1
            return merge(*arguments, **options)

        monkeypatch.setattr(apply, "merge", merge_or_crash)
        with pytest.raises(SluiceError, match="before the next one"):
            run()
        monkeypatch.setattr(apply, "merge", merge)

    for table in TABLES:
        bench.execute(
            "select sluice.capture_snapshot(%s::regclass, %s, null, 1000000)", (table, LOG)
        )
    pgbench(database_18, "-c", "2", "-t", "50", f"--random-seed={seed}", "-f", script)

    crashing_after(2)  # in the first micro-batch
    run()
    pgbench(database_18, "-n", "-c", "2", "-t", "50", f"--random-seed={seed + 1}", "-f", script)
    bench.execute("delete from pgbench_history where bid = 1 and delta > 0")
    crashing_after(3)
    run()

    assert_equal(database_18, lake)
    in_log = value(bench, "select count(*) from pgq.event_1")
    assert lake_table(str(tables_in(lake).events)).num_rows == in_log


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_transaction_of_many_events_needs_little_memory(
    log: psycopg.Connection, database_18: Database, tmp_path: Path
):
    log.execute("create table account (id int primary key, branch int, filler char(84) default '')")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    with log.transaction():
        log.execute("insert into account select n, 1 from generate_series(1, 300000) as n")
        log.execute("update account set branch = id")
    program = (
        "from pgsluice.pipelines.changes import changes\n"
        "from pgsluice.pipelines.options import StreamOptions\n"
        f"changes({LOG!r}, {str(tmp_path / 'lake')!r}, {str(tmp_path / 'checkpoint')!r}, "
        f"dsn={database_18.url!r}, once=True, reading=StreamOptions(driver_memory='512m'))\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=500, capture_output=True)

    folder = tables_in(tmp_path / "lake").place_of(NAME)
    report = verify_current("public.account", folder, dsn=database_18.url)
    assert report.equal, str(report)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", ["disk", "s3"])
def test_killed_while_pgbench_runs_every_table_ends_as_postgresql_has_it(
    spark: SparkSession,
    bench: psycopg.Connection,
    database_18: Database,
    tmp_path: Path,
    home: Path,
    object_store: ObjectStore,
    place: str,
    seed: int,
):
    bench.execute(
        "update pgq.queue set queue_ticker_max_count = 50, queue_ticker_max_lag = '100 milliseconds'"
    )
    java = find_java(environ={"PATH": os.environ["PATH"], "PGSLUICE_HOME": str(home)}).home
    lake = f"s3://lake/{tmp_path.name}-changes" if place == "s3" else str(tmp_path / "lake")
    checkpoint = tmp_path / "checkpoint"
    if place == "s3":
        object_store.disturb(every=15)

    with running_pgbench(database_18, seed):
        # Between two tables of the first micro-batch, while snapshots run.
        with driver(database_18, tmp_path, "after 1", java, "ticks", PROGRAM, lake) as run:
            run.wait_for("held")
        assert committed_micro_batches(tmp_path) == 0

        # At a random point.
        with driver(database_18, tmp_path, "never", java, "ticks", PROGRAM, lake) as run:
            run.wait_for("ready")
            more_micro_batches(run, tmp_path)
        before = committed_micro_batches(tmp_path)
        history = value(bench, "select count(*) from pgbench_history")
        wait_until(
            lambda: value(bench, "select count(*) from pgbench_history") > history + 100,
            "more transactions",
            60,
        )

    stream = changes(
        LOG,
        lake,
        checkpoint,
        dsn=database_18.url,
        once=True,
        spark=spark,
        state=CurrentStateOptions(snapshots=TABLES),
    )
    object_store.faults_left()
    assert before >= 2
    assert stream.progress().rows > 0
    assert_equal(database_18, lake)
    in_log = value(bench, "select count(*) from pgq.event_1")
    assert lake_table(f"{lake}/events").num_rows == in_log
