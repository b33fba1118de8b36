"""How much slower does a queue become while another transaction holds a snapshot for three minutes?"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.goal import Goal
from bench.place import Place
from pgsluice.embedded import EmbeddedServer

TITLE = "Messages a second sent, read and deleted under one REPEATABLE READ snapshot, one session"
UNIT = "messages a second in a stretch of 30 s"
REPEATS = 1
WARM_UP = False
SECONDS = 180
STRETCH_S = 30
QUEUE = "held"


@dataclass(frozen=True)
class Question:
    """One thing that is timed.

    Attributes:
        name: What the table of results calls it.
        qty: How many messages are sent, read and deleted at a time.
        stretch: Which 30 s: 0 the first, 5 the last.
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
    """Ask one question: the first one about a quantity does the run, the other one looks at its end.

    Returns:
        Messages a second in that stretch.
    """
    connection = place.connection
    key = (connection.info.dbname, question.qty)
    if key not in _runs:
        _runs[key] = run(connection, place.server, question.qty)
    return _runs[key][question.stretch]


def run(connection: psycopg.Connection[Any], server: EmbeddedServer, qty: int) -> list[float]:
    """Send, read and delete for three minutes beside a snapshot; return the rate of each 30 s."""
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
