"""The processes of a soak: pgbench at a rate, a pipeline with its maintenance, and measurements of them."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from deltalake import DeltaTable

from spark.held import kill, session
from support import wait_until
from support.servers import Database

DRIVER, SCRIPT = Path(__file__).with_name("soak_driver.py"), Path(__file__).with_name("pgbench.sql")
_MEMORY = re.compile(r"VmRSS:\s+(\d+)")
_RATE = re.compile(r"number of transactions actually processed: (\d+)")


class Load:
    """Runs pgbench at a rate that changes, also over restarts of the server.

    Attributes:
        transactions: Transactions of the runs that ended in order.
        outages: Runs that a restart of the server ended.
    """

    def __init__(self, database: Database, seed: int) -> None:
        self.transactions = self.outages = 0
        self._seeds = itertools.count(seed)
        self._database = database

    def run(self, per_s: int, seconds: float) -> None:
        """Run transactions at a rate for a time, or until the server stops."""
        command = [
            str(self._database.server.bin_dir / "pgbench"), "-n", "-c", "2", "-R", str(per_s),
            f"--random-seed={next(self._seeds)}", "-T", str(max(1, round(seconds))), "-f", str(SCRIPT), self._database.url,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120)
        found = _RATE.search(done.stdout)
        self.transactions += int(found[1]) if found else 0
        self.outages += done.returncode != 0


class Program:
    """A program in a session of its own, with a log file."""

    def __init__(self, log: Path, dsn: str, *arguments: object) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                env={**os.environ, "PGSLUICE_DSN": dsn},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def assert_runs(self) -> None:
        ended = self._process.poll()
        assert ended is None, f"ended with {ended}:\n{self._log.read_text()[-4000:]}"

    def stop(self) -> None:
        """Stop it gracefully."""
        self._process.terminate()
        self._process.wait(120)
        kill(self._process)

    def wait(self, deadline_s: float, *, ends: Collection[int] = (0,)) -> None:
        """Wait until it ends in order."""
        ended = self._process.wait(deadline_s)
        assert ended in ends, f"ended with {ended}:\n{self._log.read_text()[-4000:]}"

    def end(self) -> None:
        kill(self._process)

    def figures(self, file: Path) -> dict[str, int]:
        """Return the figures that `soak_driver.py` writes to this file."""
        file.unlink(missing_ok=True)
        self._process.send_signal(signal.SIGUSR1)
        wait_until(file.exists, "the figures of the pipeline", 60)
        found: dict[str, int] = json.loads(file.read_text())
        return found

    def memory_mb(self) -> tuple[int, int, int]:
        """Return the resident memory of the program itself, of its Java processes, and of the others."""
        first = java = others = 0
        for pid in session(self._process.pid):
            with suppress(FileNotFoundError, ProcessLookupError):
                found = _MEMORY.search(Path(f"/proc/{pid}/status").read_text())
                kb = int(found[1]) if found else 0  # 0 of a process that ends
                if pid == self._process.pid:
                    first = kb
                elif "java" in Path(f"/proc/{pid}/comm").read_text():
                    java += kb
                else:
                    others += kb
        return first // 1024, java // 1024, others // 1024


@contextmanager
def running(log: Path, dsn: str, *arguments: object) -> Iterator[Program]:
    program = Program(log, dsn, *arguments)
    try:
        yield program
    finally:
        program.end()


@dataclass
class Hour:
    """Measurements of a simulated hour; memory in MB, the median of its samples.

    Attributes:
        behind: Events in the log that are not in the lake at its end.
        files: Parquet files of tables in the lake, with those that wait for the vacuum.
        driver_mb: Spark's driver in Python, in which delta-rs commits and merges.
        workers_mb: All other Python processes of the pipeline; memory that they share counts for each.
        commits: Files in the logs of its tables, which Delta keeps for 30 days.
        checkpoint: Files in Spark's checkpoint.
        rows: Thousands of rows in the lake.
    """

    number: int
    per_s: int
    driver_mb: int = 0
    java_mb: int = 0
    workers_mb: int = 0
    maintain_mb: int = 0
    files: int = 0
    commits: int = 0
    checkpoint: int = 0
    behind: int = 0
    rows: int = 0
    notes: str = ""


class Sampler:
    """Samples the memory of programs in a thread."""

    def __init__(self) -> None:
        self.pipeline: Program | None = None
        self.maintain: Program | None = None
        self._samples: list[tuple[int, int, int, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(2.0):
            pipeline, maintain = self.pipeline, self.maintain
            if pipeline is not None and maintain is not None:
                self._samples.append((*pipeline.memory_mb(), sum(maintain.memory_mb())))

    def take(self, hour: Hour) -> None:
        """Store the median of the samples since the last call."""
        samples, self._samples = self._samples or [(0, 0, 0, 0)], []
        hour.driver_mb, hour.java_mb, hour.workers_mb, hour.maintain_mb = (
            round(statistics.median(values)) for values in zip(*samples, strict=True)
        )


def count_files(hour: Hour, lake: Path, checkpoint: Path) -> None:
    names = [str(path.relative_to(lake)) for path in lake.rglob("*") if path.is_file()]
    hour.commits = sum("_delta_log/" in name for name in names)
    hour.files = sum(name.endswith(".parquet") and "_delta_log/" not in name for name in names)
    hour.checkpoint = sum(path.is_file() for path in checkpoint.rglob("*"))
    tables = [DeltaTable(str(log.parent)) for log in lake.rglob("_delta_log") if any(log.iterdir())]
    actions = [table.get_add_actions().column("num_records").to_pylist() for table in tables]
    hour.rows = sum(count or 0 for counts in actions for count in counts) // 1000


def events_behind(database: Database) -> int:
    with suppress(psycopg.OperationalError), database.connect() as connection:
        row = connection.execute(
            "select max(pending_events) from pgq.get_consumer_info()"
        ).fetchone()
        return int(row[0] or 0) if row else 0
    return -1


def table(hours: Sequence[Hour]) -> str:
    head = "hour  tx/s  driver MB  java MB  workers MB  maintain MB  files  commits  checkpoint  behind  rows k  notes"
    rows = [
        f"{h.number:4d} {h.per_s:5d} {h.driver_mb:10d} {h.java_mb:8d} {h.workers_mb:11d} {h.maintain_mb:12d} {h.files:6d} "
        f"{h.commits:8d} {h.checkpoint:11d} {h.behind:7d} {h.rows:7d}  {h.notes}"
        for h in hours
    ]
    return "\n".join([head, *rows])
