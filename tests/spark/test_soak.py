"""A day of the pipeline `changes` in fast motion: it ends equal to PostgreSQL, and needs no more of anything.

PGSLUICE_SOAK_MINUTES   real minutes of the 24 simulated hours (16)
"""

from __future__ import annotations

import os
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from pgsluice.cli.main import cli
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import tables_in
from pgsluice.verify import verify_current
from spark.conftest import LOG
from spark.soaking import (
    DRIVER,
    Hour,
    Load,
    Program,
    Sampler,
    count_files,
    events_behind,
    running,
    table,
)
from spark.test_changes_crash import TABLES, pgbench
from spark.test_crash import database
from support import wait_until
from support.servers import Database

__all__ = ["database"]

MINUTES = float(os.environ.get("PGSLUICE_SOAK_MINUTES", "16"))
HOUR_S = MINUTES * 60 / 24
# Transactions per second: night, morning, peak, evening. The last quarter of the day has the load of the second.
RATES = (20, 20, 20, 40, 80, 120, *(100, 150, 200, 200, 150, 100), *(250, 250, 200, 150, 100, 50))
RATES = (*RATES, *RATES[6:12])
# A shorter day is mostly Spark's start: its growth means nothing.
IS_FULL = MINUTES >= 12
LARGE_ROWS = 1_000_000 if IS_FULL else 50_000
# Growth from the third quarter of the day to the last, which has less load; before, code and memory pools warm up.
TOLERANCE = 1.15
HEAP_MB = 512
# Classes, compiled code, threads and buffers of Java, beside its heap, which may fill up.
JAVA_MB = HEAP_MB + 256
# Spark keeps the plans and ends of 100 micro-batches, each with a checksum; the rest is the pipeline's own.
CHECKPOINT_FILES = 4 * 101 + 20

LARGE = """
insert into soak_order
select n, 'new', n / 100.0, timestamptz '2026-01-01' + n * interval '1 second' from generate_series(1, %s) as n
"""
STATEMENTS = {
    4: ("a large transaction", LARGE),
    7: ("a column added", "alter table pgbench_accounts add column note text"),
    9: ("a column widened", "alter table pgbench_tellers alter column tbalance type numeric(20)"),
    10: ("a column renamed", "alter table pgbench_tellers rename column filler to remark"),
    16: ("the large table changed", "update soak_order set state = 'paid' where id % 20 = 0"),
}
MOVE = 2
STOPS = {13: "fast", 15: "immediate"}


class Day:
    """The pipeline and the changes to it over the day."""

    def __init__(self, database: Database, folder: Path, seed: int) -> None:
        self.database, self.folder = database, folder
        self.root = folder / "first"
        self.sampler, self.load = Sampler(), Load(database, seed)
        self.captured = [f"public.{name}" for name in (*TABLES, "soak_order")]

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def figures(self) -> Path:
        return self.folder / "figures.json"

    def start_pipeline(self, *options: str) -> Program:
        program = Program(
            self.folder / "pipeline.log", self.database.url, DRIVER, HOUR_S, self.figures,
            "pipeline", "run", "changes", "--log", LOG, "--lake", self.lake,
            "--checkpoint", self.checkpoint, "--driver-memory", f"{HEAP_MB}m",
            *(argument for name in self.captured for argument in ("--snapshots", name)),
            *(options or ("--compact-every", f"{HOUR_S / 2:g}s")),
        )  # fmt: skip
        self.sampler.pipeline = program
        return program

    def move(self, pipeline: Program) -> Program:
        self.sampler.pipeline = None
        pipeline.stop()
        self.root = self.folder / "second"
        shutil.move(self.folder / "first", self.root)
        return self.start_pipeline()

    def hour(self, number: int, pipeline: Program) -> tuple[Hour, Program]:
        """Run one hour, with what happens in it."""
        hour, end = Hour(number, RATES[number]), time.monotonic() + HOUR_S
        busy = threading.Thread(target=self._load, args=(hour.per_s, end))
        busy.start()
        if number == MOVE:
            pipeline, hour.notes = self.move(pipeline), "the lake moved"
        if number in STOPS:
            hour.notes = f"server stopped: {STOPS[number]}"
            self.database.server.stop(STOPS[number])
            self.database.server.start()
        if number in STATEMENTS:
            hour.notes, statement = STATEMENTS[number]
            with self.database.connect() as connection:
                parameters = (LARGE_ROWS,) if statement is LARGE else None
                connection.execute(statement, parameters)  # type: ignore[arg-type]
        busy.join()
        self.sampler.take(hour)
        count_files(hour, self.lake, self.checkpoint)
        hour.behind = events_behind(self.database)
        pipeline.assert_runs()
        return hour, pipeline

    def _load(self, per_s: int, end: float) -> None:
        while (left := end - time.monotonic()) > 0.5:
            self.load.run(per_s, left)
            time.sleep(0.5)  # the server may be stopped


