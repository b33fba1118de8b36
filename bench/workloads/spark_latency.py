"""Latency of events in a Spark stream, and overhead of a micro-batch over Spark's rate source."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice

TITLE = "Spark streams at 100 events a second, a micro-batch every 100 ms"
UNIT = "1 / seconds"
SYSTEMS = [Pgsluice()]
REPEATS = 3
OPTIONS = {"spark_latency_seconds": 30}
LOG = "bench"
PAUSE_S = 0.01
TRIGGER = "100 milliseconds"
READY_DEADLINE_S = 120.0
CONF = {"spark.ui.enabled": "false"}
MEDIAN, LOW, OVERHEAD = (
    "insert to foreachBatch, p50",
    "the same with lowLatency, p50",
    "micro-batch compared with Spark's rate source, difference of medians",
)


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        options: Options of the stream.
    """

    name: str
    options: dict[str, str] = field(default_factory=dict)


QUESTIONS = (
    Question(MEDIAN),
    Question(LOW, {"lowLatency": "true"}),
    Question(OVERHEAD),
)
GOALS = {
    MEDIAN: Goal(1 / 0.3, of=None),
    LOW: Goal(
        1 / 0.16,
        of=None,
        why_missed="Spark fsyncs two files per micro-batch, 35 to 50 ms each here",
    ),
    OVERHEAD: Goal(1 / 0.08, of=None),
}


def measure(place: Place, question: Question) -> float:
    """Measure one question.

    Returns:
        1 / time in seconds.
    """
    from pgsluice.spark.session import QUICK, spark_session

    spark = spark_session("pgsluice bench", conf={**CONF, **QUICK})
    place.connection.execute("select pgq.create_queue(%s)", [LOG])
    try:
        url = place.server.url(place.connection.info.dbname)
        options = {"dsn": url, "log": LOG, "offsets": "snapshots", **question.options}
        rows = spark.readStream.format("pgsluice").options(**options).load().select("ev_data")
        if question.name == OVERHEAD:
            plain = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
            ours_s = trigger_s(rows.writeStream.format("noop"), url)
            rates_s = trigger_s(plain.writeStream.format("noop"), url)
            print(
                f"  micro-batch: {ours_s * 1000:.0f} ms, of the rate source {rates_s * 1000:.0f} ms"
            )
            return 1 / max(ours_s - rates_s, 0.001)
        latencies: list[float] = []

        def take(micro_batch: Any, _number: int) -> None:
            found = micro_batch.collect()
            latencies.extend(time.time() - float(row.ev_data) for row in found)

        run(rows.writeStream.foreachBatch(take), url)
        quantiles = statistics.quantiles(latencies, n=100)
        print(
            f"  {question.name}: "
            + ", ".join(f"p{n} {quantiles[n - 1]:.3f} s" for n in (50, 95, 99))
        )
        return 1 / quantiles[49]
    finally:
        place.connection.execute("select pgq.drop_queue(%s, true)", [LOG])


def trigger_s(writer: Any, url: str) -> float:
    """Return the median duration of a micro-batch with rows, in seconds."""
    progress = run(writer, url)
    return statistics.median(
        entry["durationMs"]["triggerExecution"] / 1000
        for entry in progress
        if entry["numInputRows"]
    )


def run(writer: Any, url: str) -> list[Any]:
    """Run a query with a producer at a fixed rate; return its progress reports after the warm-up."""
    with tempfile.TemporaryDirectory(prefix="pgsluice-bench-checkpoint-") as folder:
        query = writer.option("checkpointLocation", folder).trigger(processingTime=TRIGGER).start()
        stop = threading.Event()
        producer = threading.Thread(target=produce, args=(url, stop.is_set))
        try:
            deadline = time.monotonic() + READY_DEADLINE_S
            while not query.recentProgress:
                if time.monotonic() > deadline or not query.isActive:
                    raise RuntimeError(f"the query was not ready: {query.exception()}")
                time.sleep(0.1)
            producer.start()
            time.sleep(OPTIONS["spark_latency_seconds"])
        finally:
            stop.set()
            if producer.is_alive():
                producer.join()
            query.stop()
        return list(query.recentProgress[5:])


def produce(url: str, is_over: Callable[[], bool]) -> None:
    """Insert 100 events per second that contain their send time."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as connection:
        following = time.monotonic()
        while not is_over():
            connection.execute("select pgq.insert_event(%s, 'time', %s)", [LOG, repr(time.time())])
            following += PAUSE_S
            time.sleep(max(0.0, following - time.monotonic()))
