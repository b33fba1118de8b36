"""How many messages a second can two competing consumers take and complete?"""

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
    """One thing that is timed.

    Attributes:
        qty: How many messages at a time.
        synchronous_commit: Of the consumers' sessions. A claim of ours asks for "off" itself: losing one is harmless.
        cycles: How often each client claims and acknowledges.
        through: "pgbench", which leaves the messages in the server, or "psycopg", which fetches and decodes them.
        name: What the table of results calls it.
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
TURNS = "the claims of a group take turns, where PGMQ's reads run side by side"
GOALS = {
    QUESTIONS[0].name: Goal(8.0, why_missed=TURNS),
    QUESTIONS[1].name: Goal(4.0, why_missed=TURNS),
    QUESTIONS[2].name: Goal(1.5, why_missed=TURNS),
    QUESTIONS[3].name: Goal(1.5, why_missed=TURNS),
}


def measure(place: Place, question: Question) -> float:
    """Ask one question of messages that were sent before, twice as many as are asked for.

    Returns:
        Messages a second that were completed.
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
