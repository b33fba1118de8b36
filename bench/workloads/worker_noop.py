"""Throughput and cost per message of a worker with a no-op handler."""

from __future__ import annotations

import asyncio
import contextlib
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.goal import Goal
from bench.place import Place
from bench.systems.worker import GroupWorker
from bench.systems.workers import SYSTEMS as MAKE
from bench.systems.workers import worker_systems
from bench.working import Child, Cost, Working

TITLE = "Messages completed by a worker, one process, no-op handler"
UNIT = "messages; 1 / seconds for p50 and p99"
REPEATS = 3
WARM_UP = False  # each run is long, and starts with a new database
OPTIONS = {
    "noop_messages": 100_000,
    "worker_concurrency": 50,
    "steady_messages": 2_000,
    "steady_per_s": 200,
}
NOTES = [
    "a second: all messages are in the queue at the start; until the worker has acknowledged all and stopped",
    "a slower system completes a part of the messages, so that each runs for a similar time",
    "p50, p99: from before a message is sent, in its own transaction, until its handler is done, at a fixed rate",
    "work queue, share group: `pgsluice maintain` runs alongside the worker, and its commits count",
    "pgqueuer: as in its own benchmark: asyncpg, uvloop, five consumers per process, ten jobs per fetch",
    "procrastinate: five workers per process share a pool, finished jobs are deleted",
    "loop: one message at a time, written by hand with psycopg; the lower bound of the latencies",
    "awa: Python handlers, Rust runtime, and its queue storage",
]
PAYLOAD = "x" * 100
PART_OF_MESSAGES = {"pgqueuer": 1 / 4, "awa": 1 / 10, "procrastinate": 1 / 20, "loop": 1 / 50}
SYSTEMS = worker_systems()
# Without the peer there is no comparison.
INSTALLED = {system.name for system in SYSTEMS}


@dataclass(frozen=True)
class Question:
    """Measured question.

    Attributes:
        name: Label in the results table.
        of: Key in the result of `run`.
    """

    name: str
    of: str


QUESTIONS = (
    Question("completed a second", "a second"),
    Question("the same, compared with procrastinate", "a second"),
    Question("the same, compared with awa", "a second"),
    Question("completed per commit", "commit"),
    Question("completed per megabyte of WAL", "megabyte"),
    Question("p50 sent to done", "p50"),
    Question("p99 sent to done", "p99"),
    Question("p50 sent to done, share group", "p50"),
    Question("p99 sent to done, share group", "p99"),
)
PYTHON = "the worker's process saturates a core"
TRIPS = "a notification, a claim, and a transaction of the acknowledgement precede each other"
RECEIPTS = "a notification, a claim, its receipt, and the acknowledgement precede each other"
GOALS = {
    QUESTIONS[number].name: Goal(least, peer=peer, why_missed=PYTHON)
    for number, least, peer in ((0, 6, "pgqueuer"), (1, 60, "procrastinate"), (2, 15, "awa"))
    if peer in INSTALLED
} | {
    QUESTIONS[5].name: Goal.at_most_ms(2, why_missed=TRIPS),
    QUESTIONS[6].name: Goal.at_most_ms(6, why_missed=TRIPS),
    QUESTIONS[7].name: Goal.at_most_ms(3, why_missed=RECEIPTS, ours=GroupWorker.name),
    QUESTIONS[8].name: Goal.at_most_ms(8, why_missed=RECEIPTS, ours=GroupWorker.name),
}
_unread: dict[str, dict[str, float]] = {}


def measure(place: Place, question: Question) -> float:
    """Measure one question; each run answers all questions once.

    Returns:
        The measured value; higher is better.
    """
    if question.name not in _unread.get(place.name, {}):
        found = run(place, MAKE[place.name]())
        _unread[place.name] = {each.name: found[each.of] for each in QUESTIONS}
    return _unread[place.name].pop(question.name)


def run(place: Place, system: Working) -> dict[str, float]:
    """Complete a backlog, then messages at a fixed rate."""
    messages = round(OPTIONS["noop_messages"] * PART_OF_MESSAGES.get(system.name, 1))
    steady = OPTIONS["steady_messages"]
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
        f"{1e6 / found['megabyte']:,.0f} bytes of WAL per message, sent to done p50 {1000 / found['p50']:.1f} ms, "
        f"p99 {1000 / found['p99']:.1f} ms"
    )
    return found


@contextlib.contextmanager
def new_database(
    place: Place, system: Working, name: str = "bench_worker"
) -> Iterator[psycopg.Connection[Any]]:
    """Create a new database with the system installed, and drop it afterwards."""
    place.connection.execute(f"create database {name}")
    try:
        with psycopg.connect(place.server.url(name), autocommit=True) as connection:
            system.install(connection)
            yield connection
    finally:
        place.connection.execute(f"drop database {name} with (force)")


def served(system: Working, url: str, concurrency: int, messages: int, per_s: float) -> list[float]:
    """Send at a fixed rate to an idle worker; return seconds from each send until its handler is done."""
    numbers = {"messages": messages, "concurrency": concurrency}
    with (
        Child("serve", system.name, url, **numbers) as worker,
        Child("send", system.name, url, messages=messages, per_s=per_s) as sender,
    ):
        worker.go()
        sender.go()
        # A lower rate than intended means that the machine was too busy for meaningful latencies.
        print(f"  {system.name}: sent {sender.answer():.0f} a second")
        latencies: list[float] = worker.answer()
    # The worker connects in the first second, and finds messages that waited for it.
    return latencies[max(messages // 10, math.ceil(per_s)) :]


def percentile(latencies: list[float], percent: int) -> float:
    """Return a percentile of the latencies in seconds."""
    return statistics.quantiles(latencies, n=100)[percent - 1]
