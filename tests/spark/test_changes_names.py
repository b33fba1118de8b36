"""Names of tables and columns that PostgreSQL allows, in the lake and in the state of its tables."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from pgsluice.lake.current_tables import read_states
from pgsluice.lake.names import TableName
from pgsluice.verify import verify_changes
from spark.conftest import LOG
from spark.test_changes import Place, place

__all__ = ["place"]

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
