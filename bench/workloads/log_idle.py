"""CPU cost of a thousand idle event logs: a pass of the ticker, and their figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.cpu import per_cpu_s
from bench.goal import Goal
from bench.place import Place
from bench.systems.pgq import BIN_DIR, Pgq
from bench.systems.pgsluice import Pgsluice

__all__ = ["BIN_DIR"]

TITLE = "Passes over 1,000 idle event logs for each second of the backend's CPU time, one session"
UNIT = "passes a second of the backend's CPU time"
SYSTEMS = [Pgsluice(), Pgq()]
LOGS = 1_000
PASSES = 5


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        ask: Function that runs one pass.
    """

    name: str
    ask: Callable[[Place], None]


def measure(place: Place, question: Question) -> float:
    """Measure one question; the logs are created on first use and kept.

    Returns:
        Passes per second of the backend's CPU time.
    """
    create_logs(place.connection)
    with psycopg.connect(place.connection.info.dsn, autocommit=True) as session:
        own = Place(place.name, session, place.server)
        # As in a daemon: a new session checks each log, and sluice.tick() twice.
        for _ in range(4):
            question.ask(own)

        def passes() -> None:
            for _ in range(PASSES):
                question.ask(own)

        return per_cpu_s(session, PASSES, passes)


def create_logs(connection: psycopg.Connection[Any]) -> None:
    """Create logs with two ticks and an event between them, and no tick due."""
    (made,) = connection.execute("select count(*) from pgq.queue").fetchone() or (0,)
    for number in range(made, LOGS):
        name = f"bench {number:04}"
        connection.execute("select pgq.create_queue(%s)", [name])
        connection.execute(
            """update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'
               where queue_name = %s""",
            [name],
        )
        connection.execute("select pgq.insert_event(%s, 'type', 'data')", [name])
        connection.execute("select pgq.ticker(%s)", [name])
        connection.execute(
            """update pgq.queue set queue_ticker_max_lag = '1 day', queue_ticker_idle_period = '1 day'
               where queue_name = %s""",
            [name],
        )


def ticker(place: Place) -> None:
    """One pass of the ticker, to the last page."""
    connection = place.connection
    while True:
        connection.execute("select pgq.ticker()")
        if place.name == Pgq.name or at_end(connection, "sluice.ticker_after"):
            return


def tick(place: Place) -> None:
    """One pass of our own ticker; the peer has only one."""
    if place.name == Pgq.name:
        ticker(place)
        return
    while True:
        place.connection.execute("select * from sluice.tick()")
        if at_end(place.connection, "sluice.tick_after"):
            return


def at_end(connection: psycopg.Connection[Any], setting: str) -> bool:
    return connection.execute("select current_setting(%s, true)", [setting]).fetchone() == (">",)


def queue_info(place: Place) -> None:
    found = place.connection.execute("select * from pgq.get_queue_info()").fetchall()
    if len(found) != LOGS:
        raise RuntimeError(f"{len(found)} logs instead of {LOGS}")


QUESTIONS = (
    Question("pgq.ticker(), all pages", ticker),
    Question("sluice.tick(), all pages, to the peer's pgq.ticker()", tick),
    Question("pgq.get_queue_info()", queue_info),
)
GOALS = {
    QUESTIONS[0].name: Goal(1.0),
    QUESTIONS[1].name: Goal(1.0),
    QUESTIONS[2].name: Goal(
        1.0,
        why_missed="ticks are in tables of each log, so a statement is planned for each; PgQ has one table",
    ),
}
