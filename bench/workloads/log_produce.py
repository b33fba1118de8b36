"""CPU cost of appending events one by one, by the hundred, and by COPY."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.cpu import per_cpu_s
from bench.goal import Goal
from bench.place import Place
from bench.systems.pgq import BIN_DIR, Pgq
from bench.systems.pgsluice import Pgsluice

__all__ = ["BIN_DIR"]

TITLE = "Events appended for each second of the backend's CPU time, one session"
UNIT = "events a second of the backend's CPU time"
SYSTEMS = [Pgsluice(), Pgq()]
LOG = "bench"
DATA = "x" * 100
SINGLE = 3_000
HUNDREDS = 100
COPIED = 100_000


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        ask: Function that prepares, measures and returns the rate.
    """

    name: str
    ask: Callable[[Place], float]


def measure(place: Place, question: Question) -> float:
    """Measure one question in a new log.

    Returns:
        Events a second of the backend's CPU time.
    """
    place.connection.prepare_threshold = 1
    place.connection.execute("select pgq.create_queue(%s)", [LOG])
    try:
        return question.ask(place)
    finally:
        place.connection.execute("select pgq.drop_queue(%s, true)", [LOG])


def table(connection: psycopg.Connection[Any], log: str = LOG) -> str:
    ((name,),) = connection.execute("select pgq.current_event_table(%s)", [log]).fetchall()
    return str(name)


def repeated(place: Place, statement: str, times: int, events: int) -> float:
    connection = place.connection

    def ask() -> None:
        for _ in range(times):
            connection.execute(statement, [DATA])

    return per_cpu_s(connection, times * events, ask)


def insert(place: Place) -> float:
    statement = f"insert into {table(place.connection)} (ev_time, ev_type, ev_data) values (now(), 'type', %s)"
    return repeated(place, statement, SINGLE, 1)


def insert_event(place: Place) -> float:
    return repeated(place, f"select pgq.insert_event('{LOG}', 'type', %s)", SINGLE, 1)


def insert_select(place: Place) -> float:
    statement = f"""insert into {table(place.connection)} (ev_time, ev_type, ev_data)
        select now(), 'type', %s from generate_series(1, 100)"""
    return repeated(place, statement, HUNDREDS, 100)


def insert_events(place: Place) -> float:
    statement = f"""select sluice.insert_events(
        '{LOG}', array_fill('type'::text, array[100]), array_fill(%s::text, array[100])
    )"""
    if place.name == Pgq.name:  # it has no batch function
        statement = f"select pgq.insert_event('{LOG}', 'type', %s) from generate_series(1, 100)"
    return repeated(place, statement, HUNDREDS, 100)


def copy_plain(place: Place) -> float:
    place.connection.execute(
        f"""create table public.plain (like {table(place.connection)} including defaults);
            create index on public.plain (ev_txid)"""
    )
    try:
        return copied(place, "public.plain")
    finally:
        place.connection.execute("drop table public.plain")


def copy_events(place: Place) -> float:
    return copied(place, None)


def copied(place: Place, target: str | None) -> float:
    connection = place.connection
    line = f"2026-01-01 00:00:00+00\ttype\t{DATA}\n" * 100

    def ask() -> None:
        with (
            connection.transaction(),
            connection.cursor().copy(
                f"copy {target or table(connection)} (ev_time, ev_type, ev_data) from stdin"
            ) as copy,
        ):
            for _ in range(COPIED // 100):
                copy.write(line)

    return per_cpu_s(connection, COPIED, ask)


QUESTIONS = (
    Question("prepared INSERT of a row", insert),
    Question("insert_event, one row a transaction", insert_event),
    Question("INSERT … SELECT of 100", insert_select),
    Question("100 events a call", insert_events),
    Question(f"COPY of {COPIED:,} into a plain table", copy_plain),
    Question(f"COPY of {COPIED:,} into the log", copy_events),
)
GOALS = {
    QUESTIONS[1].name: Goal(
        1, why_missed="a call of PL/pgSQL costs more than one of C, and search_path is pinned"
    ),
    QUESTIONS[3].name: Goal(1 / 2, of=QUESTIONS[2].name),
    QUESTIONS[5].name: Goal(0.9, of=QUESTIONS[4].name),
}
