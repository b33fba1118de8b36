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
CYCLES = {1: 1_000, 100: 200}
LSN = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') / 1e6"
COUNTED = {
    "megabyte of WAL": LSN,
    "commit": "select xact_commit from pg_stat_database where datname = current_database()",
    "flush of WAL": "select sum(fsyncs) from pg_stat_io where object = 'wal'",
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
    for unit in COUNTED
    for qty in CYCLES
    for with_sending in (False, True)
)


def measure(place: Place, question: Question) -> float:
    """Send, claim and acknowledge the same number again and again, and count on the way.

    New rows are on new pages: none is written whole for having been there at a checkpoint.

    Returns:
        Messages for each of what is counted.
    """
    messages = competing(place.name)
    cycles = CYCLES[question.qty]
    messages.create(place.connection)
    used = 0.0
    try:
        with psycopg.connect(
            place.server.url(place.connection.info.dbname), autocommit=True, prepare_threshold=1
        ) as session:
            cycle(messages, session, question, place.connection)
            for _ in range(cycles):
                used += cycle(messages, session, question, place.connection)
        return cycles * question.qty / used
    finally:
        messages.drop(place.connection)


def cycle(
    messages: Any,
    session: psycopg.Connection[Any],
    question: Question,
    other: psycopg.Connection[Any],
) -> float:
    before = counted(session, question.unit, other)
    messages.send(session, question.qty)
    if not question.with_sending:
        before = counted(session, question.unit, other)
    claimed, found = messages.claim(session, question.qty)
    if found != question.qty:
        raise RuntimeError(f"{found} messages instead of {question.qty} were claimed")
    messages.complete(session, claimed)
    return counted(session, question.unit, other) - before


def counted(session: psycopg.Connection[Any], unit: str, other: psycopg.Connection[Any]) -> float:
    """Ask another session, as to ask is a commit; a session tells its statistics when it is made to."""
    if unit != "megabyte of WAL":
        session.execute("begin")
        session.execute("select pg_stat_force_next_flush()")
        session.execute("rollback")
    ((value,),) = other.execute(COUNTED[unit]).fetchall()
    return float(value)
