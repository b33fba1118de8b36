"""Throughput of competing consumers of a share group."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import psycopg

from bench.competing import competing
from bench.goal import Goal
from bench.pgbench import FIRST_CALLS, pgbench
from bench.place import Place

TITLE = (
    "Messages a second claimed and acknowledged, two clients if not named, by synchronous_commit"
)
UNIT = "messages a second, median of the repetitions"


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        qty: Batch size.
        synchronous_commit: Setting of the consumers' sessions. Our claims set "off" themselves: losing one is harmless.
        cycles: Number of claims and acknowledgements of all clients together.
        through: "pgbench", which leaves the messages in the server, or "psycopg", which fetches and decodes them.
        clients: Number of sessions.
        name: Label in the results table.
    """

    qty: int
    synchronous_commit: str
    cycles: int
    through: str = "pgbench"
    clients: int = 2
    name: str = field(init=False)

    def __post_init__(self) -> None:
        name = f"claim({self.qty}) + acknowledge, {self.synchronous_commit}, {self.through}"
        if self.clients != 2:
            name += f", {self.clients} client" + "s" * (self.clients > 1)
        object.__setattr__(self, "name", name)


HUNDREDS, TENS, SINGLES, SLOW_SINGLES = 2_000, 3_000, 4_000, 2_000
QUESTIONS = (
    Question(100, "off", HUNDREDS),
    Question(100, "on", HUNDREDS),
    Question(10, "off", TENS),
    Question(10, "on", TENS),
    Question(1, "off", SINGLES),
    Question(1, "on", SLOW_SINGLES),
    Question(100, "off", HUNDREDS, through="psycopg"),
    Question(1, "off", SINGLES, through="psycopg"),
    *(
        Question(qty, synchronous_commit, cycles, clients=clients)
        for clients in (1, 8)
        for qty, synchronous_commit, cycles in (
            (100, "off", HUNDREDS),
            (100, "on", HUNDREDS),
            (10, "off", TENS),
            (10, "on", TENS),
            (1, "off", SINGLES),
            (1, "on", SLOW_SINGLES),
        )
    ),
)
TURNS = "claims of a group are serialised, while PGMQ's reads run concurrently"
STATEMENTS = "a claim takes 0.4 ms whatever its size, most of it the statements of PL/pgSQL"
# The least ratio by batch size, synchronous_commit, and client program; of eight clients by batch size.
OF_EIGHT = {100: 1.5, 10: 1.5, 1: 0.8}
RATIOS = {
    (10, "off", "pgbench"): 1.5,
    (10, "on", "pgbench"): 1.5,
    (100, "off", "pgbench"): 8.0,
    (100, "on", "pgbench"): 6.0,
    (1, "off", "pgbench"): 1.2,
    (1, "on", "pgbench"): 2.5,
    (1, "off", "psycopg"): 1.5,
}
GOALS = {
    question.name: Goal(
        OF_EIGHT[question.qty] if question.clients == 8 else RATIOS[asked],
        why_missed=STATEMENTS if question.clients == 1 else TURNS,
    )
    for question in QUESTIONS
    if (asked := (question.qty, question.synchronous_commit, question.through)) in RATIOS
}


def measure(place: Place, question: Question) -> float:
    """Measure one question on a backlog of one and a half times the messages it needs.

    Returns:
        Completed messages a second.
    """
    messages = competing(place.name)
    messages.create(place.connection)
    try:
        messages.fill(place.connection, question.cycles * question.qty * 3 // 2)
        if question.through == "psycopg":
            return by_psycopg(place, question)
        return by_pgbench(place, question)
    finally:
        messages.drop(place.connection)


def by_pgbench(place: Place, question: Question) -> float:
    messages = competing(place.name)
    cycles_a_second = pgbench(
        place.server,
        place.connection.info.dbname,
        messages.cycle(question.qty),
        question.cycles // question.clients,
        clients=question.clients,
        synchronous_commit=question.synchronous_commit,
    )
    return cycles_a_second * messages.completed(place.connection) / question.cycles


def by_psycopg(place: Place, question: Question) -> float:
    messages = competing(place.name)

    def consume(session: psycopg.Connection[Any], cycles: int) -> None:
        for _ in range(cycles):
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
            for _ in range(question.clients)
        ]
        threads = stack.enter_context(ThreadPoolExecutor(question.clients))
        list(threads.map(consume, sessions, repeat(FIRST_CALLS)))
        before = messages.completed(place.connection)
        begin = time.perf_counter()
        list(threads.map(consume, sessions, repeat(question.cycles // question.clients)))
        took_s = time.perf_counter() - begin
        return (messages.completed(place.connection) - before) / took_s
