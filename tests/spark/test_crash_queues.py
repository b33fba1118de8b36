"""Crashes of drivers that stream a log into a queue and the queue into the lake, exactly once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psycopg
import pytest

from pgsluice.spark.java import find_java
from spark.lake_reading import lake_column
from spark.test_crash import Driver
from spark.writing import Writers
from support import value, wait_until
from support.servers import Database

MARKS = ("held-queue", "held-lake")


PROGRAM = Path(__file__).with_name("driver_queues.py")


def commits(folder: Path, query: str) -> int:
    return sum(1 for _ in (folder / "checkpoint" / query / "commits").glob("[0-9]*"))


# Slow, with six drivers; test_claim_stream.py and test_sink_rows.py test each step without drivers.
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_killed_at_both_commits_each_event_passes_the_queue_into_the_lake_once(
    log: psycopg.Connection, database_18: Database, tmp_path: Path, home: Path, seed: int
):
    log.execute("select pgmq.create('orders')")
    log.execute(
        "update pgq.queue set queue_ticker_max_count = 50, queue_ticker_max_lag = '100 milliseconds'"
    )
    java_home = find_java(environ={"PATH": os.environ["PATH"], "PGSLUICE_HOME": str(home)}).home
    writers = Writers(database_18, count=4, seed=seed)

    def start(moment: str) -> Driver:
        for mark in MARKS:
            (tmp_path / mark).unlink(missing_ok=True)
        return Driver(database_18, tmp_path, moment, java_home, "ticks", program=PROGRAM)

    with writers.running():
        for moment, done in (("after 0", 0), ("before 1", 1), ("after 2", 2)):
            run = start(moment)
            try:
                for mark in MARKS:
                    run.wait_for(mark)
                assert [commits(tmp_path, query) for query in MARKS] == [done, done]
            finally:
                run.kill()
        for _ in range(2):
            wanted = [commits(tmp_path, query) + 2 for query in MARKS]
            run = start("never")
            try:
                run.wait_for("ready")
                wait_until(
                    lambda wanted=wanted: all(
                        commits(tmp_path, q) >= n for q, n in zip(MARKS, wanted, strict=True)
                    ),
                    "more micro-batches of both",
                    300,
                )
            finally:
                run.kill()
    last = start("once")
    try:
        assert last.process.wait(600) == 0, last.output()
    finally:
        last.kill()

    in_log = sorted(data for (data,) in log.execute("select ev_data from pgq.event_1"))
    in_lake = sorted(
        json.loads(message)["data"] for message in lake_column(tmp_path / "lake", "message")
    )
    assert len(in_lake) == len(set(in_lake)), "duplicate events"
    assert in_lake == in_log == sorted(writers.committed)
    assert value(log, "select count(*) from pgmq.q_orders") == 0
    assert value(log, "select count(*) from pgmq.a_orders") == len(in_log)
    assert value(log, "select count(*) from pg_class where relname ~ '^stage_[0-9]+$'") == 0
