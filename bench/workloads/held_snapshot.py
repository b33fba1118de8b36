"""Slowdown of a queue while another transaction holds a snapshot for three minutes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.goal import Goal
from bench.place import Place
from pgsluice.embedded import EmbeddedServer

TITLE = "Messages a second sent, read and deleted under one REPEATABLE READ snapshot, one session"
UNIT = "messages a second in an interval of 30 s"
REPEATS = 1
WARM_UP = False
SECONDS = 180
STRETCH_S = 30
QUEUE = "held"


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        qty: Batch size for sending, reading and deleting.
        stretch: Index of the 30 s interval: 0 first, 5 last.
    """

    name: str
    qty: int
    stretch: int


QUESTIONS = tuple(
    Question(f"{qty} at a time, {when} 30 s", qty, stretch)
    for qty in (10,)
    for when, stretch in (("first", 0), ("last", SECONDS // STRETCH_S - 1))
)
GOALS = {
    question.name: Goal(0.65, of=question.name.replace("last", "first"))
    for question in QUESTIONS
    if "last" in question.name
}
_runs: dict[tuple[str, int], list[float]] = {}


def measure(place: Place, question: Question) -> float:
    """Measure one question: the first for a quantity performs the run, the other reads its end.

    Returns:
        Messages a second in that interval.
    """
    connection = place.connection
    key = (connection.info.dbname, question.qty)
    if key not in _runs:
        _runs[key] = run(connection, place.server, question.qty)
    return _runs[key][question.stretch]


def run(connection: psycopg.Connection[Any], server: EmbeddedServer, qty: int) -> list[float]:
    """Send, read and delete for three minutes while a snapshot is held; return the rate of each 30 s."""
    connection.execute("select pgmq.create(%s)", [QUEUE])
    rates: list[float] = []
    with psycopg.connect(server.url(connection.info.dbname)) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("select from pgmq.meta")
        begin = time.monotonic()
        done = 0
        while len(rates) < SECONDS // STRETCH_S:
            connection.execute(
                "select count(*) from pgmq.send_batch(%s, array_fill('{}'::jsonb, array[%s]))",
                [QUEUE, qty],
            )
            ids = connection.execute(
                "select msg_id from pgmq.read(%s, 30, %s)", [QUEUE, qty]
            ).fetchall()
            connection.execute(
                "select count(*) from pgmq.delete(%s, %s::bigint[])",
                [QUEUE, [row[0] for row in ids]],
            )
            done += len(ids)
            if (took := time.monotonic() - begin) >= STRETCH_S:
                rates.append(done / took)
                done, begin = 0, time.monotonic()
        (left,) = connection.execute(f"select count(*) from pgmq.q_{QUEUE}").fetchone() or (None,)
        if left:
            raise RuntimeError(f"{left} messages were never read")
        holder.rollback()
    connection.execute("select pgmq.drop_queue(%s)", [QUEUE])
    return rates
