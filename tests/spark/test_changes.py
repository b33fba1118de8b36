"""The pipeline `changes`, in this process: current-state tables after every kind of change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pgsluice.errors import CaptureError, ChangeError, ConfigurationError, LogNotFoundError
from pgsluice.lake.current_tables import Tables
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import names_in, tables_in
from pgsluice.pipelines.changes import changes
from pgsluice.pipelines.config import Pipeline
from pgsluice.pipelines.current_state.table import CurrentTable, live
from pgsluice.verify import verify_current
from spark.changing import NAME
from spark.conftest import LOG
from spark.lake_reading import lake_table
from support import value, wait_until
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgsluice.pipelines.events import EventStream


class Place:
    """A lake, its checkpoint, and the database whose changes it receives."""

    def __init__(
        self, spark: SparkSession, database: Database, folder: Path, lake: Path | str
    ) -> None:
        self.spark = spark
        self.lake = lake
        self.checkpoint = folder / "checkpoint"
        self.dsn = database.url

    def run(self, **options: Any) -> EventStream:
        """Run the pipeline with the options that a configuration has."""
        place = {"lake": self.lake, "checkpoint": self.checkpoint, "dsn": self.dsn}
        given = {"log": LOG, **place, "spark": self.spark, "once": True, **options}
        return Pipeline("changes", "changes", given).run()

    def rows(self, table: str) -> list[tuple]:
        return sorted(map(tuple, live(self.spark, self.lake, table).collect()), key=repr)

    def equal(self, table: str) -> bool:
        return verify_current(table, self.at(table), dsn=self.dsn).equal

    def at(self, table: str) -> str:
        return str(self.current.place_of(TableName.parse(table)))

    @property
    def current(self) -> Tables:
        return tables_in(self.lake)

    @property
    def events(self) -> str:
        return str(self.current.events)

    @property
    def folder(self) -> Path:
        assert isinstance(self.lake, Path)
        return self.lake


@pytest.fixture(params=["delta", "iceberg"])
def place(
    spark: SparkSession, database_18: Database, tmp_path: Path, request: pytest.FixtureRequest
) -> Place:
    is_iceberg = request.param == "iceberg"
    lake = request.getfixturevalue("iceberg") if is_iceberg else tmp_path / "lake"
    return Place(spark, database_18, tmp_path, lake)


only_delta = pytest.mark.parametrize("place", ["delta"], indirect=True)


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

    # Existing rows, with concurrent changes.
    log.execute("update account set name = 'changed' where id % 10 = 0")
    log.execute("insert into note select '2026-01-01', n::text from generate_series(1, 3) as n")
    stream = place.run(snapshots=["account"])
    first = stream.progress()
    assert place.rows("public.account") == rows_of(log, "select * from account")

    # Deletes, re-inserts, rows that take over keys of others, and a new column.
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
    assert place.rows('public."Odd.Table"') == [("a", True)]
    assert list(map(str, names_in(place.current))) == [
        'public."Odd.Table"',
        "public.account",
        "public.note",
    ]

    # A truncate, and changes after it.
    log.execute(
        "begin; truncate account, note; insert into account values (7, 'new', 7, null); commit"
    )
    third = place.run(snapshots=["account"]).progress()

    assert place.rows("public.account") == rows_of(log, "select * from account")
    assert place.rows("public.note") == []
    in_log = value(log, "select count(*) from pgq.event_1")
    assert lake_table(place.events).num_rows == in_log
    assert first.rows + second.rows + third.rows == in_log


@pytest.mark.slow
def test_values_that_python_cannot_decode_are_in_the_current_state(
    place: Place, log: psycopg.Connection
):
    """Without them, the change of the row was missed, or the stream failed."""
    log.execute("create table hard (id int primary key, doc jsonb, text text)")
    log.execute("select sluice.capture('hard', %s)", (LOG,))
    log.execute("insert into hard select n, '[1]', 'first' from generate_series(1, 5) as n")
    log.execute("update hard set doc = %s where id = 2", ("[" * 3000 + "]" * 3000,))
    log.execute("update hard set doc = %s, text = 'second' where id = 4", ("1" + "0" * 5000,))

    place.run(tables=["public.hard"])

    assert place.rows("public.hard") == rows_of(log, "select id, doc::text, text from hard")


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
    assert len(files_of(place) & before) >= 4  # the other tables were not written
    log.execute("delete from account where id = 4")
    place.run(**options)
    log.execute("begin; truncate account; insert into account values (5, 'five'); commit")
    place.run(**options)

    assert place.rows("public.account") == rows_of(log, "select * from account")


def files_of(place: Place) -> set[str]:
    table = CurrentTable.open(place.current, NAME)
    assert table is not None
    return set(table.files)


@pytest.mark.slow
def test_unstorable_change_stops_the_stream_with_a_hint(place: Place, log: psycopg.Connection):
    log.execute("create table account (id int primary key, due date)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    log.execute("insert into account values (1, '2026-01-01'), (2, '0044-03-15 BC')")

    with pytest.raises(ChangeError, match="column_types=.*public.account.due"):
        place.run(on_bad_value="fail")
    # Events exist already but no current-state table: the same micro-batch creates it.
    place.run(column_types={"public.account.due": "string"})

    assert place.rows("public.account") == [(1, "2026-01-01"), (2, "0044-03-15 BC")]
    assert lake_table(place.events).num_rows == 2


@pytest.mark.slow
@only_delta
def test_only_chosen_tables_get_a_current_state(place: Place, log: psycopg.Connection):
    log.execute("create table account (id int primary key)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    log.execute("insert into account values (1)")

    place.run(tables=["public.other"])

    assert names_in(place.current) == []
    assert lake_table(place.events).num_rows == 1


@pytest.mark.slow
@only_delta
def test_mistakes_are_named(place: Place, log: psycopg.Connection):
    with pytest.raises(LogNotFoundError):
        changes("none", place.lake, place.checkpoint, dsn=place.dsn, spark=place.spark)
    with pytest.raises(ConfigurationError, match="use park, null, fail"):
        place.run(on_bad_value="skip")
    with pytest.raises(ConfigurationError, match="use a number from 2"):
        place.run(buckets={"public.account": 1})
    with pytest.raises(ConfigurationError, match="driver_memory 'much' is not a size"):
        place.run(driver_memory="much")
    log.execute("create table account (id int primary key)")
    with pytest.raises(CaptureError, match="is not captured into event log"):
        place.run(snapshots=["account"])


@pytest.mark.slow
@only_delta
def test_lake_of_changes_that_is_moved_keeps_its_consumer(place: Place, log: psycopg.Connection):
    log.execute("create table item (id int primary key)")
    log.execute("select sluice.capture('item', %s)", (LOG,))
    log.execute("insert into item values (1)")
    name = place.run().consumer
    moved = place.folder.parent / "moved"
    moved.mkdir()
    place.lake = place.folder.rename(moved / "lake")
    place.checkpoint = place.checkpoint.rename(moved / "checkpoint")
    log.execute("insert into item values (2)")

    assert place.run().consumer == name

    assert place.rows("public.item") == [(1,), (2,)]
    assert log.execute("select consumer_name from pgq.get_consumer_info()").fetchall() == [(name,)]


@pytest.mark.slow
@only_delta
def test_current_state_is_updated_less_often_than_events_arrive(
    place: Place, log: psycopg.Connection
):
    log.execute("create table account (id int primary key, name text)")
    log.execute("create table note (text text)")
    for table in ("account", "note"):
        log.execute("select sluice.capture(%s, %s)", (table, LOG))
    stream = place.run(once=False, trigger_s=0.1, apply_every_s=3600)

    def arrived(count: int) -> None:
        log.execute("select sluice.log_tick(%s)", (LOG,))
        wait_until(lambda: lake_table(place.events).num_rows == count, "the events", 60)

    log.execute("insert into account values (1, 'a'); insert into note values ('x'), ('x')")
    stream.catch_up()  # applies at once
    log.execute("update account set name = 'b'; insert into note values ('y')")
    arrived(5)
    log.execute("delete from note where ctid = (select min(ctid) from note)")
    arrived(6)
    assert place.rows("public.account") == [(1, "a")]
    stream.catch_up()
    assert place.rows("public.account") == [(1, "b")]
    assert place.rows("public.note") == [("x",), ("y",)]

    log.execute("delete from note where text = 'x'")
    arrived(7)
    stream.stop()
    assert place.rows("public.note") == [("x",), ("y",)]
    # The pending micro-batch is in the lake and not in the log.
    place.run(apply_every_s=3600)
    assert place.rows("public.note") == [("y",)]


@pytest.mark.slow
@only_delta
def test_due_update_needs_no_further_event(place: Place, log: psycopg.Connection):
    log.execute("create table account (id int primary key)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    with place.run(once=False, trigger_s=0.1, apply_every_s=2) as stream:
        log.execute("insert into account values (1)")
        stream.catch_up()
        log.execute("insert into account values (2)")
        log.execute("select sluice.log_tick(%s)", (LOG,))

        wait_until(lambda: place.rows("public.account") == [(1,), (2,)], "the update", 60)


@pytest.mark.slow
@only_delta
def test_no_snapshot_begins_after_a_stream_has_ended_without_an_offset(
    place: Place, log: psycopg.Connection
):
    log.execute("create table account (id int primary key)")
    log.execute("insert into account select generate_series(1, 3)")
    log.execute("select sluice.capture('account', %s)", (LOG,))

    stream = place.run(once=False, snapshots=["account"])
    stream.query.stop()  # before the consumer is registered, without which a rotation removes the rows
    stream._threads[0].join(2)
    assert stream.offset() is None
    assert value(log, "select count(*) from pgq.event_1") == 0

    stream.stop()
    place.run(snapshots=["account"])
    assert place.equal("public.account")
