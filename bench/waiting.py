"""Latency of events for a consumer that waits by LISTEN while `pgsluice maintain` runs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.place import Place

COMMAND = "from pgsluice.cli.main import main; main()"


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        percentile: Percentile of the latencies.
    """

    name: str
    percentile: int


QUESTIONS = (Question("p50", 50), Question("p99", 99))


def inverse_latency(
    question: Question, runs: list[list[float]], run: Callable[[], list[float]]
) -> float:
    """Return 1 / latency in seconds of a question: p50 performs the run, p99 uses its latencies."""
    if question.percentile == 50:
        runs.append(run())
    latency_s = statistics.quantiles(runs[-1], n=100)[question.percentile - 1]
    print(f"  {question.name}: {latency_s * 1000:.1f} ms")
    return 1 / latency_s


def latencies_of(
    place: Place,
    log_name: str,
    events: int,
    per_s: int,
    consumed: Callable[[psycopg.Connection[Any]], list[float]],
) -> list[float]:
    """Insert into a log at a fixed rate while a consumer waits for its notifications.

    Args:
        place: The database.
        log_name: A log.
        events: How many to insert.
        per_s: How many a second.
        consumed: Called with the consumer's session after each notification, and each second: consumes what there is,
            and returns the latencies in seconds.

    Returns:
        Latencies in seconds; those of the first tenth, while maintenance goes over from its idle interval, are left
        out.
    """
    url = place.server.url(place.connection.info.dbname)
    maintain = subprocess.Popen([sys.executable, "-c", COMMAND, "maintain", "--dsn", url])
    producer = threading.Thread(target=_produce, args=(url, log_name, events, per_s))
    latencies: list[float] = []
    try:
        with psycopg.connect(url, autocommit=True, prepare_threshold=1) as consumer:
            consumer.execute("select sluice.listen(%s, 'log')", [log_name])
            producer.start()
            while len(latencies) < events:
                latencies += consumed(consumer)
                for _ in consumer.notifies(timeout=1, stop_after=1):
                    pass
    finally:
        maintain.terminate()
        maintain.wait()
    producer.join()
    return latencies[events // 10 :]


def _produce(url: str, log_name: str, events: int, per_s: int) -> None:
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as session:
        begin = time.monotonic()
        for number in range(events):
            session.execute(
                "select pgq.insert_event(%s, 'type', %s)", [log_name, repr(time.time())]
            )
            time.sleep(max(0.0, begin + (number + 1) / per_s - time.monotonic()))
        # A lower rate than intended means that the machine was too busy for meaningful latencies.
        print(f"  sent {events / (time.monotonic() - begin):.0f} messages a second")
