"""Latency from a send until a waiting consumer of a share group has the message."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.competing import NAME, competing
from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice

TITLE = "Inverse latency from send to receipt, at 500 messages a second, default settings"
UNIT = "1 / latency in seconds"
SYSTEMS = [Pgsluice()]
REPEATS = 3
MESSAGES = 5_000
PAUSE_S = 1 / 500
QTY = 100
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
GOALS = {"p50": Goal.at_most_ms(5), "p99": Goal.at_most_ms(25)}
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
    """Send at a fixed rate with `pgsluice maintain` running and a consumer on LISTEN; return latencies in seconds."""
    group = competing(place.name)
    group.create(place.connection)
    url = place.server.url(place.connection.info.dbname)
    ((channel,),) = place.connection.execute("select sluice.log_channel(%s)", [NAME]).fetchall()
    maintain = subprocess.Popen([sys.executable, "-c", COMMAND, "maintain", "--dsn", url])
    producer = threading.Thread(target=produce, args=(url,))
    latencies: list[float] = []
    try:
        with psycopg.connect(url, autocommit=True, prepare_threshold=1) as consumer:
            consumer.execute(f'listen "{channel}"')
            producer.start()
            while len(latencies) < MESSAGES:
                latencies += consumed(consumer)
                for _ in consumer.notifies(timeout=1, stop_after=1):
                    pass
    finally:
        maintain.terminate()
        maintain.wait()
    producer.join()
    group.drop(place.connection)
    return latencies[MESSAGES // 10 :]  # skip the warm-up of the idle loop


def produce(url: str) -> None:
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as session:
        begin = time.monotonic()
        for number in range(MESSAGES):
            session.execute("select pgq.insert_event(%s, 'type', %s)", [NAME, repr(time.time())])
            time.sleep(max(0.0, begin + (number + 1) * PAUSE_S - time.monotonic()))
        # A lower rate than intended means that the machine was too busy for meaningful latencies.
        print(f"  sent {MESSAGES / (time.monotonic() - begin):.0f} messages a second")


def consumed(session: psycopg.Connection[Any]) -> list[float]:
    latencies: list[float] = []
    while True:
        found = session.execute(
            "select claim_id, ev_data from sluice.claim(%s, %s, %s, synchronous => false)",
            [NAME, NAME, QTY],
        ).fetchall()
        if not found:
            return latencies
        now = time.time()
        latencies += [now - float(sent) for _, sent in found]
        session.execute("select sluice.acknowledge(%s, %s, %s::bigint)", [NAME, NAME, found[0][0]])
