"""Names of tables and columns that PostgreSQL allows, in the lake and in the state of its tables."""

from __future__ import annotations

import random
from collections.abc import Collection
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from pgsluice.lake.current_tables import Tables, read_states
from pgsluice.lake.names import TableName
from pgsluice.pipelines.current_state import event_files
from pgsluice.verify import verify_changes, verify_current
from spark.conftest import LOG
from spark.current_states import States
from spark.odd_tables import OddTable
from spark.test_changes import Place, place
from support import value
from support.servers import Database

__all__ = ["place"]

GOOD = OddTable(TableName("public", "good"), {"id": "bigint", "v": "text"}, True, "capture", False)
LONG = "длинное_имя_таблицы_для_проверки"[:31]


def create(log: psycopg.Connection, name: TableName, *columns: str) -> None:
    """Create and capture a table with a key `id` and columns of text, and change its rows."""
    table = sql.Identifier(name.schema, name.table)
    names = [sql.Identifier(column) for column in columns]
    log.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(name.schema)))
    texts = [sql.SQL("{} text").format(column) for column in names]
    inside = sql.SQL(", ").join([sql.SQL("id int primary key"), *texts])
    log.execute(sql.SQL("create table {} ({})").format(table, inside))
    log.execute("select sluice.capture(%s::regclass, %s)", (str(name), LOG))


def change(log: psycopg.Connection, name: TableName, *columns: str) -> None:
    table = sql.Identifier(name.schema, name.table)
    log.execute(
        sql.SQL("insert into {} select n, {} from generate_series(1, 4) as n").format(
            table, sql.SQL(", ").join([sql.SQL("'text ' || n")] * len(columns))
        )
    )
    for column in columns:
        log.execute(
            sql.SQL("update {} set {} = 'changed' where id = 2").format(
                table, sql.Identifier(column)
            )
        )
    log.execute(sql.SQL("delete from {} where id = 1").format(table))


NAMES = {
    TableName("a.b", "c"): ("v",),
    TableName("a", "b.c"): ("v",),
    TableName("public", "tick`s"): ("a`b", "c"),
    TableName("public", "own"): ("_Deleted", "_SEQ", "_ROW", "_Bucket", "_changed_AT"),
    TableName(LONG, LONG): (LONG, 'say "x"', "100%", "a.b", "%5Fseq"),
    TableName("public", "user"): ("order",),
    TableName("public", "good"): ("v",),
}


@pytest.mark.slow
def test_tables_and_columns_of_any_name_have_their_own_current_state(
    place: Place, log: psycopg.Connection
):
    for name, columns in NAMES.items():
        create(log, name, *columns)
        change(log, name, *columns)
    place.run(snapshots=[str(name) for name in NAMES])
    for name, columns in NAMES.items():
        log.execute(sql.SQL("delete from {}").format(sql.Identifier(name.schema, name.table)))
        change(log, name, *columns)

    progress = place.run(snapshots=[str(name) for name in NAMES]).progress()

    assert progress.parked == ()
    for name in NAMES:
        assert place.equal(str(name)), name
        assert len(place.rows(str(name))) == 3
    assert read_states(place.current).keys() == NAMES.keys()
    found = verify_changes(LOG, place.lake, dsn=place.dsn)
    assert found.problems == {}
    assert set(found.complete) == {str(name) for name in NAMES}


def require_equal_or_parked(
    tables: list[OddTable], current: Tables, parked: Collection[str], dsn: str
) -> None:
    for table in tables:
        place = current.place_of(table.name)
        if str(table.name) in parked:
            assert table.may_park, read_states(current)[table.name].parked
        else:
            report = verify_current(str(table.name), str(place), dsn=dsn)
            assert report.equal, f"{table}: {report}\n{report.differences}"


def test_tables_of_random_names_and_values_are_equal_or_parked(
    current: Tables, log: psycopg.Connection, database_18: Database, tmp_path: Path, seed: int
):
    dice, used = random.Random(seed), {GOOD.name}
    tables = [*(OddTable.drawn(dice, used) for _ in range(6)), GOOD]
    states = States(database_18, log, current, tmp_path)
    for table in tables:
        table.create(log)

    for batch_id in range(3):
        for table in tables:
            table.change(log, dice, only_insert=not batch_id)
        states.update()

    parked = set(map(str, states.parking.parked()))
    require_equal_or_parked(tables, current, parked, database_18.url)


@pytest.mark.slow
def test_pipeline_with_random_names_and_values_parks_or_equals_each_table(
    place: Place, log: psycopg.Connection, seed: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(event_files, "_EVENTS_ON_DRIVER_MAX", 0)
    dice, used = random.Random(seed), {GOOD.name}
    tables = [*(OddTable.drawn(dice, used) for _ in range(5)), GOOD]
    options: dict[str, Any] = {
        "buckets": {str(t.name): 2 for t in tables if t.has_key and dice.random() < 0.5},
        "snapshots": [str(table.name) for table in tables if table.trigger == "capture"],
        "apply_every_s": 0,
    }
    for table in tables:
        table.create(log)

    for batch_id in range(3):
        for table in tables:
            table.change(log, dice, only_insert=not batch_id)
        parked = place.run(**options).progress().parked

    require_equal_or_parked(tables, place.current, parked, place.dsn)
    for table in tables:
        if str(table.name) not in parked:
            count = value(log, sql.SQL("select count(*) from {}").format(table.identifier))
            assert len(place.rows(str(table.name))) == count
