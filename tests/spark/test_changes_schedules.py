"""Changes and schema changes of several sessions at all isolation levels: a table that is called complete is equal."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

from pgsluice.errors import SluiceError
from pgsluice.lake.current_tables import Tables, read_states
from pgsluice.lake.jobs import compact
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import exists
from pgsluice.pipelines.current_state import parking, shaping
from pgsluice.pipelines.current_state.snapshot import Rebuilds, rebuild, snapshot
from pgsluice.pipelines.current_state.table import CurrentTable
from pgsluice.spark.access import Access
from pgsluice.verify import verify_changes
from spark.conftest import LOG
from spark.current_states import States
from spark.equal_tables import difference
from spark.shape_schedules import Schedule
from support import rows, value
from support.servers import Database


class KilledError(BaseException):
    """The process ends here."""


class Pipeline:
    """Reads the log by ticks into the current-state tables, and starts again after a kill."""

    def __init__(
        self, database: Database, log: psycopg.Connection, current: Tables, folder: Path, dice: random.Random
    ) -> None:  # fmt: skip
        self._place = (database, log, current, folder)
        self._log, self._dice = log, dice
        self._rebuilds_itself = dice.random() < 0.4
        self._start()
        self._version = -1
        log.execute("select pgq.register_consumer(%s, 'lake')", (LOG,))
        log.execute(
            "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
        )

    def _start(self) -> None:
        database, _, _, folder = self._place
        is_many = self._dice.random() < 0.3
        self._states = States(*self._place, are_many=is_many, rebuilds=self._rebuilds_itself)
        self._rebuilds = Rebuilds(self._states.parking, lambda _: True, folder / "rebuilds")
        self._access = Access(dsn=database.url)

    def run(self) -> None:
        """Apply all events and take the snapshots of rebuilds; no session may hold locks."""
        self.read()
        for _ in range(5):
            if not self._rebuilds.pending():
                break
            self._rebuilds.take_next(self._access, threading.Event(), nullcontext)
            self.read()

    def read(self) -> None:
        """Apply all events of transactions that have ended; each batch may be killed at any commit."""
        self._log.execute("select pgq.ticker(%s)", (LOG,))
        while (batch := value(self._log, "select pgq.next_batch(%s, 'lake')", LOG)) is not None:
            events = rows(
                self._log,
                "select ev_id, (extract(epoch from ev_time) * 1000000)::bigint, ev_type, ev_data, ev_extra1, ev_extra2 "
                "from pgq.get_batch_events(%s) order by ev_id",
                batch,
            )
            if events:
                self._version += 1
                self._apply(events)
            self._log.execute("select pgq.finish_batch(%s)", (batch,))

    def _apply(self, events: list[tuple]) -> None:
        while self._dice.random() < 0.3:
            with suppress(KilledError), killed_after(self._dice.randint(1, 12)):
                self._states.apply(events, version=self._version)
                return
            self._start()
        self._states.apply(events, version=self._version)


@contextmanager
def killed_after(writes: int) -> Iterator[None]:
    """Kill the process before or after one of its durable writes: of a state, or a commit of a table."""
    left = writes

    def killing(unpatched: Any) -> Any:
        def act(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 1:
                raise KilledError
            done = unpatched(*arguments, **named)
            if left == 0:
                raise KilledError
            return done

        return act

    with (
        patch.object(parking, "write_state", killing(parking.write_state)),
        patch.object(shaping, "reshape", killing(shaping.reshape)),
        patch.object(CurrentTable, "commit_once", killing(CurrentTable.commit_once)),
        patch.object(CurrentTable, "create", killing(CurrentTable.create)),
        patch.object(CurrentTable, "add_columns", killing(CurrentTable.add_columns)),
    ):
        yield


def check_schedule(
    database: Database, log: psycopg.Connection, current: Tables, folder: Path, seed: int, stops: int
) -> None:  # fmt: skip
    dice = random.Random(seed)
    schedule = Schedule(database, dice)
    pipeline = Pipeline(database, log, current, folder, dice)
    seen = Counter[str]()
    try:
        for stop in range(stops):
            for _ in range(dice.randint(10, 40)):
                schedule.step()
                if dice.random() < 0.1 and schedule.is_free:
                    pipeline.read()
                if dice.random() < 0.1 and schedule.is_free:
                    log.execute("select sluice._maintain_captures()")
            schedule.settle()
            pipeline.run()
            seen += judge(schedule, log, current, f"seed {seed}, stop {stop}")
            repair(schedule, current)
            pipeline.run()
            for name in schedule.tables:
                if exists(current.place_of(name)) and dice.random() < 0.3:
                    with suppress(SluiceError):  # a table that is too small
                        compact(str(current.place_of(name)))
    finally:
        schedule.close()
    print(f"seed {seed}: {dict(seen)}")
    assert seen["complete"] > seen["not complete but equal"]


def judge(schedule: Schedule, log: psycopg.Connection, current: Tables, when: str) -> Counter[str]:
    """Compare all tables with PostgreSQL, and what `verify changes` reports with that; all events must be applied."""
    found = verify_changes(LOG, str(current.lake), dsn=schedule.database.url)
    tables = {str(name): name for name in schedule.tables}
    complete = {str(TableName.parse(name)): TableName.parse(name) for name in found.complete}
    differences = {
        text: difference(log, current, name) for text, name in (tables | complete).items()
    }
    wrong = {text: differences[text] for text in complete if differences[text] is not None}
    report = "\n".join(schedule.trace[-300:])
    assert wrong == {}, f"{when}: called complete: {wrong}\n{report}"
    unknown = tables.keys() - found.complete.keys() - found.problems.keys()
    assert unknown == set(), f"{when}: neither complete nor not: {unknown}\n{report}"
    equal = sum(differences[text] is None for text in tables if text not in complete)
    return Counter(
        {
            "complete": len(complete),
            "not complete": len(tables.keys() - complete.keys()) - equal,
            "not complete but equal": equal,
        }
    )


def repair(schedule: Schedule, current: Tables) -> None:
    """Rebuild some tables that are not complete, or take snapshots of them."""
    dsn, lake = schedule.database.url, str(current.lake)
    problems = verify_changes(LOG, lake, dsn=dsn).problems
    for name in schedule.tables:
        if str(name) not in problems or schedule.dice.random() < 0.3:
            continue
        with suppress(
            SluiceError
        ):  # its capture was dropped, or names a column that it no longer has
            if name in read_states(current):
                rebuild(str(name), lake, dsn=dsn)
            else:
                snapshot(str(name), LOG, dsn=dsn)


@pytest.mark.slow
def test_tables_called_complete_equal_postgresql_after_any_schedule(
    database_18: Database, log: psycopg.Connection, current: Tables, tmp_path: Path, seed: int
):
    check_schedule(database_18, log, current, tmp_path, seed, stops=8)


@pytest.mark.long
@pytest.mark.parametrize("number", range(10))
def test_tables_called_complete_equal_postgresql_after_long_schedules(
    database_18: Database,
    log: psycopg.Connection,
    current: Tables,
    tmp_path: Path,
    seed: int,
    number: int,
):
    check_schedule(database_18, log, current, tmp_path, seed * 1000 + number, stops=25)
