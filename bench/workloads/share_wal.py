"""What does a completed message cost the server's log: bytes, commits, and flushes?"""

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
    """One thing that is counted.

    Attributes:
        qty: How many messages are sent, claimed and acknowledged at a time.
        unit: A key of `COUNTED`.
        with_sending: Count also what sending them took.
        name: What the table of results calls it.
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
    """Ask one question: the first one about a quantity does the run, the others look at what was counted.

    Returns:
        Messages for each of what is counted.
    """
    key = (place.name, question.qty)
    if question == next(first for first in QUESTIONS if first.qty == question.qty):
        _runs[key] = run(place, question.qty)
    return _runs[key][question.unit, question.with_sending]


def run(place: Place, qty: int) -> dict[tuple[str, bool], float]:
    """Send, claim and acknowledge the same number again and again, and count on the way.

    New rows are on new pages: none is written whole for having been there at a checkpoint.
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
                if number:  # the first fills caches
                    for unit in COUNTED:
                        used[unit, True] += end[unit] - begin[unit]
                        used[unit, False] += end[unit] - sent[unit]
    finally:
        messages.drop(place.connection)
    return {what: CYCLES[qty] * qty / max(count, 1e-6) for what, count in used.items()}


def counted(session: psycopg.Connection[Any], other: psycopg.Connection[Any]) -> dict[str, float]:
    """Ask another session, as to ask is a commit; a session tells its statistics when it is made to."""
    with session.transaction(force_rollback=True):
        session.execute("select pg_stat_force_next_flush()")
    ((*counts,),) = other.execute(f"select {', '.join(COUNTED.values())}").fetchall()
    return dict(zip(COUNTED, map(float, counts), strict=True))
