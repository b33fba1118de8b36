"""Peak memory of Spark's driver and workers while a backlog of ten million events drains."""

from __future__ import annotations

from dataclasses import dataclass

from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice
from bench.workloads import spark_stream

TITLE = (
    "Events that a stream writes from a backlog to Delta, micro-batches of 100,000, two tasks, "
    "a heap of 2 GB; the notes have the peak of resident memory"
)
UNIT = "events a second"
SYSTEMS = [Pgsluice()]
REPEATS = 1
OPTIONS = {"spark_memory_few": 1_000_000, "spark_memory_many": 10_000_000}
NOTES: list[str] = []
FEW, MANY = "1,000,000 events", "10,000,000 events"


@dataclass(frozen=True)
class Question:
    """Backlog of one size.

    Attributes:
        name: Label in the results table.
        option: Key of `OPTIONS` with the number of events.
    """

    name: str
    option: str


QUESTIONS = (Question(FEW, "spark_memory_few"), Question(MANY, "spark_memory_many"))
GOALS: dict[str, Goal] = {}
WARM_UP = False  # a run takes minutes, and memory use needs no warm-up


def measure(place: Place, question: Question) -> float:
    """Write the whole backlog once.

    Returns:
        Events a second.
    """
    into_delta = next(q for q in spark_stream.QUESTIONS if q.name == spark_stream.DELTA)
    rate, said = spark_stream.carry(place, into_delta, OPTIONS[question.option])
    NOTES.append(said)
    return rate
