"""How many messages a second can one session send, and how many can it read and delete?"""

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
SINGLES = 3_000  # messages of a question that sends or reads them one by one
BATCHED = 30_000  # messages of a question that sends or reads them by the hundred


@dataclass(frozen=True)
class Question:
    """One thing that is timed.

    Attributes:
        name: What the table of results calls it.
        script: What pgbench runs again and again.
        messages: How many it sends, or reads and deletes, in all.
        each: How many at a time.
        reads: Whether the queue is filled before, and must have lost them after.
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

ROWS = "the delete and the commits cost both the same, and most of the rest is writing rows"
GOALS = {
    "send(1)": Goal(1.0, why_missed="one insert, planned once a call, is all that either does"),
    f"send_batch({BATCH})": Goal(
        1.0, why_missed="probably as each row is tested against the conditions of two indexes"
    ),
    "read(1) + delete(1)": Goal(1.5, why_missed=ROWS),
    f"read({BATCH}) + delete({BATCH})": Goal(1.5, why_missed=ROWS),
}


def measure(place: Place, question: Question) -> float:
    """Ask one question on a new queue.

    Returns:
        Messages a second.

    Raises:
        RuntimeError: The queue does not hold what it must hold afterwards.
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
        # So that neither autovacuum nor the WAL of the filling runs inside the time of the question.
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
