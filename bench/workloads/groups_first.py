"""Time of a read by groups of a queue that was filled before, without create_fifo_index."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.goal import Goal
from bench.place import Place

TITLE = "Reads in groups a second, 1,000 groups in turn, create_fifo_index not called"
UNIT = (
    "reads a second: of the median read of a repetition, median of the repetitions; "
    "ours after a first read, which requests the indexes, and a call of maintenance, which creates them; "
    "a read of more than a second is not repeated"
)
GROUPS = 1_000
READS = 3


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        reader: Name of the SQL function.
        messages: Number of messages in the queue.
    """

    reader: str
    messages: int

    @property
    def name(self) -> str:
        """Label in the results table."""
        return f"{self.reader}(100), {self.messages:,} messages"


QUESTIONS = tuple(
    Question(reader, messages)
    for messages in (100_000, 1_000_000)
    for reader in ("read_grouped", "read_grouped_rr", "read_grouped_head")
)
GOALS = {question.name: Goal.at_most_ms(50) for question in QUESTIONS}


_slow: dict[tuple[str, Question], float] = {}  # rates below one read a second


def measure(place: Place, question: Question) -> float:
    """Measure one question; its queue is filled on first use and kept.

    Returns:
        Reads a second, from the median read.
    """
    connection = place.connection
    queue = f"groups_{question.messages}"
    if connection.execute("select to_regclass(%s)", [f"pgmq.q_{queue}"]).fetchone() == (None,):
        fill(connection, queue, question.messages)
        if place.name != "PGMQ":
            connection.execute(f"select pgmq.{question.reader}(%s, 0, 1)", [queue])
            connection.execute("select from sluice.maintain()")
    key = (connection.info.dbname, question)
    if key in _slow:
        return _slow[key]
    times = []
    for _ in range(READS):
        begin = time.perf_counter()
        ids = connection.execute(
            f"select msg_id from pgmq.{question.reader}(%s, 3600, 100)", [queue]
        ).fetchall()
        times.append(time.perf_counter() - begin)
        if len(ids) != 100:
            raise RuntimeError(f"{question.name}: {len(ids)} messages, not 100")
        connection.execute("select pgmq.delete(%s, %s::bigint[])", [queue, [row[0] for row in ids]])
        if times[-1] > 1:
            break
    rate = 1 / statistics.median(times)
    if rate < 1:
        _slow[key] = rate
    return rate


def fill(connection: psycopg.Connection[Any], queue: str, messages: int) -> None:
    """Create and fill a queue."""
    connection.execute("select pgmq.create(%s)", [queue])
    connection.execute(
        f"""insert into pgmq.q_{queue} (vt, message, headers)
            select now(), '{{}}', jsonb_build_object('x-pgmq-group', (n %% %s)::text)
            from generate_series(1, %s) as n""",
        [GROUPS, messages],
    )
    connection.execute(f"vacuum analyze pgmq.q_{queue}")
    connection.execute("checkpoint")
