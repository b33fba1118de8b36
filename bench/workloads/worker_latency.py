"""Start latency of an idle worker, and its statements while idle."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.goal import Goal
from bench.place import Place
from bench.statements import logged
from bench.systems.loop import Loop
from bench.systems.pgqueuer import Pgqueuer
from bench.systems.worker import GroupWorker
from bench.systems.workers import SYSTEMS as MAKE
from bench.systems.workers import worker_systems
from bench.working import Child, Working
from bench.workloads.worker_noop import TRIPS, new_database, percentile, served

TITLE = (
    "Inverse latency from send to start on an idle worker; minutes of an idle worker per statement"
)
UNIT = "1 / latency in seconds; minutes per statement"
REPEATS = 3
WARM_UP = False
OPTIONS = {"idle_messages": 200, "idle_per_s": 4, "idle_seconds": 120}
NOTES = [
    "p50, p99: from before a message is sent, in its own transaction, until its handler starts, at a fixed rate",
    "statements: of all sessions of the worker's process except the listener, from the server log",
]
CONCURRENCY = 10
LISTENER, MAINTENANCE = "pgsluice listener", "pgsluice maintenance"
SYSTEMS = worker_systems()


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
    Question("p50 sent to started", "p50"),
    Question("p99 sent to started", "p99"),
    Question("p50 sent to started, to the loop", "p50"),
    Question("p99 sent to started, to the loop", "p99"),
    Question("p50 sent to started, to pgqueuer", "p50"),
    Question("p99 sent to started, to pgqueuer", "p99"),
    Question("p50 sent to started, share group", "p50"),
    Question("p99 sent to started, share group", "p99"),
    Question("minutes idle per statement", "idle"),
)
LOOP = Loop.name
PROCESSES = (
    "the notifier lies between a commit and its notification, and a claim does more than an UPDATE"
)
TICKS = "a tick, its notification, a claim and its receipt precede each other"
GOALS = {
    QUESTIONS[0].name: Goal.at_most_ms(2, why_missed=TRIPS),
    QUESTIONS[1].name: Goal.at_most_ms(6, why_missed=TRIPS),
    QUESTIONS[2].name: Goal(1 / 1.3, peer=LOOP, why_missed=PROCESSES),
    QUESTIONS[3].name: Goal(1 / 1.5, peer=LOOP, why_missed=PROCESSES),
    QUESTIONS[6].name: Goal(1 / 1.5, peer=LOOP, why_missed=TICKS, ours=GroupWorker.name),
    QUESTIONS[7].name: Goal(1 / 2, peer=LOOP, why_missed=TICKS, ours=GroupWorker.name),
    QUESTIONS[8].name: Goal(1 / 2, of=None, unit="minutes"),
}
if Pgqueuer.name in {system.name for system in SYSTEMS}:
    GOALS |= {
        question.name: Goal(1, peer=Pgqueuer.name, why_missed=PROCESSES)
        for question in QUESTIONS[4:6]
    }
_unread: dict[str, dict[str, float]] = {}


def measure(place: Place, question: Question) -> float:
    """Measure one question; each run answers all questions of latency once.

    Returns:
        The measured value; higher is better.
    """
    system = MAKE[place.name]()
    if question.of == "idle":
        return idle_minutes(place, system)
    if question.name not in _unread.get(place.name, {}):
        found = run(place, system)
        _unread[place.name] = {each.name: found[each.of] for each in QUESTIONS if each.of in found}
    return _unread[place.name].pop(question.name)


def run(place: Place, system: Working) -> dict[str, float]:
    """Send single messages to an idle worker."""
    with new_database(place, system) as connection:
        url = place.server.url(connection.info.dbname)
        with system.beside(url):
            latencies = served(
                system, url, CONCURRENCY, OPTIONS["idle_messages"], OPTIONS["idle_per_s"]
            )
    print(
        f"  {system.name}: sent to started p50 {percentile(latencies, 50) * 1000:.1f} ms, p99 "
        f"{percentile(latencies, 99) * 1000:.1f} ms"
    )
    return {"p50": 1 / percentile(latencies, 50), "p99": 1 / percentile(latencies, 99)}


def idle_minutes(place: Place, system: Working) -> float:
    """Send nothing to a worker; return its minutes per statement."""
    with new_database(place, system) as connection:
        url = place.server.url(connection.info.dbname)
        with system.beside(url):
            per_minute, listening = idle(place, connection, system, url)
    print(
        f"  {system.name}: {per_minute:.1f} statements a minute, and {listening:.1f} of the listener"
    )
    # No statement at all counts as less than one.
    return 1 / max(per_minute, 60 / OPTIONS["idle_seconds"])


def idle(
    place: Place, connection: psycopg.Connection[Any], system: Working, url: str
) -> tuple[float, float]:
    """Leave a worker idle; return statements per minute of its sessions, and of its listener."""
    others = sessions(connection)
    with (
        logged(place) as since,
        Child("serve", system.name, url, messages=1, concurrency=CONCURRENCY) as worker,
    ):
        worker.go()
        time.sleep(10)  # it has started by now
        since()
        own = sessions(connection) - others
        time.sleep(OPTIONS["idle_seconds"])
        own |= sessions(connection) - others
        # Maintenance may open its sessions after `others` was read.
        statements = [
            one.application_name
            for one in since()
            if one.pid in own and one.application_name != MAINTENANCE
        ]
    listening = statements.count(LISTENER)
    minutes = OPTIONS["idle_seconds"] / 60
    return (len(statements) - listening) / minutes, listening / minutes


def sessions(connection: psycopg.Connection[Any]) -> set[int]:
    """Return the process ids of this database's sessions."""
    found = connection.execute(
        "select pid from pg_stat_activity where datname = current_database()"
    ).fetchall()
    return {pid for (pid,) in found}
