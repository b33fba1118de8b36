"""Throughput of two competing consumers of a share group."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import psycopg

from bench.competing import competing
from bench.goal import Goal
from bench.pgbench import pgbench
from bench.place import Place

TITLE = (
    "Messages a second claimed and acknowledged by two clients, by the sessions' synchronous_commit"
)
UNIT = "messages a second, median of the repetitions"
CLIENTS = 2


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        qty: Batch size.
        synchronous_commit: Setting of the consumers' sessions. Our claims set "off" themselves: losing one is harmless.
        cycles: Number of claims and acknowledgements per client.
        through: "pgbench", which leaves the messages in the server, or "psycopg", which fetches and decodes them.
        name: Label in the results table.
    """

    qty: int
    synchronous_commit: str
    cycles: int
    through: str = "pgbench"
    name: str = field(init=False)

    def __post_init__(self) -> None:
        name = f"claim({self.qty}) + acknowledge, {self.synchronous_commit}, {self.through}"
        object.__setattr__(self, "name", name)


QUESTIONS = (
    Question(100, "off", 1_000),
    Question(100, "on", 1_000),
    Question(1, "off", 3_000),
    Question(1, "on", 1_500),
    Question(100, "off", 500, through="psycopg"),
    Question(1, "off", 2_000, through="psycopg"),
)
TURNS = "claims of a group are serialised, while PGMQ's reads run concurrently"
GOALS = {
    QUESTIONS[0].name: Goal(8.0, why_missed=TURNS),
    QUESTIONS[1].name: Goal(4.0, why_missed=TURNS),
    QUESTIONS[2].name: Goal(1.5, why_missed=TURNS),
    QUESTIONS[3].name: Goal(1.5, why_missed=TURNS),
}


def measure(place: Place, question: Question) -> float:
    """Measure one question on a backlog of twice the messages it needs.

    Returns:
        Completed messages a second.
    """
    messages = competing(place.name)
    messages.create(place.connection)
    try:
        messages.fill(place.connection, 2 * CLIENTS * question.cycles * question.qty)
        took_s = (
            by_pgbench(place, question)
            if question.through == "pgbench"
            else by_psycopg(place, question)
        )
        return messages.completed(place.connection) / took_s
    finally:
        messages.drop(place.connection)


def by_pgbench(place: Place, question: Question) -> float:
    cycles_a_second = pgbench(
        place.server,
        place.connection.info.dbname,
        competing(place.name).cycle(question.qty),
        question.cycles,
        clients=CLIENTS,
        synchronous_commit=question.synchronous_commit,
    )
    return CLIENTS * question.cycles / cycles_a_second


def by_psycopg(place: Place, question: Question) -> float:
    messages = competing(place.name)

    def consume(session: psycopg.Connection[Any]) -> None:
        for _ in range(question.cycles):
            claimed, found = messages.claim(session, question.qty)
            if not found:
                raise RuntimeError("there are no messages left")
            messages.complete(session, claimed)

    with ExitStack() as stack:
        sessions = [
            stack.enter_context(
                psycopg.connect(
                    place.server.url(place.connection.info.dbname),
                    autocommit=True,
                    prepare_threshold=1,
                    options=f"-c synchronous_commit={question.synchronous_commit}",
                )
            )
            for _ in range(CLIENTS)
        ]
        threads = stack.enter_context(ThreadPoolExecutor(CLIENTS))
        begin = time.perf_counter()
        list(threads.map(consume, sessions))
        return time.perf_counter() - begin
