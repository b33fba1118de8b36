"""Cost of a claim with a backlog of ten million messages, a million delayed ones, or a late transaction."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import psycopg

from bench.competing import DATA, TRANSACTION, ShareGroup
from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice

TITLE = "Claims a second, of the median claim, one session"
UNIT = "claims a second: of the median claim of a repetition, median of the repetitions"
SYSTEMS = [Pgsluice()]
OPTIONS = {"backlog": 10_000_000, "delayed": 1_000_000, "late": 600_000}
SMALL = 20_000  # messages of the "empty" log; each repetition claims some for longer than the run
CLAIMS = 25
LATE_TRANSACTION = 100  # messages of each transaction that sends during a late one


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        log: "empty", or the contents of the log, a key of `OPTIONS`; "late": the messages of a transaction that ended
            late, in one window with that number of newer ones.
        qty: Messages per claim; 0 claims from a log without visible messages.
        name: Label in the results table.
    """

    log: str
    qty: int
    name: str = field(init=False)

    def __post_init__(self) -> None:
        claim = f"claim({self.qty})" if self.qty else "claim of nothing"
        object.__setattr__(self, "name", f"{claim}, {self.log}")


EMPTY = {qty: Question("empty", qty) for qty in (1, 100, 0)}
QUESTIONS = (
    EMPTY[1], Question("backlog", 1), Question("delayed", 1),
    EMPTY[100], Question("backlog", 100), Question("delayed", 100), Question("late", 100),
    EMPTY[0], Question("delayed", 0),
)  # fmt: skip
SEGMENTS = "a claim probes each segment with events, and their indexes are deeper"
GOALS = {
    question.name: Goal(
        1 / 2 if question.log == "late" else 1 / 1.5,
        of=EMPTY[question.qty].name,
        why_missed=SEGMENTS,
    )
    for question in QUESTIONS
    if question.log != "empty"
}
_groups: dict[tuple[str, bool], ShareGroup] = {}  # by log, and whether it has claimable messages


def measure(place: Place, question: Question) -> float:
    """Measure one question; its log is filled on first use and kept.

    Returns:
        Claims a second, from the median claim.
    """
    session = place.connection
    session.prepare_threshold = 1
    key = (question.log, question.qty > 0)
    if key not in _groups:
        _groups[key] = filled(session, question, f"log_{len(_groups)}")
    group = _groups[key]
    times = []
    for _ in range(CLAIMS):
        begin = time.perf_counter()
        claimed, found = group.claim(session, question.qty or 1)
        times.append(time.perf_counter() - begin)
        if found != question.qty:
            raise RuntimeError(f"{found} of {question.qty} messages were claimed")
        if found:
            group.complete(session, claimed)
    return 1 / statistics.median(times)


def filled(session: psycopg.Connection[Any], question: Question, name: str) -> ShareGroup:
    group = ShareGroup(name)
    group.create(session)
    if question.log == "delayed":
        for first in range(0, OPTIONS["delayed"], TRANSACTION):
            session.execute(
                """select count(sluice.insert_event(%s, 'type', %s, delay => interval '1 day'))
                   from generate_series(1, %s)""",
                [name, DATA, min(TRANSACTION, OPTIONS["delayed"] - first)],
            )
    if question.log == "late":
        fill_late(session, group)
    elif question.qty:
        group.fill(session, OPTIONS["backlog"] if question.log == "backlog" else SMALL)
    return group


def fill_late(session: psycopg.Connection[Any], group: ShareGroup) -> None:
    """Send messages in a transaction that ends after many others have sent theirs, without a tick between."""
    with psycopg.connect(session.info.dsn, password=session.info.password) as late:
        group.send(late, SMALL)
        group.send(session, 1)
        group.claim(session, 2)  # its window ends while the transaction is open
        session.execute("set synchronous_commit = off")
        for _ in range(0, OPTIONS["late"], LATE_TRANSACTION):
            group.send(session, LATE_TRANSACTION)
        session.execute("reset synchronous_commit")
    group.claim(session, 100)  # the first claim of the window searches it for such messages
