"""Latency from an insert until a waiting consumer has the event in a batch."""

from __future__ import annotations

import time
from typing import Any

import psycopg

from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice
from bench.waiting import QUESTIONS, Question, inverse_latency, latencies_of

__all__ = ["QUESTIONS"]

TITLE = "Inverse latency from insert to batch, at 100 events a second, default settings"
UNIT = "1 / latency in seconds"
SYSTEMS = [Pgsluice()]
REPEATS = 3
LOG = "bench"
EVENTS = 2_000
EVENTS_PER_S = 100
GOALS = {"p50": Goal.at_most_ms(15), "p99": Goal.at_most_ms(60)}
_runs: list[list[float]] = []


def measure(place: Place, question: Question) -> float:
    """Measure one question.

    Returns:
        1 / latency in seconds.
    """
    return inverse_latency(question, _runs, lambda: run(place))


def run(place: Place) -> list[float]:
    """Return the latencies in seconds of a consumer of batches."""
    place.connection.execute("select pgq.create_queue(%s)", [LOG])
    place.connection.execute("select pgq.register_consumer(%s, 'bench')", [LOG])
    latencies = latencies_of(place, LOG, EVENTS, EVENTS_PER_S, consumed)
    place.connection.execute("select pgq.drop_queue(%s, true)", [LOG])
    return latencies


def consumed(session: psycopg.Connection[Any]) -> list[float]:
    latencies: list[float] = []
    while True:
        ((batch_id,),) = session.execute("select pgq.next_batch(%s, 'bench')", [LOG]).fetchall()
        if batch_id is None:
            return latencies
        found = session.execute("select ev_data from pgq.get_batch_events(%s)", [batch_id])
        now = time.time()
        latencies += [now - float(sent) for (sent,) in found]
        session.execute("select pgq.finish_batch(%s)", [batch_id])
