"""Slowdown of share groups under steady load while another transaction holds a snapshot for ten minutes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import psycopg

from bench.competing import NAME, Competing, competing
from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice

TITLE = "Two clients that send, claim and acknowledge at 60 % of their maximum, under one REPEATABLE READ snapshot"
UNIT = "messages a second, and 1 / p99 in seconds, of a minute"
REPEATS = 1
WARM_UP = False
OPTIONS = {"seconds": 600}
STRETCH_S = 60
CLIENTS = 2
QTY = 10
LOAD = 0.6
CALIBRATION_S = 10
ROTATION_S = 20
COMMAND = "from pgsluice.cli.main import main; main()"
MEASURES = ("completed messages", "p99 of claim")


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        measure: One of `MEASURES`.
        stretch: "first" or "last" minute.
        name: Label in the results table.
    """

    measure: str
    stretch: str
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.measure}, {self.stretch} minute")


QUESTIONS = tuple(
    Question(measure, stretch) for measure in MEASURES for stretch in ("first", "last")
)
GOALS = {
    QUESTIONS[1].name: Goal(0.95, of=QUESTIONS[0].name),
    QUESTIONS[3].name: Goal(1 / 1.5, of=QUESTIONS[2].name),
}
NOTES: list[str] = []


@dataclass(frozen=True)
class Cycle:
    """Round of a client.

    Attributes:
        at: End time, `time.monotonic`.
        completed: Acknowledged messages.
        claim_s: Duration of the claim in seconds.
    """

    at: float
    completed: int
    claim_s: float


_runs: dict[str, dict[str, list[Cycle]]] = {}


def measure(place: Place, question: Question) -> float:
    """Measure one question: the first performs the run, the others read its first and last minute.

    Returns:
        Messages a second, or one divided by the p99 of claims, seconds.
    """
    if place.name not in _runs:
        _runs[place.name] = run(place)
    cycles = _runs[place.name][question.stretch]
    if question.measure == MEASURES[0]:
        return sum(cycle.completed for cycle in cycles) / stretch_s()
    return 1 / statistics.quantiles([cycle.claim_s for cycle in cycles], n=100)[98]


def stretch_s() -> float:
    return min(STRETCH_S, OPTIONS["seconds"] / 2)


def run(place: Place) -> dict[str, list[Cycle]]:
    """Find the maximum rate, then run at a fraction of it under the snapshot, and record table sizes."""
    session, messages = place.connection, competing(place.name)
    url = place.server.url(session.info.dbname)
    messages.create(session)
    with ExitStack() as stack:
        if place.name == Pgsluice().name:
            session.execute(
                "update pgq.queue set queue_rotation_period = make_interval(secs => %s) where queue_name = %s",
                [ROTATION_S, NAME],
            )
            maintain = subprocess.Popen([sys.executable, "-c", COMMAND, "maintain", "--dsn", url])
            stack.callback(maintain.wait)
            stack.callback(maintain.terminate)
        fastest = len(work(url, messages, CALIBRATION_S, None)) / CALIBRATION_S
        holder = stack.enter_context(psycopg.connect(url))
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("select from pg_class limit 1")
        first = work(url, messages, stretch_s(), LOAD * fastest)
        before = sizes(session, messages)
        rest = work(url, messages, OPTIONS["seconds"] - stretch_s(), LOAD * fastest)
        note(place.name, LOAD * fastest, before, sizes(session, messages))
        holder.rollback()
    messages.drop(session)
    return {"first": first, "last": [c for c in rest if c.at > rest[-1].at - stretch_s()]}


def work(
    url: str, messages: Competing, seconds: float, cycles_a_second: float | None
) -> list[Cycle]:
    """Run all clients; return their rounds in order of end time."""
    begin = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as clients:
        pause_s = CLIENTS / cycles_a_second if cycles_a_second else 0.0
        running = [
            clients.submit(
                client, url, messages, begin + number * pause_s / CLIENTS, begin + seconds, pause_s
            )
            for number in range(CLIENTS)
        ]
        cycles = [cycle for one in running for cycle in one.result()]
    return sorted(cycles, key=lambda cycle: cycle.at)


def client(url: str, messages: Competing, begin: float, end: float, pause_s: float) -> list[Cycle]:
    """Send, claim and acknowledge; a claim may take twice the batch, to consume the other client's backlog."""
    cycles: list[Cycle] = []
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as session:
        while (now := time.monotonic()) < end:
            if (due := begin + len(cycles) * pause_s) > now:
                time.sleep(due - now)
            messages.send(session, QTY)
            before = time.monotonic()
            claimed, found = messages.claim(session, 2 * QTY)
            took_s = time.monotonic() - before
            if found:
                messages.complete(session, claimed)
            cycles.append(Cycle(time.monotonic(), found, took_s))
    return cycles


def sizes(session: psycopg.Connection[Any], messages: Competing) -> dict[str, tuple[int, int]]:
    """Return table → bytes with indexes, dead rows; for nonempty tables."""
    session.execute("select pg_stat_clear_snapshot()")
    return {
        name: (size, dead)
        for name, size, dead in session.execute(
            """select c.oid::regclass::text, pg_total_relation_size(c.oid), coalesce(s.n_dead_tup, 0)
               from pg_class as c
               left join pg_stat_all_tables as s on s.relid = c.oid
               where c.relnamespace = any (%s::regnamespace[]) and c.relkind = 'r' and pg_relation_size(c.oid) > 0
               order by 1""",
            [list(messages.schemas)],
        )
    }


def note(
    name: str,
    cycles_a_second: float,
    first: dict[str, tuple[int, int]],
    last: dict[str, tuple[int, int]],
) -> None:
    """Print and keep the sizes after the first minute and at the end."""
    lines = [
        f"{name}, {cycles_a_second * QTY:,.0f} messages a second; kB, dead rows: after the first minute, at the end"
    ]
    for table in sorted(first | last):
        (size, dead), (size_last, dead_last) = first.get(table, (0, 0)), last.get(table, (0, 0))
        lines.append(
            f"  {table:32} {size // 1024:>9,} {dead:>9,}   {size_last // 1024:>9,} {dead_last:>9,}"
        )
    NOTES.extend(lines)
    print("\n".join(lines))
