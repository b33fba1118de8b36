"""Cost of a read with many delayed or in-flight messages in front."""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass

import psycopg

from bench.goal import Goal
from bench.place import Place

TITLE = "Reads a second, one session"
UNIT = "reads a second: of the median read of a repetition, median of the repetitions"
INVISIBLE = 1_000_000
VISIBLE = 20_000  # behind them; each measurement hides some for longer than the run
READS = 5
VT_S = 3_600
OPTIONS = {"just_read": 300_000}
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
        front: Messages in front: a key of `FILL`; or `JUST_READ`, by 300 reads of 1,000, and not vacuumed since.
        qty: Messages per read; 0 polls a queue without visible messages.
        is_held: True if another session has held a snapshot since before the messages in front were read.
    """

    name: str
    front: str
    qty: int
    is_held: bool = False


JUST_READ = "just read"
QUESTIONS = (
    *(
        Question(f"{'empty poll' if qty == 0 else f'read({qty})'}, {front} in front", front, qty)
        for qty in (1, 100, 0)
        for front in FILL
    ),
    Question("read(1), just read in front", JUST_READ, 1),
    Question("read(1), just read in front, snapshot held", JUST_READ, 1, is_held=True),
)

# At most twice the cost of the same read with nothing in front.
GOALS = {
    question.name: Goal(
        0.5, of=question.name.replace(question.front, "nothing").removesuffix(", snapshot held")
    )
    for question in QUESTIONS
    if question.front != "nothing"
}


def measure(place: Place, question: Question) -> float:
    """Measure one question; its queue is filled on first use and kept.

    Returns:
        Reads a second, from the median read.
    """
    if question.front == JUST_READ:
        return after_reads(place, question)
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
    return 1 / statistics.median(read(place, queue, question.qty) for _ in range(READS))


def read(place: Place, queue: str, qty: int) -> float:
    """Read once; return the time in seconds."""
    begin = time.perf_counter()
    rows = place.connection.execute(
        "select msg_id from pgmq.read(%s, %s, %s)", [queue, VT_S, qty or 1]
    ).fetchall()
    took_s = time.perf_counter() - begin
    if len(rows) != qty:
        raise RuntimeError(f"{len(rows)} of {qty} messages were read")
    return took_s


def after_reads(place: Place, question: Question) -> float:
    """Read the messages in front of a new queue, and measure the reads from the second one on.

    Returns:
        Reads a second, from the median read.
    """
    connection, queue, front = place.connection, "just_read", OPTIONS["just_read"]
    connection.execute("select pgmq.create(%s)", [queue])
    try:
        connection.execute(
            "select count(*) from pgmq.send_batch(%s, array_fill('{}'::jsonb, array[%s]))",
            [queue, front + VISIBLE],
        )
        connection.execute(f"vacuum analyze pgmq.q_{queue}")
        connection.execute(f"alter table pgmq.q_{queue} set (autovacuum_enabled = off)")
        connection.execute("checkpoint")
        with ExitStack() as stack:
            if question.is_held:
                url = place.server.url(connection.info.dbname)
                holder = stack.enter_context(psycopg.connect(url))
                holder.execute("set transaction isolation level repeatable read")
                holder.execute("select from pgmq.meta")
            for _ in range(0, front, 1_000):
                read(place, queue, 1_000)
            read(place, queue, 1)
            return 1 / statistics.median(read(place, queue, 1) for _ in range(4 * READS))
    finally:
        connection.execute("select pgmq.drop_queue(%s)", [queue])
