"""WAL, commits and flushes per completed message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psycopg

from bench.competing import competing
from bench.place import Place

TITLE = "Completed messages for each megabyte of WAL, commit and flush, one client"
UNIT = "completed messages"
REPEATS = 3
CYCLES = {1: 300, 100: 50}
COUNTED = {
    "megabyte of WAL": "pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') / 1e6",
    "commit": "(select xact_commit from pg_stat_database where datname = current_database())",
    "flush of WAL": "(select sum(fsyncs) from pg_stat_io where object = 'wal')",
}
GOALS: dict[str, Any] = {}


@dataclass(frozen=True)
class Question:
    """Counted question.

    Attributes:
        qty: Batch size for sending, claiming and acknowledging.
        unit: A key of `COUNTED`.
        with_sending: Include the cost of sending.
        name: Label in the results table.
    """

    qty: int
    unit: str
    with_sending: bool
    name: str = field(init=False)

    def __post_init__(self) -> None:
        what = f"claim({self.qty}) + acknowledge, for each {self.unit}"
        object.__setattr__(
            self, "name", f"send({self.qty}) + {what}" if self.with_sending else what
        )


QUESTIONS = tuple(
    Question(qty, unit, with_sending)
    for qty in CYCLES
    for unit in COUNTED
    for with_sending in (False, True)
)

_runs: dict[tuple[str, int], dict[tuple[str, bool], float]] = {}


def measure(place: Place, question: Question) -> float:
    """Measure one question: the first for a quantity performs the run, the others read its counts.

    Returns:
        Messages per counted unit.
    """
    key = (place.name, question.qty)
    if question == next(first for first in QUESTIONS if first.qty == question.qty):
        _runs[key] = run(place, question.qty)
    return _runs[key][question.unit, question.with_sending]


def run(place: Place, qty: int) -> dict[tuple[str, bool], float]:
    """Send, claim and acknowledge the same number repeatedly, and count.

    New rows are on new pages, so there are no full-page writes.
    """
    messages = competing(place.name)
    used = {(unit, with_sending): 0.0 for unit in COUNTED for with_sending in (False, True)}
    messages.create(place.connection)
    try:
        with psycopg.connect(
            place.server.url(place.connection.info.dbname), autocommit=True, prepare_threshold=1
        ) as session:
            for number in range(CYCLES[qty] + 1):
                begin = counted(session, place.connection)
                messages.send(session, qty)
                sent = counted(session, place.connection)
                claimed, found = messages.claim(session, qty)
                if found != qty:
                    raise RuntimeError(f"{found} messages instead of {qty} were claimed")
                messages.complete(session, claimed)
                end = counted(session, place.connection)
                if number:  # the first round warms the caches
                    for unit in COUNTED:
                        used[unit, True] += end[unit] - begin[unit]
                        used[unit, False] += end[unit] - sent[unit]
    finally:
        messages.drop(place.connection)
    return {what: CYCLES[qty] * qty / max(count, 1e-6) for what, count in used.items()}


def counted(session: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> dict[str, float]:
    """Read the counters in another session, as reading them is a commit; force the flush of session statistics."""
    with session.transaction(force_rollback=True):
        session.execute("select pg_stat_force_next_flush()")
    ((*counts,),) = other.execute(f"select {', '.join(COUNTED.values())}").fetchall()
    return dict(zip(COUNTED, map(float, counts), strict=True))
