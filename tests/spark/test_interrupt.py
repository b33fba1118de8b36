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
    EventLog(db).create_queue("changes")
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
