"""Costs of a step at several sizes, and their growth: log(cost2 / cost1) / log(size2 / size1)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import psycopg

from bench.cpu import server_cpu_s
from bench.wide.rows import rows_counted
from pgsluice.embedded import EmbeddedServer

IDLE = "pgsluice maintain, idle"  # name of the step
LINE = 1.1  # a larger exponent is a curve
FLAT = 0.15  # of a cost that must not depend on the size
# Costs below these are the same: of a call without work, and of a step more of a few indexes.
FLOORS = {"cpu_ms": 0.1, "wall_ms": 0.1, "transactions": 1.0, "blocks": 20.0, "rows": 100.0}
_GONE_S = 30.0


@dataclass(frozen=True)
class Cost:
    """Cost of a unit of a step.

    Attributes:
        cpu_ms: CPU time of the server and of this process, in milliseconds.
        wall_ms: Wall-clock time in milliseconds.
        transactions: Transactions of the database.
        blocks: Blocks that its sessions read, in shared buffers or not.
        rows: Rows of the plans of its queries, of a step that only reads; counted by `exact_cost_of` only.
        locks: The most locks of a transaction of it, likewise.
    """

    cpu_ms: float
    wall_ms: float
    transactions: float
    blocks: float
    rows: float = 0.0
    locks: float = 0.0


@dataclass
class Site:
    """Database that is measured.

    Attributes:
        server: Its server, for CPU time; without processes of other benchmarks.
        url: Connection string of the database.
        connection: Connection in autocommit mode, idle while a step is measured.
        observer: The same to another database of the server, for figures of this one.
        notes: Findings other than costs.
    """

    server: EmbeddedServer
    url: str
    connection: psycopg.Connection[Any]
    observer: psycopg.Connection[Any]
    notes: list[str] = field(default_factory=list)

    def execute(self, query: Any, parameters: Sequence[Any] | None = None) -> psycopg.Cursor[Any]:
        """Run a statement."""
        return self.connection.execute(query, parameters)

    def note(self, text: str) -> None:
        """Print and keep a finding."""
        if text not in self.notes:
            self.notes.append(text)
            print(f"  note: {text}", flush=True)


Call = Callable[[], int | None]


@dataclass(frozen=True)
class Step:
    """Measured step of a dimension.

    Attributes:
        name: Label in the results.
        unit: Unit of its cost: message, call, or idle minute.
        opened: Opens sessions of its own and yields a function that does the work, and returns the number of units.
        growth: Exponent of the expected growth: 0 for a cost that must not depend on the size, 1 for a line.
        calls: Number of calls measured, after one that is not.
        is_counted: False if its statements depend on time, so that a count of blocks is not repeatable.
        is_read: True if its queries write nothing, so that they can run twice.
        seconds: Duration of a call, if the unit is an idle minute.
    """

    name: str
    unit: str
    opened: Callable[[Site], AbstractContextManager[Call]]
    growth: float = 1.0
    calls: int = 3
    is_counted: bool = True
    is_read: bool = False
    seconds: float | None = None

    @property
    def growth_max(self) -> float:
        """Largest exponent that is not a curve."""
        return self.growth + (LINE - 1 if self.growth else FLAT)


@dataclass(frozen=True)
class Dimension:
    """Objects of one kind, at several sizes.

    Attributes:
        name: The question, such as `queues`.
        sizes: Names of the options with the sizes, in ascending order.
        grow: Adds to the database what is missing for a size.
        steps: The steps measured at each size.
    """

    name: str
    sizes: tuple[str, ...]
    grow: Callable[[Site, int], None]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Growth:
    """Costs of a step by size.

    Attributes:
        dimension: Name of the dimension.
        step: Name of the step.
        unit: Unit of the costs.
        costs: By size, ascending.
        growth: Exponent of the expected growth.
        growth_max: Largest exponent that is not a curve.
    """

    dimension: str
    step: str
    unit: str
    costs: dict[int, Cost]
    growth: float
    growth_max: float

    def exponents(self, name: str, floor: float | None = None) -> list[float]:
        """Return the exponents of a cost between consecutive sizes, above a floor; None: that of `FLOORS`."""
        floor = FLOORS[name] if floor is None else floor
        points = [(size, getattr(cost, name)) for size, cost in sorted(self.costs.items())]
        return [
            math.log((cost2 + floor) / (cost1 + floor)) / math.log(size2 / size1)
            for (size1, cost1), (size2, cost2) in pairwise(points)
        ]

    @property
    def locks_per_object(self) -> float:
        """Further locks of a transaction for each further object, between the largest sizes."""
        (size1, cost1), (size2, cost2) = sorted(self.costs.items())[-2:]
        return (cost2.locks - cost1.locks) / (size2 - size1)

    def is_line(self, name: str) -> bool:
        """True if the last exponent, of the largest sizes, is not a curve."""
        return not (exponents := self.exponents(name)) or exponents[-1] <= self.growth_max

    def verdict(self, name: str) -> str:
        """Return `flat`, `line` or `CURVE`."""
        if not self.is_line(name):
            return "CURVE"
        return "flat" if (self.exponents(name) or [0.0])[-1] <= FLAT else "line"

    def record(self) -> dict[str, Any]:
        """Return it for the result file."""
        return {
            "dimension": self.dimension,
            "step": self.step,
            "unit": self.unit,
            "costs": {
                str(size): {name: round(value, 4) for name, value in asdict(cost).items()}
                for size, cost in self.costs.items()
            },
            "exponents": [round(exponent, 2) for exponent in self.exponents("cpu_ms")],
            "exponents_of_blocks": [round(exponent, 2) for exponent in self.exponents("blocks")],
            "growth_max": self.growth_max,
            "verdict": self.verdict("cpu_ms"),
        }


@contextmanager
def without_autovacuum(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Turn off autovacuum of a server.

    Its workers run in all databases, changed or not, and what they read counts as that of a step that runs meanwhile.
    """
    connection.execute("alter system set autovacuum = off")
    connection.execute("select pg_reload_conf()")
    try:
        _await_none(
            connection,
            "select count(*) from pg_stat_activity where backend_type = any (%s)",
            [["autovacuum launcher", "autovacuum worker"]],
            "autovacuum has not ended",
        )
        yield
    finally:
        connection.execute("alter system reset autovacuum")
        connection.execute("select pg_reload_conf()")
    # Sessions that start before the server has read its settings would have it off.
    _await_none(
        connection,
        "select 1 - count(*) from pg_stat_activity where backend_type = %s",
        ["autovacuum launcher"],
        "autovacuum has not started again",
    )


