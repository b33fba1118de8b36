"""The command of the pipeline `changes`, killed at random moments: a table that is called complete is equal.

PGSLUICE_KILLED_STOPS   kills, each with a comparison after the next run (3)
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pgsluice.lake.current_tables import Tables
from pgsluice.lake.tables import exists
from spark.conftest import LOG
from spark.shape_schedules import Schedule
from spark.soaking import Program, running
from spark.test_changes_schedules import judge, repair
from spark.test_crash import database
from support.servers import Database

__all__ = ["database"]

STOPS = int(os.environ.get("PGSLUICE_KILLED_STOPS", "3"))


class Pipeline:
    """Runs of the command, each killed or to its end."""

    def __init__(self, database: Database, current: Tables, folder: Path, on_change: str) -> None:
        self._dsn, self._output = database.url, folder / "pipeline.log"
        self._arguments = (
            "-m", "pgsluice", "pipeline", "run", "changes", "--log", LOG, "--lake", current.lake,
            "--checkpoint", folder / "checkpoint", "--driver-memory", "512m", "--on-change", on_change,
        )  # fmt: skip

    def start(self) -> Program:
        self._output.unlink(missing_ok=True)
        options = ("--trigger-interval", "0.1s", "--apply-every", "0s", "--compact-every", "3s")
        return Program(self._output, self._dsn, *self._arguments, *options)

    def is_running(self) -> bool:
        """True if the last run has applied something."""
        return "micro_batches=" in self._output.read_text().replace("micro_batches=0", "")

    def output(self) -> str:
        """Return the end of the log of all runs since the last start."""
        return self._output.read_text()[-4000:]

    def catch_up(self) -> None:
        """Apply everything that is committed."""
        with running(self._output, self._dsn, *self._arguments, "--once") as program:
            program.wait(900, ends=(0, 1))  # 1 if a table is parked


@pytest.fixture
def maintained(database: Database, tmp_path: Path) -> Iterator[Program]:
    """Ticks, and captures of new partitions."""
    with running(tmp_path / "maintain.log", database.url, "-m", "pgsluice", "maintain") as program:
        yield program


def check_killed(database: Database, current: Tables, folder: Path, seed: int) -> None:
    dice, seen = random.Random(seed), Counter[str]()
    schedule = Schedule(database, dice, definitions=0.03)
    on_change = dice.choice(["park", "rebuild"])
    pipeline = Pipeline(database, current, folder, on_change)
    with ExitStack() as cleanup:
        log = cleanup.enter_context(database.connect())
        cleanup.callback(schedule.close)
        for stop in range(STOPS):
            change_and_kill(schedule, pipeline, current, folder)
            schedule.settle()
            try:
                pipeline.catch_up()
                seen += judge(schedule, log, current, f"seed {seed}, stop {stop}, {on_change}")
            except Exception as error:
                error.add_note(pipeline.output())
                raise
            repair(schedule, current)
    print(f"seed {seed}, {on_change}: {dict(seen)}")
    assert seen["complete"] > 0 or STOPS < 3  # snapshots are taken after the first


def change_and_kill(schedule: Schedule, pipeline: Pipeline, current: Tables, folder: Path) -> None:
    """Change tables while the pipeline and a compaction run, and kill these at random moments."""
    dice, dsn = schedule.dice, schedule.database.url
    program = pipeline.start()
    try:
        if dice.random() < 0.8:
            # Slowly: on a busy machine it takes minutes to start, and each table would be redefined meanwhile.
            go_on(schedule, 240, until=pipeline.is_running, pause_s=0.5)
        go_on(schedule, dice.uniform(1, 10))
        tables = [current.place_of(name) for name in schedule.tables]
        there = [place for place in tables if exists(place)]
        if there:
            arguments = ("-m", "pgsluice", "lake", "compact", dice.choice(there))
            with running(folder / "compact.log", dsn, *arguments):
                go_on(schedule, dice.uniform(0.5, 4))
        program.assert_runs()
    finally:
        program.end()


def go_on(
    schedule: Schedule,
    seconds: float,
    until: Callable[[], bool] = lambda: False,
    *,
    pause_s: float = 0.05,
) -> None:
    """Take steps for a time, with a pause between two statements as of an application."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until():
        schedule.step()
        time.sleep(pause_s)


@pytest.mark.long
@pytest.mark.timeout(600 + 600 * STOPS)
def test_tables_called_complete_equal_postgresql_after_kills_of_the_command(
    database: Database, maintained: Program, current: Tables, tmp_path: Path, seed: int
):
    check_killed(database, current, tmp_path, seed)
    maintained.assert_runs()
