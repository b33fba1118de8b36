"""Cost of sending to a log with a share group, compared with plain SQL into the same table."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.competing import DATA, NAME, TRANSACTION, competing
from bench.goal import Goal
from bench.pgbench import pgbench
from bench.place import Place
from bench.systems.pgsluice import Pgsluice

TITLE = "Messages a second sent by one session to a log with a share group, by the session's synchronous_commit"
UNIT = "messages a second, median of the repetitions"
FUNCTIONS, BY_HAND, NO_GROUP = "functions", "plain SQL", "plain SQL, no group"
SYSTEMS = [Pgsluice(name) for name in (FUNCTIONS, BY_HAND, NO_GROUP)]
SINGLES = 3_000
CALLS = 20


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        ask: Function that sends and returns the rate.
    """

    name: str
    ask: Callable[[Place, str], float]


def measure(place: Place, question: Question) -> float:
    """Measure one question in a new log.

    Returns:
        Messages a second.
    """
    session = place.connection
    session.prepare_threshold = 1
    if place.name == NO_GROUP:
        session.execute("select pgq.create_queue(%s)", [NAME])
    else:
        competing(place.name).create(session)
    try:
        ((table,),) = session.execute("select pgq.current_event_table(%s)", [NAME]).fetchall()
        session.execute("checkpoint")
        return question.ask(place, str(table))
    finally:
        if place.name == NO_GROUP:
            session.execute("select pgq.drop_queue(%s, true)", [NAME])
        else:
            competing(place.name).drop(session)


def one_by_one(synchronous_commit: str) -> Callable[[Place, str], float]:
    """Use pgbench: a client overhead of 200 µs would hide a function that takes 50 µs."""

    def ask(place: Place, table: str) -> float:
        script = (
            f"insert into {table} (ev_time, ev_type, ev_data) values (now(), 'type', '{DATA}');"
        )
        if place.name == FUNCTIONS:
            script = f"select pgq.insert_event('{NAME}', 'type', '{DATA}');"
        return pgbench(
            place.server,
            place.connection.info.dbname,
            script,
            SINGLES,
            synchronous_commit=synchronous_commit,
        )

    return ask


def many(events: int) -> Callable[[Place, str], float]:
    """Prepare the text before timing, so that the client only sends it, in both cases."""
    array = "{" + ",".join(['"' + DATA.replace('"', '\\"') + '"'] * events) + "}"
    types = "{" + ",".join(["type"] * events) + "}"
    line = "type\t" + DATA + "\n"

    def ask(place: Place, table: str) -> float:
        session = place.connection
        calls = max(CALLS, TRANSACTION // events)
        begin = time.perf_counter()
        for _ in range(calls):
            if place.name == FUNCTIONS:
                session.execute(
                    "select count(*) from sluice.insert_events(%s, %s::text[], %s::text[])",
                    [NAME, types, array],
                )
            else:
                with session.cursor().copy(f"copy {table} (ev_type, ev_data) from stdin") as copy:
                    copy.write(line * events)
        return calls * events / (time.perf_counter() - begin)

    return ask


QUESTIONS = (
    Question("insert_event to a prepared INSERT, off", one_by_one("off")),
    Question("insert_event to a prepared INSERT, on", one_by_one("on")),
    Question("insert_events(100) to COPY", many(100)),
    Question("insert_events(10,000) to COPY", many(10_000)),
)
CALLED = "a pinned call with the owner's rights and reading the log's row cost half as much as the INSERT"
GOALS = {
    QUESTIONS[0].name: Goal(0.8, why_missed=CALLED),
    QUESTIONS[1].name: Goal(0.8, why_missed=CALLED),
    QUESTIONS[2].name: Goal(0.7),
    QUESTIONS[3].name: Goal(0.7),
}
