"""Cost of a read with a million delayed or in-flight messages in front."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from bench.goal import Goal
from bench.place import Place

TITLE = "Reads a second, one session"
UNIT = "reads a second: of the median read of a repetition, median of the repetitions"
INVISIBLE = 1_000_000
VISIBLE = 20_000  # behind them; each measurement hides some for longer than the run
READS = 5
VT_S = 3_600
FILL = {
    "nothing": "select",
    "delayed": "insert into pgmq.q_{queue} (vt, message) select now() + interval '1 day', '{{}}' "
    f"from generate_series(1, {INVISIBLE})",
    "in flight": "insert into pgmq.q_{queue} (vt, message) select now(), '{{}}' "
    f"from generate_series(1, {INVISIBLE}); "
    "update pgmq.q_{queue} set vt = clock_timestamp() + interval '1 day', read_ct = 1",
}


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        front: Messages in front: a key of `FILL`.
        qty: Messages per read; 0 polls a queue without visible messages.
    """

    name: str
    front: str
    qty: int


QUESTIONS = tuple(
    Question(f"{'empty poll' if qty == 0 else f'read({qty})'}, {front} in front", front, qty)
    for qty in (1, 100, 0)
    for front in FILL
)

# At most twice the cost of the same read with nothing in front.
GOALS = {
    question.name: Goal(0.5, of=question.name.replace(question.front, "nothing"))
    for question in QUESTIONS
    if question.front != "nothing"
}


def measure(place: Place, question: Question) -> float:
    """Measure one question; its queue is filled on first use and kept.

    Returns:
        Reads a second, from the median read.
    """
    connection = place.connection
    queue = f"{question.front.replace(' ', '_')}_{question.qty}"
    made = connection.execute("select to_regclass(%s)", [f"pgmq.q_{queue}"]).fetchone()
    if made == (None,):
        connection.execute("select pgmq.create(%s)", [queue])
        connection.execute(FILL[question.front].format(queue=queue))
        if question.qty:
            connection.execute(
                "select pgmq.send_batch(%s, array_fill('{}'::jsonb, array[%s]))", [queue, VISIBLE]
            )
        connection.execute(f"vacuum analyze pgmq.q_{queue}")
        connection.execute("checkpoint")
    times = []
    for _ in range(READS):
        begin = time.perf_counter()
        rows = connection.execute(
            "select msg_id from pgmq.read(%s, %s, %s)", [queue, VT_S, question.qty or 1]
        ).fetchall()
        times.append(time.perf_counter() - begin)
        if len(rows) != question.qty:
            raise RuntimeError(f"{len(rows)} of {question.qty} messages were read")
    return 1 / statistics.median(times)
