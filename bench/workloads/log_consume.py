"""CPU cost of delivering a batch of an event log, and of retrying its events."""

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
from pgsluice import EventLog

__all__ = ["BIN_DIR"]

TITLE = "Batches and events for each second of the backend's CPU time, one session"
UNIT = "times a second of the backend's CPU time"
SYSTEMS = [Pgsluice(), Pgq()]
LOG = "bench"
EVENTS = 10_000
RETRIED = 1_000
BATCHES = 300


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        ask: Function that prepares, measures and returns the rate.
    """

    name: str
    ask: Callable[[Place], float]


def measure(place: Place, question: Question) -> float:
    """Measure one question in a new log.

    Returns:
        Operations per second of the backend's CPU time.
    """
    place.connection.prepare_threshold = 1
    place.connection.execute("select pgq.create_queue(%s)", [LOG])
    place.connection.execute(
        """update pgq.queue
           set queue_ticker_max_lag = '0', queue_ticker_max_count = 1, queue_ticker_idle_period = '0'"""
    )
    place.connection.execute("select pgq.register_consumer(%s, 'bench')", [LOG])
    try:
        return question.ask(place)
    finally:
        place.connection.execute("select pgq.drop_queue(%s, true)", [LOG])


def tick(connection: psycopg.Connection[Any], log: str = LOG) -> None:
    if connection.execute("select pgq.ticker(%s)", [log]).fetchall() == [(None,)]:
        raise RuntimeError("the log was not ticked")


def next_batch(connection: psycopg.Connection[Any], log: str = LOG) -> int:
    ((batch_id,),) = connection.execute("select pgq.next_batch(%s, 'bench')", [log]).fetchall()
    if batch_id is None:
        raise RuntimeError("there is no batch")
    return int(batch_id)


def empty_batches(place: Place) -> float:
    connection = place.connection
    for _ in range(BATCHES):
        tick(connection)

    def cycle() -> None:
        for _ in range(BATCHES):
            batch_id = next_batch(connection)
            if connection.execute("select * from pgq.get_batch_events(%s)", [batch_id]).fetchall():
                raise RuntimeError("the batch is not empty")
            connection.execute("select pgq.finish_batch(%s)", [batch_id])

    return per_cpu_s(connection, BATCHES, cycle)


def nothing_to_do(place: Place) -> float:
    connection = place.connection

    def ask() -> None:
        for _ in range(BATCHES):
            connection.execute("select pgq.next_batch(%s, 'bench')", [LOG])

    return per_cpu_s(connection, BATCHES, ask)


def full_batch(connection: psycopg.Connection[Any]) -> int:
    connection.execute(
        "select count(pgq.insert_event(%s, 'type', repeat('x', 100))) from generate_series(1, %s)",
        [LOG, EVENTS],
    )
    tick(connection)
    return next_batch(connection)


def events(place: Place) -> float:
    connection = place.connection
    batch_id = full_batch(connection)

    def read() -> None:
        found = connection.execute("select * from pgq.get_batch_events(%s)", [batch_id]).fetchall()
        if len(found) != EVENTS:
            raise RuntimeError(f"{len(found)} events instead of {EVENTS}")

    return per_cpu_s(connection, EVENTS, read)


def events_by_the_client(place: Place) -> float:
    """Read with our client, and with the peer's only function for it."""
    if place.name == Pgq.name:
        return events(place)
    connection = place.connection
    batch_id = full_batch(connection)
    log = EventLog(connection)

    def read() -> None:
        found = sum(1 for _ in log.stream_batch_events(batch_id))
        if found != EVENTS:
            raise RuntimeError(f"{found} events instead of {EVENTS}")

    return per_cpu_s(connection, EVENTS, read)


def retries(place: Place) -> float:
    connection = place.connection
    batch_id = full_batch(connection)
    ids = [
        ev_id
        for (ev_id,) in connection.execute(
            "select ev_id from pgq.get_batch_events(%s) order by ev_id limit %s",
            [batch_id, RETRIED],
        )
    ]

    def one_by_one() -> None:
        # Only 2 % of the events: the cost is linear, and all would take the peer 15 s.
        for ev_id in ids[:: RETRIED // 20]:
            connection.execute("select pgq.event_retry(%s, %s, 60)", [batch_id, ev_id])

    def together() -> None:
        connection.execute(
            "select sluice.retry(%s, %s::bigint[], interval '60 s')", [batch_id, ids]
        )

    if place.name == Pgq.name:
        return per_cpu_s(connection, 20, one_by_one)
    return per_cpu_s(connection, RETRIED, together)


QUESTIONS = (
    Question("next_batch + get_batch_events + finish_batch, empty batch", empty_batches),
    Question("next_batch, nothing to do", nothing_to_do),
    Question(f"event of a batch of {EVENTS:,}, get_batch_events", events),
    Question(f"event of a batch of {EVENTS:,}, to the client", events_by_the_client),
    Question(f"retry of an event, {RETRIED:,} of {EVENTS:,}", retries),
)
CONVERTED = "rows are stored before they are sent, and the transaction id is converted for clients"
GOALS = {
    QUESTIONS[0].name: Goal(
        2.0,
        why_missed="opening and finishing append two rows, which leave no dead rows, while PgQ updates one; "
        "ticks and events are in tables of the log, so two statements are parsed for each batch",
    ),
    QUESTIONS[2].name: Goal(2.0, why_missed=CONVERTED),
    QUESTIONS[3].name: Goal(2.0, why_missed=CONVERTED),
    QUESTIONS[4].name: Goal(50.0),
}
