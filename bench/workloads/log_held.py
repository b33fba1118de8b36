"""Slowdown of log consumption while another transaction holds a snapshot, or a transaction id, for ten minutes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.cpu import backend_cpu_s
from bench.goal import Goal
from bench.place import Place
from bench.systems.pgq import BIN_DIR, Pgq
from bench.systems.pgsluice import Pgsluice
from pgsluice.embedded import EmbeddedServer

__all__ = ["BIN_DIR"]

TITLE = "Batches opened and finished for each second of CPU time, under a transaction held for ten minutes"
UNIT = "batches a second of the backend's CPU time, in a minute"
SYSTEMS = [Pgsluice(), Pgq()]
REPEATS = 1
WARM_UP = False
SECONDS = 600
STRETCH_S = 60
BATCHES_A_SECOND = 40
EVENTS_A_BATCH = 25
ROTATION_S = 20
LOG = "held"
HELD = {
    "snapshot": "select from pgq.consumer",
    "id": "select from pgq.consumer where txid_current() is not null",
}


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        held: A key of `HELD`.
        stretch: Index of the minute: 0 first, 9 last.
    """

    name: str
    held: str
    stretch: int


QUESTIONS = tuple(
    Question(f"{held} held, {when} minute", held, stretch)
    for held in HELD
    for when, stretch in (("first", 0), ("last", SECONDS // STRETCH_S - 1))
)
GOALS = {
    question.name: Goal(
        1 / 1.2,
        of=question.name.replace("last", "first"),
    )
    for question in QUESTIONS
    if "last" in question.name
}
_runs: dict[tuple[str, str], list[float]] = {}


def measure(place: Place, question: Question) -> float:
    """Measure one question: the first for a held transaction performs the run, the other reads its end.

    Returns:
        Batches a second of processor time, of next_batch and finish_batch alone, in that minute.
    """
    key = (place.name, question.held)
    if key not in _runs:
        _runs[key] = run(place.connection, place.server, place.name, HELD[question.held])
    return _runs[key][question.stretch]


def run(
    connection: psycopg.Connection[Any], server: EmbeddedServer, name: str, held: str
) -> list[float]:
    """Produce, tick, consume and rotate at a fixed rate under the held transaction; print the sizes at the end."""
    create(connection)
    rates: list[float] = []
    with (
        psycopg.connect(server.url(connection.info.dbname)) as holder,
        psycopg.connect(server.url(connection.info.dbname), autocommit=True) as other,
    ):
        other.prepare_threshold = 1
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute(held)
        begin = time.monotonic()
        used, batches, rotated = backend_cpu_s(connection), 0, begin
        while len(rates) < SECONDS // STRETCH_S:
            produce_and_tick(other)
            consume(connection)
            batches += 1
            now = time.monotonic()
            if now - rotated > ROTATION_S / 4:
                maintain(other)
                rotated = now
            if now - begin >= STRETCH_S * (len(rates) + 1):
                rates.append(batches / (backend_cpu_s(connection) - used))
                used, batches = backend_cpu_s(connection), 0
            done = len(rates) * STRETCH_S * BATCHES_A_SECOND + batches
            time.sleep(max(0.0, begin + done / BATCHES_A_SECOND - time.monotonic()))
        print_sizes(connection, f"{SECONDS} s: {name}, {held}")
        holder.rollback()
    connection.execute("select pgq.drop_queue(%s, true)", [LOG])
    return rates


def create(connection: psycopg.Connection[Any]) -> None:
    connection.prepare_threshold = 1
    connection.execute("select pgq.create_queue(%s)", [LOG])
    connection.execute(
        """update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_max_count = 1,
               queue_rotation_period = make_interval(secs => %s)""",
        [ROTATION_S],
    )
    connection.execute("select pgq.register_consumer(%s, 'bench')", [LOG])


def produce_and_tick(session: psycopg.Connection[Any]) -> None:
    session.execute(
        "select count(pgq.insert_event(%s, 'type', repeat('x', 100))) from generate_series(1, %s)",
        [LOG, EVENTS_A_BATCH],
    )
    session.execute("select pgq.ticker(%s)", [LOG])


def consume(session: psycopg.Connection[Any]) -> None:
    ((batch_id,),) = session.execute("select pgq.next_batch(%s, 'bench')", [LOG]).fetchall()
    session.execute("select pgq.finish_batch(%s)", [batch_id])


def maintain(session: psycopg.Connection[Any]) -> None:
    for function, argument in session.execute("select * from pgq.maint_operations()").fetchall():
        if function.startswith("pgq.maint_"):
            arguments = "%s" if argument is not None else ""
            session.execute(f"select {function}({arguments})", [argument] if arguments else None)


def print_sizes(session: psycopg.Connection[Any], title: str) -> None:
    print(f"sizes after {title}")
    for table, size, dead in session.execute(
        """select c.relname, pg_size_pretty(pg_total_relation_size(c.oid)), coalesce(s.n_dead_tup, 0)
           from pg_class as c
           left join pg_stat_all_tables as s on s.relid = c.oid
           where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r' and pg_relation_size(c.oid) > 0
           order by c.relname"""
    ):
        print(f"  {table:24} {size:>10}  {dead:>8} dead rows")
