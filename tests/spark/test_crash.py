"""The driver is killed at critical points; the lake ends with exactly the committed events."""

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

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer
from pgsluice.pipelines.events import events
from pgsluice.spark.java import find_java
from spark.conftest import LOG
from spark.lake_reading import has_rows, lake_column
from spark.writing import NaiveReader, Writers
from support import wait_until
from support.servers import FAST, Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = Path(__file__).with_name("driver.py")
DEADLINE_S = 300.0


class Driver:
    """A run of `driver.py`, or of a program with the same arguments, with all its processes."""

    def __init__(
        self,
        database: Database,
        folder: Path,
        moment: str,
        java_home: Path,
        offsets: str,
        program: Path = DRIVER,
        lake: Path | str | None = None,
        checkpoint: str | None = None,
    ) -> None:
        self.folder = folder
        for mark in ("held", "ready"):
            (folder / mark).unlink(missing_ok=True)
        with (folder / "driver.log").open("ab") as output:
            self.process = subprocess.Popen(
                [
                    sys.executable, str(program), str(lake or folder / "lake"),
                    checkpoint or str(folder / "checkpoint"), moment, str(folder), offsets,
                ],
                env={**os.environ, "PGSLUICE_DSN": database.url, "JAVA_HOME": str(java_home)},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )  # fmt: skip

    def output(self) -> str:
        return (self.folder / "driver.log").read_text()[-4000:]

    def wait_for(self, mark: str) -> None:
        def there() -> bool:
            assert self.process.poll() is None, f"the driver ended:\n{self.output()}"
            return (self.folder / mark).exists()

        wait_until(there, f"{mark} of the driver", DEADLINE_S)

    def kill(self) -> None:
        """Kill every process of its session: driver, JVM and Python workers."""
        for pid in self._session():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(DEADLINE_S)
        wait_until(lambda: not list(self._session()), "the driver's processes to end", DEADLINE_S)

    def _session(self) -> Iterator[int]:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                # pid (name) state parent group session …; names may contain spaces and parentheses
                state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(session) == self.process.pid and state != "Z":
                yield int(stat.parent.name)


@contextmanager
def driver(
    database: Database,
    folder: Path,
    moment: str,
    java_home: Path,
    offsets: str,
    program: Path = DRIVER,
    lake: Path | str | None = None,
    checkpoint: str | None = None,
) -> Iterator[Driver]:
    """Run a driver; kill it at the end."""
    running = Driver(database, folder, moment, java_home, offsets, program, lake, checkpoint)
    try:
        yield running
    finally:
        running.kill()


def committed_micro_batches(folder: Path) -> int:
    return sum(1 for path in (folder / "checkpoint" / "commits").glob("[0-9]*"))


@pytest.fixture
def database(servers_folder: Path, tmp_path: Path) -> Iterator[Database]:
    """A separate, durable server with a log, which the test may kill."""
    folder = servers_folder / "killed" / tmp_path.name
    folder.mkdir(mode=0o755, parents=True)
    folder.parent.chmod(0o755)
    server = EmbeddedServer(folder / "pg18", options={**FAST, "synchronous_commit": "on"})
    server.start()
    try:
        with psycopg.connect(server.url()) as connection:
            schema.install(connection)
            connection.execute("select pgq.create_queue(%s)", (LOG,))
            connection.execute(
                "update pgq.queue set queue_ticker_max_count = 50, queue_ticker_max_lag = '100 milliseconds'"
            )
        yield Database(server, "postgres")
    finally:
        server.stop("immediate")


def more_micro_batches(run: Driver, folder: Path, count: int = 2) -> None:
    wanted = committed_micro_batches(folder) + count

    def arrived() -> bool:
        assert run.process.poll() is None, f"the driver ended:\n{run.output()}"
        return committed_micro_batches(folder) >= wanted

    wait_until(arrived, "more micro-batches", DEADLINE_S)


# When a driver is killed, and how many micro-batches Spark has committed by then; `restart` kills
# the
# server while the driver runs.
SHORT = [("after 0", 0), ("restart", None)]
FULL = [
    ("after 0", 0),  # between the lake's commit and Spark's, in the first micro-batch
    ("before 1", 1),  # files are written, nothing is committed
    ("after 2", 2),  # between the two commits, in a later micro-batch
    ("between", 3),  # Spark has committed, too, and waits for its next trigger
    ("restart", None),
    ("never", None),  # at a random point
    ("never", None),
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("moments", "offsets", "table"),
    [
        pytest.param(SHORT, "snapshots", None, id="short", marks=pytest.mark.slow),
        pytest.param(FULL, "snapshots", None, id="full-snapshots", marks=pytest.mark.long),
        pytest.param(FULL, "ticks", None, id="full-ticks", marks=pytest.mark.long),
        pytest.param(
            FULL[:3], "ticks", "iceberg:lake/logs.log", id="full-iceberg", marks=pytest.mark.long
        ),
        pytest.param(FULL[:5], "ticks", "s3://lake/killed", id="full-s3", marks=pytest.mark.long),
    ],
)
def test_killed_anywhere_the_lake_ends_with_exactly_the_events_of_the_log(
    spark: SparkSession,
    database: Database,
    tmp_path: Path,
    home: Path,
    moments: list[tuple[str, int | None]],
    offsets: str,
    table: str | None,
    seed: int,
    request: pytest.FixtureRequest,
):
    # The first driver runs as on a machine without Java, with the one of the extra.
    settings = {"PGSLUICE_HOME": str(home)}
    shipped = find_java(environ={"PATH": "", **settings}).home
    found = find_java(environ={"PATH": os.environ["PATH"], **settings}).home
    writers, naive = Writers(database, count=4, seed=seed), NaiveReader(database)
    lake, checkpoint = table or tmp_path / "lake", tmp_path / "checkpoint"
    (home / ".pyiceberg.yaml").write_text(
        f"catalog:\n  lake:\n    uri: sqlite:///{tmp_path}/c.db\n    warehouse: {tmp_path}/lake\n"
    )

    store = request.getfixturevalue("object_store") if "s3:" in str(table) else None
    with naive.running(), writers.running():
        for number, (moment, committed) in enumerate(moments):
            if store is not None:
                for how in ("500", "503", "cut"):
                    store.fail(how, path="/part-")
                    store.fail(how, path="/_delta_log/")
                store.fail("lost", path="/_delta_log/")
            at = "never" if moment == "restart" else moment
            with driver(
                database, tmp_path, at, found if number else shipped, offsets, lake=lake
            ) as run:
                if committed is not None:
                    run.wait_for("held")
                    assert committed_micro_batches(tmp_path) == committed
                    assert has_rows(lake)
                    continue
                run.wait_for("ready")
                more_micro_batches(run, tmp_path)
                if moment == "restart":
                    database.server.stop("immediate")
                    database.server.start()
                    more_micro_batches(run, tmp_path)

    events(LOG, lake, checkpoint, dsn=database.url, offsets=offsets, once=True, spark=spark)

    with database.connect() as connection:
        in_log = sorted(data for (data,) in connection.execute("select ev_data from pgq.event_1"))
    assert set(writers.committed) <= set(in_log) <= {*writers.committed, *writers.unknown}
    in_lake = lake_column(lake, "ev_data")
    assert len(in_lake) == len(set(in_lake)), "duplicate events"
    assert in_lake == in_log
    lost = set(in_log) - naive.found
    assert lost, "a reader by ids lost nothing, so these writers prove nothing"
    print(f"{len(in_log)} events, each once; {len(lost)} of them lost by a reader by ids")
