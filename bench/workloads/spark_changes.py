"""Throughput and memory of the pipeline `changes`: captured updates of ten tables, to their current state."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.cpu import cpu_of_all
from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice
from bench.workloads.spark_stream import peak_memory

TITLE = (
    "Captured updates of random rows of ten tables, from the log to the current-state tables, two tasks; the notes "
    "have the peak of resident memory"
)
UNIT = "events a second"
SYSTEMS = [Pgsluice()]
REPEATS = 3
OPTIONS = {"spark_changes_events": 1_000_000, "spark_changes_at_once": 5_000_000}
NOTES: list[str] = []
LOG = "bench"
TABLES = [f"account_{number}" for number in range(10)]
ROWS = 100_000  # of each table
TRANSACTION = 1_000
CONF = {"spark.ui.enabled": "false"}


@dataclass(frozen=True)
class Question:
    """Distribution of the updates over transactions.

    Attributes:
        name: Label in the results table.
        option: Key of `OPTIONS` with the number of updates.
        is_one: True for all updates in one transaction.
    """

    name: str
    option: str
    is_one: bool = False


MANY, ONE = f"transactions of {TRANSACTION:,} updates", "5,000,000 updates in one transaction"
QUESTIONS = (
    Question(MANY, "spark_changes_events"),
    Question(ONE, "spark_changes_at_once", is_one=True),
)
GOALS = {MANY: Goal(60_000, of=None)}
WARM_UP = False  # a run takes minutes; the first run of the pipeline, which creates the tables, is not timed


def measure(place: Place, question: Question) -> float:
    """Stream the updates once, and compare the tables.

    Returns:
        Events a second, from the start of the query to the last commit.
    """
    from pgsluice.pipelines.changes import changes
    from pgsluice.pipelines.options import StreamOptions
    from pgsluice.spark.session import spark_session
    from pgsluice.verify.current import verify_current

    spark = spark_session("pgsluice bench", conf=CONF)
    url = place.server.url(place.connection.info.dbname)
    events = OPTIONS[question.option]
    folder = Path(tempfile.mkdtemp(prefix="pgsluice-bench-changes-"))
    lake, checkpoint = folder / "lake", folder / "checkpoint"
    try:
        make_tables(place)
        reading = StreamOptions(partitions=2)
        run = partial(
            changes, LOG, lake, checkpoint, dsn=url, once=True, spark=spark, reading=reading
        )
        run()
        update(place, events, at_once=question.is_one)
        with peak_memory() as peak, cpu_of_all(place, NOTES, question.name, events):
            begin = time.perf_counter()
            stream = run()
            took_s = time.perf_counter() - begin
        streamed = stream.progress().rows
        if streamed != events:
            raise RuntimeError(f"{streamed} events instead of {events} were streamed")
        for table in TABLES:
            if not verify_current(
                f"public.{table}", lake / "current" / f"public.{table}", dsn=url
            ).equal:
                raise RuntimeError(f"the current-state table of {table} differs")
        said = f"{question.name}: {events:,} events, peak memory of driver and workers {peak[0] / 1e6:,.0f} MB"
        print(f"  {said}")
        NOTES.append(said)
        return events / took_s
    finally:
        shutil.rmtree(folder)
        place.connection.execute("select pgq.drop_queue(%s, true)", [LOG])
        for table in TABLES:
            place.connection.execute(f"drop table if exists {table}")


def make_tables(place: Place) -> None:
    """Create and fill the captured tables, of the shape of pgbench's accounts."""
    connection = place.connection
    connection.execute("select pgq.create_queue(%s)", [LOG])
    for table in TABLES:
        connection.execute(
            f"create table {table} (aid bigint primary key, bid bigint, abalance bigint, filler text)"
        )
        connection.execute("select sluice.capture(%s::text::regclass, %s)", [table, LOG])
        connection.execute(
            f"insert into {table} select n, 1, 0, repeat('x', 84) from generate_series(1, %s) as n",
            [ROWS],
        )
    connection.execute("select sluice.log_tick(%s)", [LOG])


def update(place: Place, events: int, *, at_once: bool) -> None:
    """Update random rows, of each table in turn."""
    connection = place.connection
    size = events // len(TABLES) if at_once else TRANSACTION
    with connection.transaction() if at_once else connection.cursor():
        for number in range(events // size):
            # A statement updates a row once, so repeated keys need one statement each.
            for begin in range(0, size, TRANSACTION):
                connection.execute(
                    f"update {TABLES[number % len(TABLES)]} set abalance = abalance + 1 where aid in ("
                    "select 1 + (%s::bigint * 7919 + n * 97) %% %s from generate_series(1, %s) as n)",
                    [number * size + begin, ROWS, TRANSACTION],
                )
    connection.execute("select sluice.log_tick(%s)", [LOG])
    connection.execute("checkpoint")