def grown(
    site: Site,
    dimension: Dimension,
    sizes: Sequence[int],
    *,
    is_exact: bool = False,
    only: Callable[[Step], bool] = bool,
) -> Iterator[list[Growth]]:
    """Measure a dimension; yields the costs of all steps so far after each size.

    Args:
        site: Its database, which has nothing of another dimension.
        dimension: The dimension.
        sizes: In ascending order.
        is_exact: Count transactions and blocks exactly, which takes three times as long; of steps that do not depend on
            time.
        only: True for the steps to measure.
    """
    costs: dict[str, dict[int, Cost]] = {}
    for size in sizes:
        begin = time.monotonic()
        dimension.grow(site, size)
        print(f"  {dimension.name} {size:,}: made in {time.monotonic() - begin:.1f} s", flush=True)
        for step in dimension.steps:
            if not only(step) or (is_exact and not step.is_counted):
                continue
            cost = exact_cost_of(site, step) if is_exact else cost_of(site, step)
            costs.setdefault(step.name, {})[size] = cost
            print(
                f"  {dimension.name} {size:,}: {step.name}: {cost.cpu_ms:,.3f} ms of CPU, {cost.wall_ms:,.3f} ms, "
                f"{cost.transactions:,.2f} transactions, {cost.blocks:,.0f} blocks, {cost.rows:,.0f} rows "
                f"per {step.unit}",
                flush=True,
            )
        yield [
            Growth(
                dimension.name, step.name, step.unit, costs[step.name], step.growth, step.growth_max
            )
            for step in dimension.steps
            if step.name in costs
        ]


def cost_of(site: Site, step: Step) -> Cost:
    """Measure a step, after a call that does not count.

    Sessions report their transactions and blocks when they are idle, so these are approximate.
    """
    with step.opened(site) as call:
        call()
        first = _counts(site)
        cpu_s, began_s, own_s = server_cpu_s(site.server), time.monotonic(), time.process_time()
        units = sum(1 if (done := call()) is None else done for _ in range(step.calls))
        wall_s, own_s = time.monotonic() - began_s, time.process_time() - own_s
        cpu_s = server_cpu_s(site.server) - cpu_s
        if not step.is_counted:
            last = _counts(site)
    if step.is_counted:
        _await_end(site)
        last = _counts(site)
    times = 1 / units if step.seconds is None else 60 / step.seconds
    return Cost(
        1000 * (cpu_s + own_s) * times,
        1000 * wall_s * times,
        max(0, last[0] - first[0]) * times,
        max(0, last[1] - first[1]) * times,
    )


def exact_cost_of(site: Site, step: Step) -> Cost:
    """Count the transactions and blocks of a step.

    Its sessions are opened three times: once for what only the first session does, once for a single call, and once for
    that call and those that count. The last less the second are the transactions and blocks of those calls. They are
    exact, because sessions report them when they end, if nothing else runs in the database: see `without_autovacuum`.
    """
    totals = []
    units = 0
    for calls in (0, 0, step.calls):
        site.execute("select pg_stat_force_next_flush()")
        before = _counts(site)
        with step.opened(site) as call:
            call()
            units = sum(1 if (done := call()) is None else done for _ in range(calls))
        _await_end(site)
        totals.append([after - first for after, first in zip(_counts(site), before, strict=True)])
    transactions, blocks = (max(0, last - first) for first, last in zip(*totals[1:], strict=True))
    rows = locks = 0.0
    if step.is_read:
        with step.opened(site) as call:
            call()
            with rows_counted() as counted:
                call()
        rows, locks = counted.total, float(counted.locks)
        _await_end(site)
    return Cost(0.0, 0.0, transactions / units, blocks / units, rows, locks)


def _await_end(site: Site) -> None:
    """Wait until the sessions of a step have ended."""
    _await_none(
        site.observer,
        "select count(*) from pg_stat_activity where datname = %s and backend_type = 'client backend' and pid <> %s",
        [site.connection.info.dbname, site.connection.info.backend_pid],
        "the sessions of a step have not ended",
    )


def _await_none(
    connection: psycopg.Connection[Any], query: Any, parameters: Sequence[Any], error: str
) -> None:
    """Wait until a query counts 0."""
    end_s = time.monotonic() + _GONE_S
    while connection.execute(query, parameters).fetchone() != (0,):
        if time.monotonic() > end_s:
            raise TimeoutError(error)
        time.sleep(0.02)


def _counts(site: Site) -> list[int]:
    """Return the transactions and blocks of the database so far."""
    row = site.observer.execute(
        "select xact_commit + xact_rollback, blks_hit + blks_read from pg_stat_database where datname = %s",
        [site.connection.info.dbname],
    ).fetchone()
    assert row is not None
    return list(row)
