"""CPU cost of the update of one row of a captured table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.cpu import per_cpu_s
from bench.goal import Goal
from bench.place import Place
from bench.systems.pgq import BIN_DIR, Pgq
from bench.systems.pgsluice import Pgsluice

__all__ = ["BIN_DIR"]

TITLE = "Updates of one row for each second of the backend's CPU time, one session"
UNIT = "updates a second of the backend's CPU time"
NOTES = ["captured: by sluice.capture; in the peer by a trigger with pgq.jsontriga, which is in C"]
SYSTEMS = [Pgsluice(), Pgq()]
LOG = "bench"
ROWS = 1_000
UPDATES = 3_000


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        is_captured: True if the changes of the table are captured.
    """

    name: str
    is_captured: bool


QUESTIONS = (
    Question("update of a row, not captured", is_captured=False),
    Question("update of a row, captured", is_captured=True),
    Question("update of a row, captured, to the peer", is_captured=True),
)
JSON = (
    "added are the insert of the event, the settings that make the text of values the same in every session, "
    "two triggers, and JSON of two rows"
)
GOALS = {
    QUESTIONS[1].name: Goal(0.6, of=QUESTIONS[0].name, why_missed=JSON),
    QUESTIONS[2].name: Goal(0.9, why_missed=JSON),
}


def measure(place: Place, question: Question) -> float:
    """Measure one question with a new table and a new log.

    Returns:
        Updates per second of the backend's CPU time.
    """
    connection = place.connection
    connection.prepare_threshold = 1
    connection.execute("select pgq.create_queue(%s)", [LOG])
    try:
        connection.execute(
            """create table public.account (id int primary key, owner text, balance numeric, changed_at timestamptz)
               with (fillfactor = 50)"""
        )
        connection.execute(
            "insert into public.account select n, 'owner ' || n, n, now() from generate_series(1, %s) as n",
            [ROWS],
        )
        if question.is_captured:
            capture(place)
        connection.execute("vacuum analyze public.account")
        connection.execute("checkpoint")
        return per_cpu_s(connection, UPDATES, updates(place))
    finally:
        connection.execute("drop table if exists public.account")
        connection.execute("select pgq.drop_queue(%s, true)", [LOG])


def capture(place: Place) -> None:
    if place.name == Pgq.name:
        place.connection.execute(
            f"""create trigger capture after insert or update or delete on public.account
                for each row execute function pgq.jsontriga('{LOG}')"""
        )
    else:
        place.connection.execute("select sluice.capture('public.account', %s)", [LOG])


def updates(place: Place) -> Callable[[], None]:
    connection = place.connection

    def ask() -> None:
        for number in range(UPDATES):
            connection.execute(
                "update public.account set balance = balance + 1, changed_at = now() where id = %s",
                [number % ROWS + 1],
            )

    return ask
