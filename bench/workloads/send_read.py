"""Throughput of sending, and of reading and deleting, in one session."""

from __future__ import annotations

import json
from dataclasses import dataclass

from bench.goal import Goal
from bench.pgbench import pgbench
from bench.place import Place

TITLE = "Messages a second through SQL, one session of pgbench with prepared statements"
UNIT = "messages a second, median of the repetitions"
QUEUE = "bench"
MESSAGE = json.dumps({"order": 4711, "state": "paid", "note": "x" * 60})  # about 100 bytes
BATCH = 100
SINGLES = 3_000  # messages of a question with single sends or reads
BATCHED = 30_000  # messages of a question with batches of a hundred


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        script: Transaction script for pgbench.
        messages: Total messages sent, or read and deleted.
        each: Batch size.
        reads: True if the queue is filled first and must be empty afterwards.
    """

    name: str
    script: str
    messages: int
    each: int
    reads: bool


QUESTIONS = (
    Question(
        "send(1)",
        f"select pgmq.send('{QUEUE}', '{MESSAGE}'::jsonb);",
        SINGLES,
        1,
        reads=False,
    ),
    Question(
        f"send_batch({BATCH})",
        f"select count(*) from pgmq.send_batch('{QUEUE}', array_fill('{MESSAGE}'::jsonb, array[{BATCH}]));",
        BATCHED,
        BATCH,
        reads=False,
    ),
    Question(
        "read(1) + delete(1)",
        f"select msg_id from pgmq.read('{QUEUE}', 60, 1) \\gset\n"
        f"select pgmq.delete('{QUEUE}', (:msg_id)::bigint);",
        SINGLES,
        1,
        reads=True,
    ),
    Question(
        f"read({BATCH}) + delete({BATCH})",
        f"select array_agg(msg_id) as ids from pgmq.read('{QUEUE}', 60, {BATCH}) \\gset\n"
        f"select count(*) from pgmq.delete('{QUEUE}', (:ids)::bigint[]);",
        BATCHED,
        BATCH,
        reads=True,
    ),
    Question("pop(1)", f"select msg_id from pgmq.pop('{QUEUE}');", SINGLES, 1, reads=True),
)

ROWS = "the delete and the commits cost the same in both, and writing rows dominates the rest"
GOALS = {
    "send(1)": Goal(1.0, why_missed="both do only one insert, planned once per call"),
    f"send_batch({BATCH})": Goal(
        1.0,
        why_missed="probably because each row is checked against the predicates of two partial indexes",
    ),
    "read(1) + delete(1)": Goal(1.5, why_missed=ROWS),
    f"read({BATCH}) + delete({BATCH})": Goal(1.5, why_missed=ROWS),
}


def measure(place: Place, question: Question) -> float:
    """Measure one question on a new queue.

    Returns:
        Messages a second.

    Raises:
        RuntimeError: The queue has an unexpected number of messages afterwards.
    """
    connection = place.connection
    connection.execute("select pgmq.create(%s)", [QUEUE])
    filled = 2 * question.messages if question.reads else 0
    try:
        if filled:
            connection.execute(
                "select count(*) from pgmq.send_batch(%s, array_fill(%s::jsonb, array[%s]))",
                [QUEUE, MESSAGE, filled],
            )
        # Keeps autovacuum and the checkpoint of the fill out of the measurement.
        connection.execute(f"vacuum analyze pgmq.q_{QUEUE}")
        connection.execute("checkpoint")
        transactions = question.messages // question.each
        per_second = pgbench(place.server, connection.info.dbname, question.script, transactions)
        (left,) = connection.execute(f"select count(*) from pgmq.q_{QUEUE}").fetchone() or (None,)
        if left != question.messages:
            raise RuntimeError(f"{question.name} left {left} messages, not {question.messages}")
        return per_second * question.each
    finally:
        connection.execute("select pgmq.drop_queue(%s)", [QUEUE])
