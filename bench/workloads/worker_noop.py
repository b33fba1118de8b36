"""How many messages a second does a worker with a handler that does nothing complete, and what does each cost?"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.goal import Goal
from bench.place import Place
from bench.systems.workers import SYSTEMS as MAKE
from bench.systems.workers import worker_systems
from bench.working import Child, Cost, Working

TITLE = "Messages that a worker completes, one process, a handler that does nothing"
UNIT = "messages; 1 / seconds for p50 and p99"
REPEATS = 3
WARM_UP = False  # each run is long, and begins with a new database
OPTIONS = {
    "noop_messages": 100_000,
    "worker_concurrency": 50,
    "steady_messages": 2_000,
    "steady_per_s": 200,
}
NOTES = [
    "a second: all messages wait when the worker begins; until it has acknowledged all and stopped",
    "p50, p99: from before a message is sent, in a transaction of its own, until its handler is done, at a steady pace",
    "work queue, share group: the processes of `pgsluice maintain` run beside the worker, and their commits count",
    "pgqueuer: as its own benchmark has it: asyncpg, uvloop, five consumers in the process, ten jobs a fetch",
    "procrastinate: five workers in the process share a pool, jobs are deleted when they are done",
    "awa: its handlers are Python's, its runtime is Rust's, and its queue storage is used",
]
PAYLOAD = "x" * 100
SYSTEMS = worker_systems()
# A peer that is not installed is no measure.
INSTALLED = {system.name for system in SYSTEMS}


@dataclass(frozen=True)
class Question:
    """One thing that is measured.

    Attributes:
        name: What the table of results calls it.
        of: A key of what `run` returns.
    """

    name: str
    of: str


QUESTIONS = (
    Question("completed a second", "a second"),
    Question("the same, beside procrastinate", "a second"),
    Question("completed for each commit", "commit"),
    Question("completed for each megabyte of WAL", "megabyte"),
    Question("p50 sent to done", "p50"),
    Question("p99 sent to done", "p99"),
)
GOALS = {
    QUESTIONS[number].name: Goal(least, peer=peer)
    for number, least, peer in ((0, 1.5, "pgqueuer"), (1, 5, "procrastinate"))
    if peer in INSTALLED
}
_runs: dict[str, dict[str, float]] = {}


def measure(place: Place, question: Question) -> float:
    """Ask one question: the first one does the run, the others look at what was measured.

    Returns:
        More is better.
    """
    if question == QUESTIONS[0]:
        _runs[place.name] = run(place, MAKE[place.name]())
    return _runs[place.name][question.of]


def run(place: Place, system: Working) -> dict[str, float]:
    """Complete all that waits; then what comes at a steady pace."""
    messages, steady = OPTIONS["noop_messages"], OPTIONS["steady_messages"]
    concurrency = OPTIONS["worker_concurrency"]
    with new_database(place, system) as connection:
        url = place.server.url(connection.info.dbname)
        asyncio.run(system.fill(url, PAYLOAD, messages))
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")
        with system.beside(url):
            with Child("drain", system.name, url, messages=messages, concurrency=concurrency) as it:
                before = Cost.of(connection)
                it.go()
                seconds = it.answer()
                after = Cost.of(connection)
            latencies = served(system, url, concurrency, steady, OPTIONS["steady_per_s"])
    found = {
        "a second": messages / seconds,
        "commit": messages / max(after.commits - before.commits, 1),
        "megabyte": messages * 1e6 / (after.wal_bytes - before.wal_bytes),
        "p50": 1 / percentile(latencies, 50),
        "p99": 1 / percentile(latencies, 99),
    }
    print(
        f"  {system.name}: {found['a second']:,.0f} a second, {1 / found['commit']:.3f} commits and "
        f"{1e6 / found['megabyte']:,.0f} bytes of WAL a message, sent to done p50 {1000 / found['p50']:.1f} ms, "
        f"p99 {1000 / found['p99']:.1f} ms"
    )
    return found


@contextlib.contextmanager
def new_database(place: Place, system: Working) -> Iterator[psycopg.Connection[Any]]:
    """One with the system, of which nothing is left of another run."""
    name = "bench_worker"
    place.connection.execute(f"create database {name}")
    try:
        with psycopg.connect(place.server.url(name), autocommit=True) as connection:
            system.install(connection)
            yield connection
    finally:
        place.connection.execute(f"drop database {name} with (force)")


def served(system: Working, url: str, concurrency: int, messages: int, per_s: float) -> list[float]:
    """Send at a steady pace to a worker that was idle; seconds from each send until its handler."""
    numbers = {"messages": messages, "concurrency": concurrency}
    with (
        Child("serve", system.name, url, **numbers) as worker,
        Child("send", system.name, url, messages=messages, per_s=per_s) as sender,
    ):
        worker.go()
        sender.go()
        # Less than was meant: then the machine was too busy for the latencies to say much.
        print(f"  {system.name}: sent {sender.answer():.0f} a second")
        latencies: list[float] = worker.answer()
    return latencies[messages // 10 :]  # the first are of a worker that has just begun


def percentile(latencies: list[float], percent: int) -> float:
    """Of the latencies, seconds."""
    return statistics.quantiles(latencies, n=100)[percent - 1]
