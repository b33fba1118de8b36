"""Changes and schema changes of several sessions at all isolation levels: a table that is called complete is equal."""

from __future__ import annotations

import math
import random
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from psycopg import sql

from conftest import Database
from pgsluice.errors import SluiceError
from pgsluice.lake.current_tables import (
    OWN_COLUMNS,
    Tables,
    captured_column,
    lake_of,
    place_of,
    read_states,
)
from pgsluice.lake.jobs import compact
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import exists
from pgsluice.pipelines.current_state import parking, shaping
from pgsluice.pipelines.current_state.snapshot import rebuild, snapshot
from pgsluice.pipelines.current_state.table import CurrentTable
from pgsluice.verify import verify_changes
from spark.conftest import LOG
from spark.current_states import States
from spark.lake_reading import ICEBERG, delta_rs_rows, has_rows, iceberg_rows
from spark.shape_schedules import Schedule
from support import rows, value


class KilledError(BaseException):
    """The process ends here."""


class Pipeline:
    """Reads the log by ticks into the current-state tables, and starts again after a kill."""

    def __init__(
        self, database: Database, log: psycopg.Connection, current: Tables, folder: Path, dice: random.Random
    ) -> None:  # fmt: skip
        self._place = (database, log, current, folder)
        self._log, self._dice = log, dice
        self._states = States(*self._place)
        self._version = -1
        log.execute("select pgq.register_consumer(%s, 'lake')", (LOG,))
        log.execute(
            "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
        )

    def run(self) -> None:
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
            self._states = States(*self._place)
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


def in_lake(place: str) -> tuple[dict[str, pa.DataType], list[dict[str, Any]]]:
    """Return the columns and rows of a current-state table by an independent reader."""
    if not has_rows(place):
        return {}, []
    table = iceberg_rows(place) if place.startswith(ICEBERG) else delta_rs_rows(DeltaTable(place))
    names = [name for name in table.column_names if name not in OWN_COLUMNS]
    there = [row for row in table.to_pylist() if not row["_deleted"]]
    kinds = {captured_column(name): table.schema.field(name).type for name in names}
    return kinds, [{captured_column(name): row[name] for name in names} for row in there]


def in_postgresql(
    connection: psycopg.Connection, name: TableName
) -> tuple[dict[str, str], list[dict[str, str | None]]]:
    """Return the columns and rows of a table, values as their text in JSON."""
    kinds = dict(
        rows(
            connection,
            """select attname::text, format_type(atttypid, null) from pg_attribute
            where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum""",
            str(name),
        )
    )
    columns = [
        sql.SQL(
            "case when json_typeof({0}::json) <> 'null' then {0}::text end as {0}"
            if kind in ("json", "jsonb")
            else "case when {0} is distinct from null then concat({0}) end as {0}"
            if kind in ("mood", "spot", "public.mood", "public.spot")
            else "to_json({0}) #>> '{{}}' as {0}"
        ).format(sql.Identifier(column))
        for column, kind in kinds.items()
    ]
    cursor = connection.execute(
        sql.SQL("select {} from {}").format(
            sql.SQL(", ").join(columns), sql.Identifier(name.schema, name.table)
        )
    )
    return kinds, [dict(zip(kinds, row, strict=True)) for row in cursor]


def comparable(text: object, kind: pa.DataType) -> object:
    """Return a value, or its text in PostgreSQL, so that equal values of a type of the lake are equal."""
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if text is None or any(is_text(kind) for is_text in texts):
        return text
    if pa.types.is_boolean(kind):
        return str(text).lower()
    if pa.types.is_integer(kind):
        return int(str(text))
    if pa.types.is_floating(kind):
        number = float(str(text)) + 0.0
        width = "f" if pa.types.is_float32(kind) else "d"
        return "NaN" if math.isnan(number) else struct.pack(width, number)
    if pa.types.is_decimal(kind):
        return Decimal(str(text))
    if pa.types.is_timestamp(kind):
        text = {"infinity": "9999-12-31T23:59:59.999999"}.get(str(text), text)
        return datetime.fromisoformat(str(text)).replace(tzinfo=UTC)
    return str(text)


def difference(connection: psycopg.Connection, current: Tables, name: TableName) -> str | None:
    """Return how a table differs in the lake; None if it does not."""
    columns, there = in_postgresql(connection, name)
    if not exists(place_of(current, name)):
        return None if not there else "no table in the lake"
    kinds, found = in_lake(str(place_of(current, name)))
    if not there and not found:
        return None  # a table without rows gets its columns with the first
    if set(columns) != set(kinds):
        return f"columns {sorted(columns)} in PostgreSQL, {sorted(kinds)} in the lake"
    both = [
        Counter(tuple(comparable(row[c], kinds[c]) for c in columns) for row in side)
        for side in (there, found)
    ]
    if both[0] == both[1]:
        return None
    return f"only in PostgreSQL: {both[0] - both[1]}, only in the lake: {both[1] - both[0]}"


def check_schedule(
    database: Database, log: psycopg.Connection, current: Tables, folder: Path, seed: int, stops: int
) -> None:  # fmt: skip
    dice = random.Random(seed)
    schedule = Schedule(database, dice)
    pipeline = Pipeline(database, log, current, folder, dice)
    lake, ever_complete = str(lake_of(current)), 0
    for name in schedule.tables:
        log.execute(sql.SQL("insert into {} (id) values (1)").format(sql.Identifier(name)))
    pipeline.run()
    try:
        for stop in range(stops):
            for _ in range(dice.randint(10, 40)):
                schedule.step()
                if dice.random() < 0.1:
                    pipeline.run()
            schedule.settle()
            pipeline.run()
            complete = verify_changes(LOG, lake, dsn=database.url).complete
            names = [TableName("public", table) for table in schedule.tables]
            wrong = {
                str(name): difference(log, current, name)
                for name in names
                if str(name) in complete and difference(log, current, name)
            }
            ever_complete += len(complete)
            report = "\n".join(schedule.trace[-300:])
            assert wrong == {}, f"seed {seed}, stop {stop}: {wrong}\n{report}"
            for name in names:
                state = read_states(current).get(name)
                if str(name) not in complete and dice.random() < 0.7:
                    if state is not None and state.parked is not None:
                        rebuild(str(name), lake, dsn=database.url)
                    else:
                        snapshot(str(name), LOG, dsn=database.url)
            pipeline.run()
            for name in names:
                if exists(place_of(current, name)) and dice.random() < 0.3:
                    with suppress(SluiceError):  # a table that is too small
                        compact(str(place_of(current, name)))
    finally:
        schedule.close()
    assert ever_complete > 0


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
