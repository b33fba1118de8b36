"""Throughput and memory of a Spark stream that writes a log backlog to the lake."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cpu import cpu_of_all
from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice

TITLE = "Events that a stream writes from a backlog to files, micro-batches of 100,000, two tasks"
UNIT = "events a second"
SYSTEMS = [Pgsluice()]
REPEATS = 3
OPTIONS = {"spark_stream_events": 1_000_000}
NOTES: list[str] = []
LOG = "bench"
MICRO_BATCH = 100_000
TRANSACTION = 1_000
CONF = {"spark.driver.memory": "2g"}
PARQUET, DELTA, SNAPSHOTS = "Parquet file sink", "Delta", "Delta, offsets=snapshots"


@dataclass(frozen=True)
class Question:
    """Way to write to the lake.

    Attributes:
        name: Label in the results table.
        sink: Name of the Spark format.
        offsets: Option `offsets` of the stream.
    """

    name: str
    sink: str
    offsets: str


QUESTIONS = (
    Question(PARQUET, "parquet", "ticks"),
    Question(DELTA, "pgsluice-delta", "ticks"),
    Question(SNAPSHOTS, "pgsluice-delta", "snapshots"),
)
GOALS = {
    PARQUET: Goal(
        150_000,
        of=None,
        why_missed="Spark's own sink does not reach it on this machine; compare with that",
    ),
    DELTA: Goal(1.0, of=PARQUET, why_missed="Spark passes each row to Python and back"),
    SNAPSHOTS: Goal(
        0.95,
        of=PARQUET,
        why_missed="an index scan finds the end of each micro-batch",
    ),
}


def measure(place: Place, question: Question) -> float:
    """Write the whole backlog once.

    Returns:
        Events a second.
    """
    rate, said = carry(place, question, OPTIONS["spark_stream_events"])
    NOTES.append(said)
    return rate


def carry(place: Place, question: Question, events: int) -> tuple[float, str]:
    """Fill a log and write its events to files.

    Returns:
        Events a second, from the start of the query to its end; and a description of the peak memory.
    """
    from pgsluice.spark.session import QUICK, spark_session

    spark = spark_session("pgsluice bench", conf={**CONF, **QUICK})  # as the pipelines
    fill(place, events)
    url = place.server.url(place.connection.info.dbname)
    folder = Path(tempfile.mkdtemp(prefix="pgsluice-bench-lake-"))
    try:
        rows = (
            spark.readStream.format("pgsluice")
            .options(
                dsn=url,
                log=LOG,
                consumer="bench",
                offsets=question.offsets,
                maxRowsPerTrigger=str(MICRO_BATCH),
                numPartitions="2",
            )
            .load()
        )
        if question.sink != "parquet":
            make_table(folder, rows.schema)
        writer = (
            rows.writeStream.format(question.sink)
            .option("path", str(folder / "lake"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
        )
        with peak_memory() as peak, cpu_of_all(place, NOTES, question.name, events):
            begin = time.perf_counter()
            query = writer.start()
            query.awaitTermination()
            took_s = time.perf_counter() - begin
        carried = sum(entry["numInputRows"] for entry in query.recentProgress)
        if carried != events:
            raise RuntimeError(f"{carried} events instead of {events} were carried")
        said = f"{question.name}: {events:,} events, peak memory of driver and workers {peak[0] / 1e6:,.0f} MB"
        print(f"  {said}")
        return events / took_s, said
    finally:
        shutil.rmtree(folder)
        place.connection.execute("select pgq.drop_queue(%s, true)", [LOG])


def fill(place: Place, events: int) -> None:
    """Append events of about 200 bytes, a thousand per transaction, with one tick per micro-batch."""
    connection = place.connection
    connection.execute("select pgq.create_queue(%s)", [LOG])
    ((table,),) = connection.execute("select pgq.current_event_table(%s)", [LOG]).fetchall()
    for number in range(0, events, TRANSACTION):
        connection.execute(
            f"insert into {table} (ev_type, ev_data) "
            "select 'order', jsonb_build_object('n', n, 'customer', n %% 1000, 'note', repeat('x', 160))::text "
            "from generate_series(%s::int + 1, %s::int) as n",
            [number, number + TRANSACTION],
        )
        if (number + TRANSACTION) % MICRO_BATCH == 0:
            connection.execute("select sluice.log_tick(%s)", [LOG])
    connection.execute("checkpoint")


def make_table(folder: Path, schema: Any) -> None:
    """Create the Delta table as the pipelines do."""
    from pgsluice.spark.lake_tables import table_at

    table_at(str(folder / "lake"), schema).create()


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Track the peak resident memory of this process and all its descendants in bytes."""
    peak, stop = [0], threading.Event()

    def look() -> None:
        while not stop.wait(0.2):
            peak[0] = max(peak[0], resident_bytes())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def resident_bytes() -> int:
    """Return the resident memory of this process and all its descendants; shared pages count in each."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    family = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    total = 0
    for pid in family:
        try:
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += pages * os.sysconf("SC_PAGE_SIZE")
    return total