@pytest.fixture
def day(database: Database, tmp_path: Path, home: Path, seed: int) -> Day:
    pgbench(database, "-i", "-q", "-I", "dtgp")
    with database.connect() as connection:
        connection.execute("delete from pgbench_accounts where aid > 3000")
        connection.execute(
            "create table soak_order (id int primary key, state text, amount numeric(12, 2), at timestamptz)"
        )
        connection.execute(
            "update pgq.queue set queue_ticker_max_count = 500, queue_rotation_period = '30 seconds'"
        )
        for name in (*TABLES, "soak_order"):
            connection.execute("select sluice.capture(%s, %s)", (name, LOG))
    return Day(database, tmp_path, seed)


@pytest.mark.long
@pytest.mark.timeout(MINUTES * 60 + 1500)
def test_a_day_of_changes_ends_equal_to_postgresql_without_growth(day: Day):
    dsn, hours, figures = day.database.url, list[Hour](), list[dict[str, int]]()
    with running(day.folder / "maintain.log", dsn, "-m", "pgsluice", "maintain") as maintain:
        day.sampler.maintain = maintain
        pipeline = day.start_pipeline()
        try:
            with day.sampler.running():
                for number in range(24):
                    hour, pipeline = day.hour(number, pipeline)
                    maintain.assert_runs()
                    hours.append(hour)
                    print(table(hours).splitlines()[-1], flush=True)
                    if number in (11, 23):
                        figures.append(pipeline.figures(day.figures))
                        print(figures[-1], flush=True)
            wait_until(lambda: events_behind(day.database) == 0, "the pipeline to catch up", 900)
            pipeline.stop()
            # Applies the changes that wait for more of them.
            pipeline = day.start_pipeline("--once")
            pipeline.wait(600)
        finally:
            pipeline.end()
    print(f"{table(hours)}\n{day.load.transactions} transactions, {day.load.outages} outages")

    there = ["--log", LOG, "--lake", str(day.lake), "--dsn", dsn]
    found = CliRunner().invoke(cli, ["pipeline", "verify", "changes", *there])
    assert found.exit_code == 0, found.output
    for name in day.captured:
        folder = tables_in(day.lake).place_of(TableName.parse(name))
        report = verify_current(name, str(folder), dsn=dsn)
        assert report.equal, str(report)
    if IS_FULL:
        for what in ("driver_mb", "workers_mb", "maintain_mb"):
            assert_level(hours, what, statistics.median)
        assert_level(hours, "files", max)
        assert max(hour.java_mb for hour in hours) <= JAVA_MB
        noon, midnight = figures
        for what in ("heap_mb", "objects"):
            assert midnight[what] <= TOLERANCE * noon[what], f"{what}: {figures}"
        assert hours[-1].checkpoint <= CHECKPOINT_FILES


def assert_level(
    hours: list[Hour], what: str, of_quarter: Callable[[Iterable[int]], float]
) -> None:
    before, after = (
        of_quarter([getattr(hour, what) for hour in part]) for part in (hours[12:18], hours[18:])
    )
    assert after <= TOLERANCE * before, (
        f"{what}: {before} in the third quarter, {after} in the last"
    )
