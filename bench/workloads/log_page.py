"""CPU cost of a page of a batch, by the size of the batch."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.cpu import per_cpu_s
from bench.goal import Goal
from bench.place import Place
from bench.systems.pgq import BIN_DIR, Pgq
from bench.systems.pgsluice import Pgsluice
from bench.workloads.log_consume import next_batch, tick
from bench.workloads.log_produce import table

__all__ = ["BIN_DIR"]

TITLE = "Pages of 100 events for each second of the backend's CPU time, one session"
UNIT = "pages a second of the backend's CPU time"
NOTES = [
    "page in the middle: by sluice.get_batch_page; in the peer by the condition of get_batch_cursor",
    "the warm-up has the first page of each batch in the session, which reads the whole batch",
]
SYSTEMS = [Pgsluice(), Pgq()]
SMALL, LARGE = 10_000, 1_000_000
QTY = 100
DATA = "x" * 100


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        call: `CURSOR`, or `PAGE`.
        events: Size of the batch.
        name: Label in the results table.
    """

    call: str
    events: int
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.call} of {self.events:,}")


CURSOR, PAGE = "first page by get_batch_cursor", "page in the middle"
QUESTIONS = tuple(Question(call, events) for call in (CURSOR, PAGE) for events in (SMALL, LARGE))
GOALS = {
    question.name: Goal(1 / 2, of=f"{question.call} of {SMALL:,}")
    for question in QUESTIONS
    if question.events == LARGE
}
_batches: dict[
    tuple[str, int], tuple[int, int]
] = {}  # batch and id in its middle, by system and size


def measure(place: Place, question: Question) -> float:
    """Measure one question; its batch is filled on first use and stays open.

    Returns:
        Pages per second of the backend's CPU time.
    """
    connection = place.connection
    key = (connection.info.dsn, question.events)
    if key not in _batches:
        _batches[key] = open_batch(place, question.events)
    batch_id, middle = _batches[key]
    pages = 5 if question.events == SMALL else 1

    def ask() -> None:
        for _ in range(pages):
            if question.call == PAGE and place.name != Pgq.name:
                found = connection.execute(
                    "select * from sluice.get_batch_page(%s::bigint, %s::bigint, %s::integer)",
                    [batch_id, middle, QTY],
                ).fetchall()
            else:
                where = f"ev_id > {middle}" if question.call == PAGE else None
                with connection.transaction():
                    found = connection.execute(
                        "select * from pgq.get_batch_cursor(%s, 'page', %s, %s)",
                        [batch_id, QTY, where],
                    ).fetchall()
            if len(found) != QTY:
                raise RuntimeError(f"{len(found)} events instead of {QTY}")

    return per_cpu_s(connection, pages, ask)


def open_batch(place: Place, events: int) -> tuple[int, int]:
    """Create a log with one batch, and open it."""
    connection, log = place.connection, f"bench_{events}"
    connection.execute("select pgq.create_queue(%s)", [log])
    connection.execute(
        """update pgq.queue
           set queue_ticker_max_lag = '0', queue_ticker_max_count = 1, queue_ticker_idle_period = '0'"""
    )
    connection.execute("select pgq.register_consumer(%s, 'bench')", [log])
    connection.execute(
        f"""insert into {table(connection, log)} (ev_time, ev_type, ev_data)
            select now(), 'type', %s from generate_series(1, %s)""",
        [DATA, events],
    )
    tick(connection, log)
    batch_id = next_batch(connection, log)
    ((middle,),) = connection.execute(
        "select (min(ev_id) + max(ev_id)) / 2 from pgq.get_batch_events(%s)", [batch_id]
    ).fetchall()
    connection.execute("vacuum analyze")
    connection.execute("checkpoint")
    return batch_id, int(middle)
