"""How fast does a Spark stream carry a backlog of a log into the lake, and in how much memory?"""

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

from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice

TITLE = (
    "Events that a stream carries from a backlog into files, micro-batches of 100,000, two tasks"
)
UNIT = "events a second"
SYSTEMS = [Pgsluice()]
REPEATS = 3
OPTIONS = {"spark_stream_events": 1_000_000}
NOTES: list[str] = []
LOG = "bench"
MICRO_BATCH = 100_000
TRANSACTION = 1_000
CONF = {"spark.ui.enabled": "false", "spark.driver.memory": "2g"}
PARQUET, DELTA, SNAPSHOTS = "Parquet file sink", "Delta", "Delta, offsets=snapshots"


@dataclass(frozen=True)
class Question:
    """One way into the lake.

    Attributes:
        name: What the table of results calls it.
        sink: Spark's name of the format.
        offsets: Of the stream.
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
        150_000, of=None, why_missed="this is Spark's own sink, so the machine; compare with it"
    ),
    DELTA: Goal(0.95, of=PARQUET),
    SNAPSHOTS: Goal(
        0.95,
        of=PARQUET,
        why_missed="the end of each micro-batch is looked for along the index",
    ),
}


def measure(place: Place, question: Question) -> float:
    """Carry the whole backlog once.

    Returns:
        Events a second.
    """
    rate, said = carry(place, question, OPTIONS["spark_stream_events"])
    NOTES.append(said)
    return rate


def carry(place: Place, question: Question, events: int) -> tuple[float, str]:
    """Fill a log and carry its events into files.

    Returns:
        Events a second, from the start of the query to its end; and how much memory that took, for people.
    """
    from pgsluice.spark.session import spark_session

    spark = spark_session("pgsluice bench", conf=CONF)
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
        with peak_memory() as peak:
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
    """Append events of about 200 bytes, a thousand in a transaction, and tick for each micro-batch."""
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
    """Make the Delta table, as the pipelines do."""
    from pgsluice.spark.lake_tables import table_at

    table_at(str(folder / "lake"), schema).create()


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """The most resident memory that this process and all its descendants have had together, bytes."""
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
    """Resident memory of this process and of all its descendants; pages that they share count once in each."""
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
