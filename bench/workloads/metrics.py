"""Cost of the queue length."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from bench.goal import Goal
from bench.place import Place

TITLE = "Calls of metrics a second, one session"
UNIT = "calls a second: of the median call of a repetition, median of the repetitions"
CALLS = 9
FILL = {
    "empty": "select",
    "1,000,000 ready": "select count(*) from pgmq.send_batch('{queue}', array_fill('{{}}'::jsonb, array[1000000]))",
    "1,000,000, a fifth in flight": "select count(*) from pgmq.send_batch('{queue}', array_fill('{{}}'::jsonb, "
    "array[1000000])); select count(*) from pgmq.read('{queue}', 86400, 200000)",
}


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table, and contents of the queue: a key of `FILL`.
        queue: Its name.
    """

    name: str
    queue: str


QUESTIONS = tuple(Question(name, f"bench_{number}") for number, name in enumerate(FILL))

GOALS = {question.name: Goal(200, of=None) for question in QUESTIONS}  # 5 ms


def measure(place: Place, question: Question) -> float:
    """Measure one question; its queue is filled on first use and kept.

    Returns:
        Calls a second, from the median call.
    """
    connection = place.connection
    made = connection.execute("select to_regclass(%s)", [f"pgmq.q_{question.queue}"]).fetchone()
    if made == (None,):
        connection.execute("select pgmq.create(%s)", [question.queue])
        connection.execute(FILL[question.name].format(queue=question.queue))
        connection.execute(f"vacuum analyze pgmq.q_{question.queue}")
        connection.execute("checkpoint")
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        connection.execute("select * from pgmq.metrics(%s)", [question.queue]).fetchall()
        times.append(time.perf_counter() - begin)
    return 1 / statistics.median(times)
