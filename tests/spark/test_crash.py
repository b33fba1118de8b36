"""The driver is killed wherever it hurts; the lake ends with exactly the events that were committed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from conftest import Database
from pgsluice.spark.java import find_java
from pgsluice.spark.pipelines.events import events
from spark.conftest import LOG
from spark.lake_reading import lake_column
from spark.writing import Writers
from support import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = Path(__file__).with_name("driver.py")
DEADLINE_S = 120.0


class Driver:
    """The program `driver.py` and all the processes it started."""

    def __init__(self, database: Database, folder: Path, moment: str, java_home: Path) -> None:
        self.folder = folder
        for mark in ("held", "ready"):
            (folder / mark).unlink(missing_ok=True)
        with (folder / "driver.log").open("ab") as output:
            self.process = subprocess.Popen(
                [
                    sys.executable, str(DRIVER), str(folder / "lake"), str(folder / "checkpoint"),
                    moment, str(folder),
                ],
                env={**os.environ, "PGSLUICE_DSN": database.url, "JAVA_HOME": str(java_home)},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )  # fmt: skip

    def said(self) -> str:
        return (self.folder / "driver.log").read_text()[-4000:]

    def wait_for(self, mark: str) -> None:
        def there() -> bool:
            assert self.process.poll() is None, f"the driver ended:\n{self.said()}"
            return (self.folder / mark).exists()

        wait_until(there, f"{mark} of the driver", DEADLINE_S)

    def kill(self) -> None:
        """SIGKILL for every process of its session: driver, JVM and Python workers at once."""
        for pid in self._session():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(DEADLINE_S)
        wait_until(lambda: not list(self._session()), "the driver's processes to end", DEADLINE_S)

    def _session(self) -> Iterator[int]:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                # pid (name) state parent group session …; a name may hold spaces and parentheses
                state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(session) == self.process.pid and state != "Z":
                yield int(stat.parent.name)


@contextmanager
def driver(database: Database, folder: Path, moment: str, java_home: Path) -> Iterator[Driver]:
    """A driver that is killed in the end."""
    running = Driver(database, folder, moment, java_home)
    try:
        yield running
    finally:
        running.kill()


def committed_micro_batches(folder: Path) -> int:
    return sum(1 for path in (folder / "checkpoint" / "commits").glob("[0-9]*"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_anywhere_the_lake_ends_with_exactly_the_events_of_the_log(
    spark: SparkSession, log: psycopg.Connection, database_18: Database, tmp_path: Path, home: Path
):
    log.execute(
        "update pgq.queue set queue_ticker_max_count = 50, queue_ticker_max_lag = '100 milliseconds'"
    )
    # The first driver runs as on a machine without Java: on the one that comes with the extra.
    settings = {"PGSLUICE_HOME": str(home)}
    shipped = find_java(environ={"PATH": "", **settings}).home
    found = find_java(environ={"PATH": os.environ["PATH"], **settings}).home
    writers = Writers(database_18, count=4, seed=7)
    lake = tmp_path / "lake"

    with writers.running():
        # Between the lake's commit and Spark's, at the very first micro-batch.
        with driver(database_18, tmp_path, "after 0", shipped) as run:
            run.wait_for("held")
        assert committed_micro_batches(tmp_path) == 0
        after_first = lake_column(lake, "ev_data")
        assert after_first

        # In the middle of a micro-batch: files are written, nothing is committed.
        with driver(database_18, tmp_path, "before 1", found) as run:
            run.wait_for("held")
        assert committed_micro_batches(tmp_path) == 1

        # Between the lake's commit and Spark's, later.
        with driver(database_18, tmp_path, "after 2", found) as run:
            run.wait_for("held")
        assert committed_micro_batches(tmp_path) == 2

        # Between two micro-batches: Spark has committed as well, and waits for its next trigger.
        with driver(database_18, tmp_path, "between", found) as run:
            run.wait_for("held")
        between = committed_micro_batches(tmp_path)
        assert between == 3

        # Wherever it is.
        with driver(database_18, tmp_path, "never", found) as run:
            run.wait_for("ready")
            wait_until(
                lambda: committed_micro_batches(tmp_path) >= between + 2,
                "more micro-batches",
                DEADLINE_S,
            )

    checkpoint = tmp_path / "checkpoint"
    events(LOG, lake, checkpoint, dsn=database_18.url, once=True, spark=spark)

    in_log = sorted(data for (data,) in log.execute("select ev_data from pgq.event_1"))
    assert sorted(writers.committed) == in_log
    in_lake = lake_column(lake, "ev_data")
    assert len(in_lake) == len(set(in_lake)), "doubled"
    assert in_lake == in_log
