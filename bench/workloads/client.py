"""Overhead of the Python client over the same statements sent by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice
from pgsluice.client import TableQueue, WorkQueue

TITLE = "Messages a second from Python, one connection in autocommit mode"
UNIT = "messages a second, median of the repetitions"
QUEUE = "bench"
MESSAGE = {"order": 4711, "state": "paid", "note": "x" * 60}  # about 100 bytes
MESSAGES = 2_000


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        reads: True to read and delete, False to send.
    """

    name: str
    reads: bool


QUESTIONS = (Question("send(1)", reads=False), Question("read(1) + delete(1)", reads=True))

GOALS = {question.name: Goal(0.9) for question in QUESTIONS}


class ByHand:
    """The client's statements, sent by hand."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def send(self, queue_name: str, message: Any) -> int:
        sent = self._connection.execute(
            "select pgmq.send(%s::text, %s::jsonb, %s::jsonb, %s::integer)",
            [queue_name, Jsonb(message), None, 0],
        )
        return int(sent.fetchall()[0][0])

    def read_and_delete(self, queue_name: str) -> bool:
        ((msg_id, *_),) = self._connection.execute(
            "select * from pgmq.read(%s::text, %s::integer, %s::integer)", [queue_name, 60, 1]
        ).fetchall()
        deleted = self._connection.execute(
            "select pgmq.delete(%s::text, %s::bigint)", [queue_name, msg_id]
        )
        return bool(deleted.fetchall()[0][0])


class ByClient:
    """The client's `WorkQueue`."""

    def __init__(self, queue: WorkQueue | TableQueue) -> None:
        self._queue = queue

    def send(self, queue_name: str, message: Any) -> int:
        return self._queue.send(queue_name, message)

    def read_and_delete(self, queue_name: str) -> bool:
        (message,) = self._queue.read(queue_name, 60)
        return self._queue.delete(queue_name, message.msg_id)


CONTESTANTS: dict[str, Callable[[psycopg.Connection[Any]], ByHand | ByClient]] = {
    "WorkQueue": lambda connection: ByClient(WorkQueue(connection)),
    "by hand": ByHand,
    "TableQueue": lambda connection: ByClient(TableQueue(connection)),
}
SYSTEMS = [Pgsluice(name) for name in CONTESTANTS]


def measure(place: Place, question: Question) -> float:
    """Measure one question on a new queue.

    Returns:
        Messages a second.
    """
    connection = place.connection
    contestant = CONTESTANTS[place.name](connection)
    connection.execute("select pgmq.create(%s)", [QUEUE])
    try:
        if question.reads:
            connection.execute(
                "select count(*) from pgmq.send_batch(%s, array_fill(%s::jsonb, array[%s]))",
                [QUEUE, Jsonb(MESSAGE), MESSAGES],
            )
        connection.execute(f"vacuum analyze pgmq.q_{QUEUE}")
        connection.execute("checkpoint")
        begin = time.perf_counter()
        for _ in range(MESSAGES):
            if question.reads:
                if not contestant.read_and_delete(QUEUE):
                    raise RuntimeError("a message to delete does not exist")
            else:
                contestant.send(QUEUE, MESSAGE)
        return MESSAGES / (time.perf_counter() - begin)
    finally:
        connection.execute("select pgmq.drop_queue(%s)", [QUEUE])
