"""Cost of acknowledging a single claimed message."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.goal import Goal
from bench.pgbench import FIRST_CALLS
from bench.place import Place

TITLE = "Calls a second from Python, one connection in autocommit mode, prepared statements"
UNIT = "calls a second, median of the repetitions; PGMQ's calls are not fenced by the claim"
QUEUE = "bench"
MESSAGE = '{"order": 4711, "state": "paid", "note": "' + "x" * 60 + '"}'  # about 100 bytes
MESSAGES = 1_000


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        ours: Our statement; its parameters are the queue, `msg_id` and `read_ct`.
        peers: The peer's statement, with the same parameters.
    """

    name: str
    ours: str
    peers: str


QUESTIONS = tuple(
    Question(
        f"{name}_claimed of 1",
        f"select * from sluice.{name}(%(queue)s::text, array[%(msg_id)s::bigint], array[%(read_ct)s::integer])",
        f"select pgmq.{name}(%(queue)s::text, %(msg_id)s::bigint)",
    )
    for name in ("archive", "delete")
)
WRITTEN = "the row is deleted from one table and inserted into another, each with its indexes"
GOALS = {"archive_claimed of 1": Goal.at_most_ms(0.35, why_missed=WRITTEN)}


def measure(place: Place, question: Question) -> float:
    """Measure one question on a new queue.

    Returns:
        Calls a second.
    """
    connection = place.connection
    connection.execute("select pgmq.create(%s)", [QUEUE])
    try:
        connection.execute(
            "select count(*) from pgmq.send_batch(%s, array_fill(%s::jsonb, array[%s]))",
            [QUEUE, MESSAGE, 2 * MESSAGES],
        )
        claims = connection.execute(
            "select msg_id, read_ct from pgmq.read(%s, 600, %s)", [QUEUE, MESSAGES]
        ).fetchall()
        connection.execute(f"vacuum analyze pgmq.q_{QUEUE}")
        connection.execute("checkpoint")
        statement = question.peers if place.name == "PGMQ" else question.ours
        for number, (msg_id, read_ct) in enumerate(claims):
            if number == FIRST_CALLS:
                begin = time.perf_counter()
            connection.execute(
                statement, {"queue": QUEUE, "msg_id": msg_id, "read_ct": read_ct}, prepare=True
            )
        duration_s = time.perf_counter() - begin
        (left,) = connection.execute(f"select count(*) from pgmq.q_{QUEUE}").fetchone() or (None,)
        if left != MESSAGES:
            raise RuntimeError(f"{question.name} left {left} messages, not {MESSAGES}")
        return (MESSAGES - FIRST_CALLS) / duration_s
    finally:
        connection.execute("select pgmq.drop_queue(%s)", [QUEUE])
