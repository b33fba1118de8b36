"""What do senders pay for notifications: one message at a time, and ten thousand in a statement?"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.goal import Goal
from bench.place import Place

TITLE = "Messages a second that are sent to a queue that notifies, one session"
UNIT = "messages a second: of the median round of a repetition, median of the repetitions"
QUEUE = "bench"
MESSAGE = '{"order": 4711, "state": "paid"}'
SINGLES = 1_000
BATCH = 10_000
# A batch takes 50 ms, or 20 s: a few rounds where they are short, one where they are long.
ROUNDS = 25
ROUNDS_S = 1.0


@dataclass(frozen=True)
class Question:
    """One thing that is timed.

    Attributes:
        name: What the table of results calls it.
        messages: How many messages a statement sends.
        statements: How many of them are a round, which is timed.
        throttle_interval_ms: Milliseconds between two notifications; None: the queue does not notify.
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
    """Ask one question on a new queue.

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
    """Send what one round sends."""
    for _ in range(question.statements):
        if question.messages == 1:
            connection.execute("select pgmq.send(%s, %s::jsonb)", [QUEUE, MESSAGE])
        else:
            connection.execute(
                "select pgmq.send_batch(%s, array_fill(%s::jsonb, array[%s]))",
                [QUEUE, MESSAGE, question.messages],
            )
