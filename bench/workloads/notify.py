"""Overhead of notifications for producers, for single messages and batches of ten thousand."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.goal import Goal
from bench.place import Place

TITLE = "Messages a second sent to a queue with notifications, one session"
UNIT = "messages a second: of the median round of a repetition, median of the repetitions"
QUEUE = "bench"
MESSAGE = '{"order": 4711, "state": "paid"}'
SINGLES = 1_000
BATCH = 10_000
# A batch takes 50 ms, or 20 s: several rounds of short ones, one of a long one.
ROUNDS = 25
ROUNDS_S = 1.0


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        messages: Messages per statement.
        statements: Statements per timed round.
        throttle_interval_ms: Minimum milliseconds between notifications; None for no notifications.
    """

    name: str
    messages: int
    statements: int
    throttle_interval_ms: int | None


QUESTIONS = tuple(
    Question(f"{call}, {how}", messages, statements, interval_ms)
    for call, messages, statements in (
        (f"send_batch({BATCH:,})", BATCH, 1),
        ("send(1)", 1, SINGLES),
    )
    for how, interval_ms in (("silent", None), ("throttle 250 ms", 250), ("throttle 0", 0))
)

# At most 1.3 times the time of a silent queue.
GOALS = {
    f"send_batch({BATCH:,}), throttle 0": Goal(1 / 1.3, of=f"send_batch({BATCH:,}), silent"),
}


def measure(place: Place, question: Question) -> float:
    """Measure one question on a new queue.

    Returns:
        Messages a second.
    """
    connection = place.connection
    connection.execute("select pgmq.create(%s)", [QUEUE])
    try:
        if question.throttle_interval_ms is not None:
            connection.execute(
                "select pgmq.enable_notify_insert(%s, %s)", [QUEUE, question.throttle_interval_ms]
            )
        connection.execute("checkpoint")
        times: list[float] = []
        while len(times) < ROUNDS and sum(times) < ROUNDS_S:
            begin = time.perf_counter()
            send(connection, question)
            times.append(time.perf_counter() - begin)
        return question.messages * question.statements / statistics.median(times)
    finally:
        connection.execute("select pgmq.drop_queue(%s)", [QUEUE])


def send(connection: psycopg.Connection[Any], question: Question) -> None:
    """Send the messages of one round."""
    for _ in range(question.statements):
        if question.messages == 1:
            connection.execute("select pgmq.send(%s, %s::jsonb)", [QUEUE, MESSAGE])
        else:
            connection.execute(
                "select pgmq.send_batch(%s, array_fill(%s::jsonb, array[%s]))",
                [QUEUE, MESSAGE, question.messages],
            )
