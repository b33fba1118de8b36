"""Consumption of a log before, while and after another transaction holds a snapshot: the blocked horizon of PgQue."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.cpu import backend_cpu_s
from bench.goal import Goal
from bench.place import Place
from bench.systems.pgq import BIN_DIR, Pgq
from bench.systems.pgsluice import Pgsluice
from bench.workloads.log_held import (
    BATCHES_A_SECOND,
    LOG,
    ROTATION_S,
    create,
    maintain,
    print_sizes,
    produce_and_tick,
)

__all__ = ["BIN_DIR"]

TITLE = "A log with a steady producer and consumer, before, while and after a snapshot is held"
UNIT = "batches a second of the backend's CPU time; 1 / latency in seconds; 1,000 / (dead rows + 1)"
SYSTEMS = [Pgsluice(), Pgq()]
REPEATS = 1
WARM_UP = False
OPTIONS = {"horizon_phase_s": 120}
NOTES = [
    "a batch: 25 events, produced and ticked 40 times a second; its events are read and it is finished",
    "CPU: of next_batch, get_batch_events and finish_batch, in the last half of the phase",
    "latency: from the time at which a batch was to be produced until it is finished, so waits in a queue count",
    "dead rows: of all tables of the schema, from the server's statistics, at the end of the phase",
]
PHASES = ("before", "held", "released")
KINDS = {
    "batches a second of CPU": "cpu",
    "p50 produced to finished": "p50",
    "p99 produced to finished": "p99",
    "dead rows": "dead",
}


@dataclass(frozen=True)
class Question:
    """Measured question.

    Attributes:
        name: Label in the results table.
        phase: One of `PHASES`.
        of: Key in the result of the phase.
        is_once: Measured once per run, as a run takes minutes.
    """

    name: str
    phase: str
    of: str
    is_once: bool = True


QUESTIONS = tuple(
    Question(f"{kind}, {phase}", phase, of) for kind, of in KINDS.items() for phase in PHASES
)
GOALS = {
    question.name: Goal(1 / 1.2, of=question.name.replace(question.phase, PHASES[0]))
    for question in QUESTIONS
    if question.of == "cpu" and question.phase != PHASES[0]
}
_runs: dict[str, dict[str, dict[str, float]]] = {}


def measure(place: Place, question: Question) -> float:
    """Measure one question: the first performs the run, the others read it.

    Returns:
        The measured value; higher is better.
    """
    if place.name not in _runs or question.of not in _runs[place.name][question.phase]:
        _runs[place.name] = run(place)
    return _runs[place.name][question.phase].pop(question.of)


def run(place: Place) -> dict[str, dict[str, float]]:
    """Produce, tick, consume and rotate at a fixed rate in three phases; print each."""
    create(place.connection)
    url = place.server.url(place.connection.info.dbname)
    found = {}
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as other:
        for phase in PHASES:
            with snapshot(url, is_held=phase == "held"):
                found[phase] = steady(place.connection, other)
                print_sizes(place.connection, f"the phase {phase!r}: {place.name}")
            print(
                f"  {place.name}, {phase}: {found[phase]['cpu']:,.0f} batches per second of CPU, p50 "
                f"{1000 / found[phase]['p50']:.1f} ms, p99 {1000 / found[phase]['p99']:.1f} ms, "
                f"{1000 / found[phase]['dead'] - 1:,.0f} dead rows"
            )
    place.connection.execute("select pgq.drop_queue(%s, true)", [LOG])
    return found


@contextmanager
def snapshot(url: str, *, is_held: bool) -> Iterator[None]:
    """Hold a snapshot in another session for the block."""
    if not is_held:
        yield
        return
    with psycopg.connect(url) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("select from pgq.consumer")
        yield
        holder.rollback()


def steady(connection: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> dict[str, float]:
    """Run one phase; return its rate, inverse latencies, and inverse dead rows."""
    seconds = OPTIONS["horizon_phase_s"]
    batches = seconds * BATCHES_A_SECOND
    latencies: list[float] = []
    begin = rotated = time.monotonic()
    used = 0.0
    for number in range(batches):
        due = begin + number / BATCHES_A_SECOND
        time.sleep(max(0.0, due - time.monotonic()))
        if number == batches // 2:
            used = backend_cpu_s(connection)
        produce_and_tick(other)
        consume(connection)
        latencies.append(time.monotonic() - due)
        if time.monotonic() - rotated > ROTATION_S / 4:
            maintain(other)
            rotated = time.monotonic()
    cpu_s = backend_cpu_s(connection) - used
    ((dead,),) = connection.execute(
        "select coalesce(sum(n_dead_tup), 0) from pg_stat_all_tables where schemaname = 'pgq'"
    ).fetchall()
    percentiles = statistics.quantiles(latencies, n=100)
    return {
        "cpu": (batches - batches // 2) / cpu_s,
        "p50": 1 / percentiles[49],
        "p99": 1 / percentiles[98],
        "dead": 1000 / (1 + int(dead)),
    }


def consume(session: psycopg.Connection[Any]) -> None:
    """Open the next batch, read its events, and finish it."""
    ((batch_id,),) = session.execute("select pgq.next_batch(%s, 'bench')", [LOG]).fetchall()
    session.execute("select ev_id, ev_data from pgq.get_batch_events(%s)", [batch_id]).fetchall()
    session.execute("select pgq.finish_batch(%s)", [batch_id])
