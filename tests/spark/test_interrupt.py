"""Ctrl-C while Spark starts: the command ends within seconds, without a traceback and without Java."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import psycopg
import pytest

from pgsluice import EventLog, WorkQueue
from support import wait_until
from support.processes import running

ENDED_S = 5.0
LINES_MAX = 6
COMMANDS = {
    "archive": (("archive", "--queue", "orders", "--lake", "lake", "--once"), 130),
    "events": (("events", "--log", "changes", "--lake", "lake", "--checkpoint", "notes"), 0),
}


def commands_of(group: int) -> list[str]:
    """Return the command lines of the processes of a group that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] != "Z":
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except (OSError, ValueError):
            continue  # it has ended
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment", ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
)
@pytest.mark.parametrize("kind", COMMANDS)
def test_interrupted_start_of_spark_ends_in_seconds_and_leaves_no_java(
    database_18, db: psycopg.Connection, tmp_path: Path, kind: str, moment: str
):
    queue = WorkQueue(db)
    queue.create("orders")
    queue.archive_batch("orders", queue.send_batch("orders", [1, 2, 3]))
    EventLog(db).create("changes")
    arguments, code = COMMANDS[kind]
    command = [sys.executable, "-m", "pgsluice", "pipeline", "run", *arguments]

    with running(command, tmp_path, PGSLUICE_DSN=database_18.url) as process:
        wait_until(lambda: moment in " ".join(commands_of(process.pid)), moment, 60)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        interrupted_s = time.monotonic()
        ended = process.wait(60)
        took_s = time.monotonic() - interrupted_s
        wait_until(lambda: not commands_of(process.pid), "Java to end", ENDED_S)
    log = (tmp_path / "log").read_text()

    assert ended == code
    assert took_s < ENDED_S
    assert len(log.splitlines()) <= LINES_MAX, log
    assert "Traceback" not in log
    assert "Exception" not in log


STOPPED_IN_A_JOB = """
import threading

from pgsluice.spark.failure import concise
from pgsluice.spark.session import spark_session

spark = spark_session(master="local[2]")
begun = threading.Event()

def wait(batch, batch_id):
    job = "reflect('java.util.concurrent.locks.LockSupport', 'parkNanos', 5000000000L)"
    begun.set()
    spark.range(1, numPartitions=1).selectExpr(job).collect()

query = spark.readStream.format("rate").load().writeStream.foreachBatch(concise(wait)).start()
begun.wait()
while not spark.sparkContext.statusTracker().getActiveJobsIds():
    threading.Event().wait(0.05)
query.stop()
print("failure:", query.exception())
spark.stop()
"""


@pytest.mark.slow
def test_a_query_stopped_within_a_job_of_foreach_batch_does_not_overflow_its_stack(tmp_path: Path):
    (tmp_path / "stopped.py").write_text(STOPPED_IN_A_JOB)

    with running([sys.executable, "stopped.py"], tmp_path) as process:
        assert process.wait(180) == 0  # a third of a minute on an idle machine
    log = (tmp_path / "log").read_text()

    assert "failure: None\n" in log
    assert "StackOverflowError" not in log
