"""Latency from an insert until a waiting consumer has the event in a batch."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice

TITLE = "Inverse latency from insert to batch, at 100 events a second, default settings"
UNIT = "1 / latency in seconds"
SYSTEMS = [Pgsluice()]
REPEATS = 3
LOG = "bench"
EVENTS = 2_000
PAUSE_S = 0.01
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
GOALS = {"p50": Goal.at_most_ms(15), "p99": Goal.at_most_ms(60)}
_latencies: list[list[float]] = []


def measure(place: Place, question: Question) -> float:
    """Measure one question: p50 performs the run, p99 uses the same latencies.

    Returns:
        1 / latency in seconds.
    """
    if question.percentile == 50:
        _latencies.append(run(place))
    latency_s = statistics.quantiles(_latencies[-1], n=100)[question.percentile - 1]
    print(f"  {question.name}: {latency_s * 1000:.1f} ms")
    return 1 / latency_s


def run(place: Place) -> list[float]:
    """Insert at a fixed rate with `pgsluice maintain` running and a consumer on LISTEN; return latencies in seconds."""
    connection = place.connection
    url = place.server.url(connection.info.dbname)
    connection.execute("select pgq.create_queue(%s)", [LOG])
    connection.execute("select pgq.register_consumer(%s, 'bench')", [LOG])
    ((channel,),) = connection.execute("select sluice.log_channel(%s)", [LOG]).fetchall()
    maintain = subprocess.Popen([sys.executable, "-c", COMMAND, "maintain", "--dsn", url])
    producer = threading.Thread(target=produce, args=(url,))
    latencies: list[float] = []
    try:
        with psycopg.connect(url, autocommit=True) as consumer:
            consumer.prepare_threshold = 1
            consumer.execute(f'listen "{channel}"')
            producer.start()
            while len(latencies) < EVENTS:
                latencies += consumed(consumer)
                for _ in consumer.notifies(timeout=1, stop_after=1):
                    pass
    finally:
        maintain.terminate()
        maintain.wait()
    producer.join()
    connection.execute("select pgq.drop_queue(%s, true)", [LOG])
    return latencies[EVENTS // 10 :]  # skip the warm-up of the idle loop


def produce(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        session.prepare_threshold = 1
        begin = time.monotonic()
        for number in range(EVENTS):
            session.execute("select pgq.insert_event(%s, 'type', %s)", [LOG, repr(time.time())])
            time.sleep(max(0.0, begin + (number + 1) * PAUSE_S - time.monotonic()))


def consumed(session: psycopg.Connection[Any]) -> list[float]:
    latencies = []
    while True:
        ((batch_id,),) = session.execute("select pgq.next_batch(%s, 'bench')", [LOG]).fetchall()
        if batch_id is None:
            return latencies
        found = session.execute("select ev_data from pgq.get_batch_events(%s)", [batch_id])
        now = time.time()
        latencies += [now - float(sent) for (sent,) in found]
        session.execute("select pgq.finish_batch(%s)", [batch_id])
