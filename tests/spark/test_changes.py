"""The pipeline `changes`, in this process: every kind of change, and what each table is after it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from conftest import Database
from pgsluice.errors import CaptureError, ConfigurationError, LogNotFoundError, SluiceError
from pgsluice.pipelines.changes import changes
from pgsluice.pipelines.current_state.table import CurrentTable, live, names_in
from spark.conftest import LOG
from spark.lake_reading import lake_table
from support import value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgsluice.pipelines.events import EventStream


class Place:
    """A lake and its checkpoint, and the database whose changes it gets."""

    def __init__(self, spark: SparkSession, database: Database, folder: Path) -> None:
        self.spark = spark
        self.lake = folder / "lake"
        self.checkpoint = folder / "checkpoint"
        self.dsn = database.url

    def run(self, **options: Any) -> EventStream:
        return changes(
            LOG, self.lake, self.checkpoint, dsn=self.dsn, spark=self.spark,
            **{"once": True, **options},
        )  # fmt: skip

    def rows(self, table: str) -> list[tuple]:
        return sorted(map(tuple, live(self.spark, self.lake, table).collect()), key=repr)


@pytest.fixture
def place(spark: SparkSession, database_18: Database, tmp_path: Path) -> Place:
    return Place(spark, database_18, tmp_path)


def rows_of(connection: psycopg.Connection, query: str) -> list[tuple]:
    return sorted(connection.execute(query).fetchall(), key=repr)


@pytest.mark.slow
def test_every_kind_of_change_ends_in_the_current_state(place: Place, log: psycopg.Connection):
    log.execute("create table account (id int primary key, name text, balance numeric(10, 2))")
    log.execute("create table note (at date, text text)")
    log.execute('create table "Odd.Table" (a text, b bool, primary key (a, b))')
    log.execute("insert into account select n, 'before', n from generate_series(1, 2500) as n")
    for table in ("account", "note"):
        log.execute("select sluice.capture(%s, %s)", (table, LOG))
    log.execute(
        'create trigger t after insert or update or delete on "Odd.Table" for each row '
        f"execute function pgq.jsontriga('{LOG}')"
    )
    log.execute("select pgq.insert_event(%s, 'order.created', '{}')", (LOG,))

    # Rows of before, with changes beside them.
    log.execute("update account set name = 'changed' where id % 10 = 0")
    log.execute("insert into note select '2026-01-01', n::text from generate_series(1, 3) as n")
    stream = place.run(snapshots=["account"])
    first = stream.progress()
    assert place.rows("public.account") == rows_of(log, "select * from account")

    # Deletes, inserts after them, keys that move into the place of others, a column that is new.
    log.execute("delete from account where id <= 20")
    log.execute("insert into account values (1, 'again', 1.10), (2, 'again', null)")
    log.execute("delete from account where id = 2")
    log.execute("update account set id = id + 10000 where id > 2400")
    log.execute("alter table account add column since date")
    log.execute("update account set since = '2026-01-01' where id between 100 and 110")
    log.execute("insert into note values ('2026-01-01', '1'), ('2026-01-01', '1')")
    log.execute("delete from note where ctid in (select ctid from note where text = '1' limit 2)")
    log.execute("update note set text = 'changed' where text = '2'")
    log.execute("""insert into "Odd.Table" values ('a', true), ('b', false)""")
    log.execute("""delete from "Odd.Table" where a = 'b'""")
    second = place.run(snapshots=["account"]).progress()

    expected = rows_of(log, "select id, name, balance, since from account")
    assert place.rows("public.account") == expected
    assert [
        row.asDict()
        for row in live(place.spark, place.lake, "public.note").select("text").collect()
    ] != []
    assert sorted(
        row["text"] for row in live(place.spark, place.lake, "public.note").collect()
    ) == [text for (text,) in rows_of(log, "select text from note")]
    assert place.rows("public.Odd.Table") == [("a", True)]
    assert names_in(place.lake / "current") == ["public.Odd.Table", "public.account", "public.note"]

    # A truncate, and what comes after it.
    log.execute(
        "begin; truncate account, note; insert into account values (7, 'new', 7, null); commit"
    )
    third = place.run(snapshots=["account"]).progress()

    assert place.rows("public.account") == rows_of(log, "select * from account")
    assert place.rows("public.note") == []
    in_log = value(log, "select count(*) from pgq.event_1")
    assert lake_table(place.lake / "events").num_rows == in_log
    assert first.rows + second.rows + third.rows == in_log


@pytest.mark.slow
def test_executors_apply_what_the_driver_would(place: Place, log: psycopg.Connection):
    log.execute("create table account (id bigint primary key, name text)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    options = {"buckets": {"public.account": 8}}
    log.execute("insert into account select n, n::text from generate_series(1, 1000) as n")
    place.run(**options)
    before = files_of(place)

    log.execute("update account set name = 'one' where id = 1")
    log.execute("alter table account add column since date")
    log.execute("update account set id = -2, since = '2026-01-01' where id = 2")
    log.execute("delete from account where id = 3")
    place.run(**options)

    assert place.rows("public.account") == rows_of(log, "select * from account")
    assert len(before) == 8
    assert len(files_of(place) & before) >= 4  # the others were not touched
    log.execute("delete from account where id = 4")
    with pytest.raises(ConfigurationError, match="has 8 buckets, and buckets says none"):
        place.run()

    log.execute("begin; truncate account; insert into account values (5, 'five'); commit")
    place.run(**options)

    assert place.rows("public.account") == rows_of(log, "select * from account")


def files_of(place: Place) -> set[str]:
    table = CurrentTable.open(place.lake / "current", "public.account")
    assert table is not None
    return set(table.files)


@pytest.mark.slow
def test_what_cannot_be_kept_stops_the_stream_with_a_way_out(place: Place, log: psycopg.Connection):
    log.execute("create table account (id int primary key, due date)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    log.execute("insert into account values (1, '2026-01-01'), (2, 'infinity')")

    with pytest.raises(SluiceError, match="text_columns=public.account.due"):
        place.run()
    # Events are there already, and the current state is not: it comes with the same micro-batch.
    place.run(text_columns=["public.account.due"])

    assert place.rows("public.account") == [(1, "2026-01-01"), (2, "infinity")]
    assert lake_table(place.lake / "events").num_rows == 2


@pytest.mark.slow
def test_only_chosen_tables_get_a_current_state(place: Place, log: psycopg.Connection):
    log.execute("create table account (id int primary key)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    log.execute("insert into account values (1)")

    place.run(tables=["public.other"])

    assert names_in(place.lake / "current") == []
    assert lake_table(place.lake / "events").num_rows == 1


@pytest.mark.slow
def test_mistakes_are_named(place: Place, log: psycopg.Connection):
    with pytest.raises(LogNotFoundError):
        changes("none", place.lake, place.checkpoint, dsn=place.dsn, spark=place.spark)
    with pytest.raises(ConfigurationError, match="use a number from 2"):
        place.run(buckets={"public.account": 1})
    log.execute("create table account (id int primary key)")
    with pytest.raises(CaptureError, match="is not captured into event log"):
        place.run(snapshots=["account"])


@pytest.mark.slow
def test_lake_of_changes_that_is_moved_keeps_its_consumer(place: Place, log: psycopg.Connection):
    log.execute("create table item (id int primary key)")
    log.execute("select sluice.capture('item', %s)", (LOG,))
    log.execute("insert into item values (1)")
    name = place.run().consumer
    moved = place.lake.parent / "moved"
    moved.mkdir()
    place.lake = place.lake.rename(moved / "lake")
    place.checkpoint = place.checkpoint.rename(moved / "checkpoint")
    log.execute("insert into item values (2)")

    assert place.run().consumer == name

    assert place.rows("public.item") == [(1,), (2,)]
    assert log.execute("select consumer_name from pgq.get_consumer_info()").fetchall() == [(name,)]
