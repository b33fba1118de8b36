"""Consumption of a log before, while and after another transaction holds a snapshot: the blocked horizon of PgQue."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
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
OPTIONS = {"horizon_phase_s": 120, "horizon_turn_s": 5}
NOTES = [
    "a batch: 25 events, produced and ticked 40 times a second; its events are read and it is finished",
    "the systems take turns of 5 s, each followed by its maintenance, which so delays no batch",
    "the snapshot is held for as many times the phase as there are systems",
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
    """Measure one question: the first performs the run of all systems, the others read it.

    Returns:
        The measured value; higher is better.
    """
    if place.name not in _runs or question.of not in _runs[place.name][question.phase]:
        _runs.update(run(place.places))
    return _runs[place.name][question.phase].pop(question.of)


def run(places: Mapping[str, Place]) -> dict[str, dict[str, dict[str, float]]]:
    """Produce, tick, consume and rotate at a fixed rate in three phases, the systems in turns; print each."""
    found: dict[str, dict[str, dict[str, float]]] = {name: {} for name in places}
    with ExitStack() as sessions:
        systems = [sessions.enter_context(steady(place)) for place in places.values()]
        for phase in PHASES:
            with ExitStack() as snapshots:
                if phase == "held":
                    for system in systems:
                        snapshots.enter_context(snapshot(system.url))
                take_turns(systems)
                for system in systems:
                    print_sizes(
                        system.place.connection, f"the phase {phase!r}: {system.place.name}"
                    )
                    found[system.place.name][phase] = system.end_phase(phase)
    return found


def take_turns(systems: Sequence[Steady]) -> None:
    """Run a phase of all systems, so that a slow time of the machine affects all."""
    turns = max(2, OPTIONS["horizon_phase_s"] // OPTIONS["horizon_turn_s"])
    batches = OPTIONS["horizon_phase_s"] * BATCHES_A_SECOND // turns
    for turn in range(turns):
        first = turn % len(systems)
        for system in [*systems[first:], *systems[:first]]:
            system.take_turn(batches, is_measured=turn >= turns // 2)


@dataclass
class Steady:
    """A system with a steady producer and consumer.

    Attributes:
        place: Its database, whose session consumes.
        other: The session that produces, ticks and rotates.
        url: Connection string of the database.
    """

    place: Place
    other: psycopg.Connection[Any]
    url: str
    _latencies: list[float] = field(default_factory=list)
    _maintenance_s: list[float] = field(default_factory=list)
    _batches: int = 0
    _cpu_s: float = 0.0

    def take_turn(self, batches: int, *, is_measured: bool) -> None:
        """Produce and consume batches at their times; measure the CPU time if asked to. Then rotate."""
        used = backend_cpu_s(self.place.connection)
        begin = time.monotonic()
        for number in range(batches):
            due = begin + number / BATCHES_A_SECOND
            time.sleep(max(0.0, due - time.monotonic()))
            produce_and_tick(self.other)
            consume(self.place.connection)
            self._latencies.append(time.monotonic() - due)
        if is_measured:
            self._batches += batches
            self._cpu_s += backend_cpu_s(self.place.connection) - used
        begin = time.monotonic()
        maintain(self.other)
        self._maintenance_s.append(time.monotonic() - begin)

    def end_phase(self, phase: str) -> dict[str, float]:
        """Print and return the rate, inverse latencies and inverse dead rows of the phase; begin the next."""
        ((dead,),) = self.place.connection.execute(
            "select coalesce(sum(n_dead_tup), 0) from pg_stat_all_tables where schemaname = 'pgq'"
        ).fetchall()
        percentiles = statistics.quantiles(self._latencies, n=100)
        cpu = self._batches / self._cpu_s
        print(
            f"  {self.place.name}, {phase}: {cpu:,.0f} batches per second of CPU, p50 {1000 * percentiles[49]:.1f} ms, "
            f"p99 {1000 * percentiles[98]:.1f} ms, {dead:,} dead rows, maintenance "
            f"{1000 * statistics.median(self._maintenance_s):.0f} ms"
        )
        self._latencies, self._maintenance_s, self._batches, self._cpu_s = [], [], 0, 0.0
        return {
            "cpu": cpu,
            "p50": 1 / percentiles[49],
            "p99": 1 / percentiles[98],
            "dead": 1000 / (1 + int(dead)),
        }


@contextmanager
def steady(place: Place) -> Iterator[Steady]:
    """Create the log for the block."""
    create(place.connection)
    url = place.server.url(place.connection.info.dbname)
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as other:
        yield Steady(place, other, url)
    place.connection.execute("select pgq.drop_queue(%s, true)", [LOG])


@contextmanager
def snapshot(url: str) -> Iterator[None]:
    """Hold a snapshot in another session for the block."""
    with psycopg.connect(url) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("select from pgq.consumer")
        yield
        holder.rollback()


def consume(session: psycopg.Connection[Any]) -> None:
    """Open the next batch, read its events, and finish it."""
    ((batch_id,),) = session.execute("select pgq.next_batch(%s, 'bench')", [LOG]).fetchall()
    session.execute("select ev_id, ev_data from pgq.get_batch_events(%s)", [batch_id]).fetchall()
    session.execute("select pgq.finish_batch(%s)", [batch_id])
