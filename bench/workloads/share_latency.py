"""Latency from a send until a waiting consumer of a share group has the message."""

from __future__ import annotations

import time
from typing import Any

import psycopg

from bench.competing import NAME, competing
from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice
from bench.waiting import QUESTIONS, Question, inverse_latency, latencies_of

__all__ = ["QUESTIONS"]

TITLE = "Inverse latency from send to receipt, at 500 messages a second, default settings"
UNIT = "1 / latency in seconds"
SYSTEMS = [Pgsluice()]
REPEATS = 3
MESSAGES = 5_000
MESSAGES_PER_S = 500
QTY = 100
GOALS = {"p50": Goal.at_most_ms(5), "p99": Goal.at_most_ms(25)}
_runs: list[list[float]] = []


def measure(place: Place, question: Question) -> float:
    """Measure one question.

    Returns:
        1 / latency in seconds.
    """
    return inverse_latency(question, _runs, lambda: run(place))


def run(place: Place) -> list[float]:
    """Return the latencies in seconds of a member of a share group."""
    group = competing(place.name)
    group.create(place.connection)
    latencies = latencies_of(place, NAME, MESSAGES, MESSAGES_PER_S, consumed)
    group.drop(place.connection)
    return latencies


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
