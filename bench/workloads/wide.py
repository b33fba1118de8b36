"""Growth of costs against the number of queues, logs, consumers, members, workers, keys, schedules and dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice
from bench.wide.costs import LINE, Dimension, Growth, Site, grown, without_autovacuum
from bench.wide.duties import idle
from bench.wide.groups import KEYS, MEMBERS
from bench.wide.logs import CONSUMERS, LOGS
from bench.wide.moments import DEAD_LETTERS, SCHEDULES
from bench.wide.queues import QUEUES
from bench.wide.workers import WORKERS, idle_workers, traffic

TITLE = (
    "Growth of costs with the size: of the steps of each dimension, CPU time of server and client per message, call or "
    "idle minute"
)
UNIT = "1 / (1 + the largest exponent above that of the expected growth)"
SYSTEMS = [Pgsluice()]
REPEATS = 1
WARM_UP = False
OPTIONS = {
    "queues_small": 100,
    "queues_middle": 1_000,
    "queues_large": 10_000,
    "logs_small": 30,
    "logs_middle": 200,
    "logs_large": 1_000,
    "consumers_small": 4,
    "consumers_middle": 20,
    "consumers_large": 100,
    "members_small": 20,
    "members_middle": 100,
    "members_large": 500,
    "workers_small": 50,
    "workers_middle": 250,
    "workers_large": 1_000,
    "keys_small": 1_000,
    "keys_middle": 10_000,
    "keys_large": 100_000,
    "schedules_small": 100,
    "schedules_middle": 300,
    "schedules_large": 1_000,
    "dead_letters_small": 100_000,
    "dead_letters_middle": 1_000_000,
    "dead_letters_large": 10_000_000,
    "wide_idle_seconds": 10,
}
# The catalogs of 10,000 queues or 1,000 logs take more than the default of 128 MB.
SERVER_OPTIONS = {"shared_buffers": "1GB"}
NOTES: list[str] = []
# The costs of each step by dimension, for the result file.
DETAILS: dict[str, list[dict[str, Any]]] = {}
DIMENSIONS = (QUEUES, LOGS, CONSUMERS, MEMBERS, WORKERS, KEYS, SCHEDULES, DEAD_LETTERS)


@dataclass(frozen=True)
class Question:
    """A dimension.

    Attributes:
        name: Label in the results table.
        dimension: What there is many of.
    """

    name: str
    dimension: Dimension


QUESTIONS = tuple(Question(dimension.name, dimension) for dimension in DIMENSIONS)
GOALS = {
    question.name: Goal(
        1 / LINE, of=None, unit="= a line", why_missed="the result file names the steps"
    )
    for question in QUESTIONS
}


def measure(place: Place, question: Question) -> float:
    """Measure a dimension in a database of its own."""
    dimension, found = question.dimension, list[Growth]()
    with site_of(place, question.name.replace(" ", "_")) as site:
        for found in grown(site, with_idle(dimension), [OPTIONS[size] for size in dimension.sizes]):
            DETAILS[question.name] = [growth.record() for growth in found]
            place.save()
        NOTES.extend(f"{question.name}: {note}" for note in site.notes)
    print(lines(found))
    return 1 / (1 + max(0.0, *(above(growth) for growth in found)))


def above(growth: Growth) -> float:
    """Return by how much the last exponent of a step exceeds that of the expected growth."""
    exponents = growth.exponents("cpu_ms")
    return exponents[-1] - growth.growth if exponents else 0.0


def with_idle(dimension: Dimension) -> Dimension:
    """Return a dimension with the steps of an idle minute."""
    seconds = OPTIONS["wide_idle_seconds"]
    more = [idle(seconds)]
    if dimension is WORKERS:
        more += [idle_workers(seconds), traffic()]
    return Dimension(dimension.name, dimension.sizes, dimension.grow, (*dimension.steps, *more))


@contextmanager
def site_of(place: Place, name: str) -> Iterator[Site]:
    """Create a database; no other session writes to it, so autovacuum would only change the figures."""
    place.connection.execute(f"create database wide_{name}")
    url = place.server.url(f"wide_{name}")
    try:
        with (
            without_autovacuum(place.connection),
            psycopg.connect(url, autocommit=True) as connection,
        ):
            Pgsluice().install(connection)
            yield Site(place.server, url, connection, place.connection)
    finally:
        place.connection.execute(f"drop database wide_{name} with (force)")


def lines(found: list[Growth]) -> str:
    """Format costs, exponents and verdicts as a table."""
    rows = [("step", "unit", "CPU ms by size", "exponents", "transactions", "verdict")]
    for growth in found:
        costs = [growth.costs[size] for size in sorted(growth.costs)]
        rows.append(
            (
                growth.step,
                growth.unit,
                _joined(cost.cpu_ms for cost in costs),
                " ".join(f"{exponent:.2f}" for exponent in growth.exponents("cpu_ms")),
                _joined(cost.transactions for cost in costs),
                growth.verdict("cpu_ms"),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _joined(numbers: Iterable[float]) -> str:
    return " ".join(f"{number:,.2f}" for number in numbers)
