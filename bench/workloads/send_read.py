"""How many messages a second can one session send, and how many can it read and delete?"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

TITLE = "Messages a second, one session"
UNIT = "messages a second, median of the repetitions"
QUEUE = "bench"
MESSAGE = json.dumps({"order": 4711, "state": "paid", "note": "x" * 60})  # about 100 bytes
BATCH = 100
SINGLES = 1_000  # messages of a question that sends or reads them one by one
BATCHED = 20_000  # messages of a question that sends or reads them by the hundred


@dataclass(frozen=True)
class Question:
    """One thing that is timed.

    Attributes:
        name: What the table of results calls it.
        messages: How many it sends, or reads and deletes.
        filled: How many messages are in the queue when it begins.
        run: Does it.
    """

    name: str
    messages: int
    filled: int
    run: Callable[[psycopg.Connection[Any], int], None]


def send_1(connection: psycopg.Connection[Any], messages: int) -> None:
    for _ in range(messages):
        connection.execute("select pgmq.send(%s, %s::jsonb)", [QUEUE, MESSAGE])


def send_100(connection: psycopg.Connection[Any], messages: int) -> None:
    batch = [MESSAGE] * BATCH
    for _ in range(messages // BATCH):
        connection.execute("select pgmq.send_batch(%s, %s::jsonb[])", [QUEUE, batch])


def read_delete_1(connection: psycopg.Connection[Any], messages: int) -> None:
    for _ in range(messages):
        ((msg_id,),) = connection.execute(
            "select msg_id from pgmq.read(%s, 60, 1)", [QUEUE]
        ).fetchall()
        connection.execute("select pgmq.delete(%s, %s::bigint)", [QUEUE, msg_id])


def read_delete_100(connection: psycopg.Connection[Any], messages: int) -> None:
    for _ in range(messages // BATCH):
        rows = connection.execute(
            "select msg_id, message from pgmq.read(%s, 60, %s)", [QUEUE, BATCH]
        ).fetchall()
        ids = [row[0] for row in rows]
        deleted = connection.execute(
            "select pgmq.delete(%s, %s::bigint[])", [QUEUE, ids]
        ).fetchall()
        if len(deleted) != BATCH:
            raise RuntimeError(f"{len(deleted)} of {BATCH} messages were deleted")


QUESTIONS = (
    Question("send(1)", SINGLES, 0, send_1),
    Question(f"send_batch({BATCH})", BATCHED, 0, send_100),
    Question("read(1) + delete(1)", SINGLES, 2 * SINGLES, read_delete_1),
    Question(f"read({BATCH}) + delete({BATCH})", BATCHED, 2 * BATCHED, read_delete_100),
)


def measure(connection: psycopg.Connection[Any], question: Question) -> float:
    """Ask one question on a new queue.

    Returns:
        Messages a second.
    """
    connection.execute("select pgmq.create(%s)", [QUEUE])
    try:
        if question.filled:
            connection.execute(
                "select pgmq.send_batch(%s, array_fill(%s::jsonb, array[%s]))",
                [QUEUE, MESSAGE, question.filled],
            )
        # So that neither autovacuum nor the WAL of the filling runs inside the time of the question.
        connection.execute(f"vacuum analyze pgmq.q_{QUEUE}")
        connection.execute("checkpoint")
        begin = time.perf_counter()
        question.run(connection, question.messages)
        return question.messages / (time.perf_counter() - begin)
    finally:
        connection.execute("select pgmq.drop_queue(%s)", [QUEUE])
