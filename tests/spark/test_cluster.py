"""A Spark cluster of a master and two workers, in separate environments, with two shards."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
from bench.standalone import Machine, standalone

import support.processes
from pgsluice.spark.java import find_java
from spark.conftest import LOG
from spark.lake_reading import has_rows, lake_table
from spark.writing import Writers
from support import wait_until
from support.processes import kill
from support.servers import TEMPLATE, Database, Servers

DEADLINE_S = 300.0
CORES = 1
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CONF = f"""
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.driver.defaultJavaOptions {JVM}
spark.executor.defaultJavaOptions {JVM}
spark.executor.cores {CORES}
spark.executor.memory 512m
"""


def machine(name: str, folder: Path, shards: dict[str, Database], java_home: Path) -> Machine:
    """A machine with its own secrets: a DSN in a variable, another in a file of its home."""
    urls = {}
    for shard, database in shards.items():
        mark = "&" if "?" in database.url else "?"
        urls[shard] = f"{database.url}{mark}application_name={name}"
    found = Machine(name, folder, java_home, EU_DSN=urls["eu"])
    secret = found.folder / "us.dsn"
    secret.touch(0o600)
    secret.write_text(urls["us"])
    return found


class Connections:
    """The maximum number of concurrent connections, by shard and application."""

    def __init__(self, shards: dict[str, Database]) -> None:
        self.most: Counter[tuple[str, str]] = Counter()
        self._shards = shards
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    @contextmanager
    def watched(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(30)

    def _watch(self) -> None:
        with ExitStack() as stack:
            sessions = {
                name: stack.enter_context(database.connect())
                for name, database in self._shards.items()
            }
            while not self._stop.wait(0.1):
                for shard, session in sessions.items():
                    for who, count in session.execute(
                        "select application_name, count(*)::int from pg_stat_activity "
                        "where application_name ~ '^(driver|worker)' group by 1"
                    ):
                        self.most[shard, who] = max(count, self.most[shard, who])


@pytest.fixture
def shards(servers: Servers) -> dict[str, Database]:
    """Two servers with TCP and a password, each with a log and a queue."""
    found = {}
    for name in ("eu", "us"):
        server = servers.get("18", f"shard-{name}", tcp=True)
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"create database {name} template {TEMPLATE}")
        found[name] = Database(server, name)
        with found[name].connect() as connection:
            connection.execute("select pgq.create_queue(%s)", (LOG,))
            connection.execute("select pgmq.create('orders')")
    return found


def events_of(database: Database) -> list[str]:
    with database.connect() as connection:
        return sorted(data for (data,) in connection.execute("select ev_data from pgq.event_1"))


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_two_workers_read_two_shards_as_one_stream(
    shards: dict[str, Database], tmp_path: Path, home: Path, seed: int
):
    java_home = find_java(environ={"PATH": os.environ["PATH"], "PGSLUICE_HOME": str(home)}).home
    master, one, two, driver = (
        machine(name, tmp_path, shards, java_home)
        for name in ("master", "worker-1", "worker-2", "driver")
    )
    for example in ("shards.py", "fill.py"):
        support.processes.write_example("on-a-cluster", example, driver.folder)
    (driver.folder / "spark-defaults.conf").write_text(CONF)
    # The only shared folder, as on a network file system.
    lake = tmp_path / "lake"
    writers = {name: Writers(database, count=2, seed=seed) for name, database in shards.items()}
    connections = Connections(shards)

    def rows() -> Counter[str]:
        if not (lake / "_delta_log").exists() or not has_rows(lake):
            return Counter()
        return Counter(lake_table(lake).column("shard").to_pylist())

    with ExitStack() as stack:
        cluster = stack.enter_context(standalone(master, (one, two), cores=CORES))
        stack.enter_context(connections.watched())
        for writing in writers.values():
            stack.enter_context(writing.running())
        running = stack.enter_context(
            driver.running(
                sys.executable,
                "shards.py",
                cluster.url,
                LOG,
                str(lake),
                str(driver.folder / "checkpoint"),
            )
        )

        def arrived(count: int) -> bool:
            assert running.poll() is None, driver.log.read_text()[-4000:]
            return all(rows()[shard] >= count for shard in shards)

        wait_until(lambda: arrived(100), "rows of both shards", DEADLINE_S)
        # An executor dies with its Python processes; the master has it restarted.
        wait_until(lambda: len(cluster.executors()) == 2, "an executor of each worker", DEADLINE_S)
        os.kill(cluster.executors()[0], signal.SIGKILL)
        enough = max(rows().values()) + 100
        wait_until(lambda: arrived(enough), "rows after an executor died", DEADLINE_S)
        for writing in writers.values():
            writing.stop()
        in_logs = {name: events_of(database) for name, database in shards.items()}
        wait_until(
            lambda: arrived(0) and rows() == {name: len(data) for name, data in in_logs.items()},
            "the last rows",
            DEADLINE_S,
        )
        kill(running)
        with driver.running(sys.executable, "fill.py", cluster.url, "orders") as filling:
            assert filling.wait(DEADLINE_S) == 0, driver.log.read_text()[-4000:]
            assert re.search(r"Row\(.*=1000, .*=499500.0\)", driver.log.read_text())

    table = lake_table(lake).select(["shard", "ev_data"]).to_pylist()
    for name, in_log in in_logs.items():
        assert in_log == sorted(writers[name].committed)
        assert sorted(row["ev_data"] for row in table if row["shard"] == name) == in_log

    # Each process found the secrets of its own machine, and none kept more connections than its
    # tasks
    # need: per core, one process reads and another writes, and Spark may swap them.
    seen = {who for _, who in connections.most}
    assert seen == {"driver", "worker-1", "worker-2"}
    for (shard, who), most in connections.most.items():
        assert most <= 2 * CORES if who != "driver" else 3, (shard, who, most)
