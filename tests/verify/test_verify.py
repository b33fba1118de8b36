"""`verify`: equal copies are equal; each kind of difference is reported with the differing rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable, write_deltalake
from psycopg.conninfo import make_conninfo

from pgsluice.cli.pipeline import pipeline
from pgsluice.errors import (
    ConfigurationError,
    ConsumerNotFoundError,
    LogNotFoundError,
    QueueNotFoundError,
)
from pgsluice.lake.delta.opening import open_dataset
from pgsluice.verify import Report, verify_archive, verify_current, verify_events
from support.servers import Database
from verify.conftest import ACCOUNTS, ARCHIVE, EVENTS, archive_rows, event_rows, lake_of

NONE = {"missing": 0, "extra": 0, "doubled": 0, "changed": 0, "type": 0, "parked": 0}
Change = Callable[[pa.Table], pa.Table]


def rewrite(path: Path, change: Change) -> None:
    table = open_dataset(path).to_table().sort_by(first_column(path))
    write_deltalake(str(path), change(table), mode="overwrite", schema_mode="overwrite")


def first_column(path: Path) -> str:
    return DeltaTable(str(path)).schema().fields[0].name


def with_value(table: pa.Table, row: int, column: str, value: Any) -> pa.Table:
    values = table[column].to_pylist()
    values[row] = value
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.field(at), pa.array(values, table.field(at).type))


def as_type(table: pa.Table, column: str, kind: pa.DataType) -> pa.Table:
    at = table.schema.get_field_index(column)
    return table.set_column(at, column, table[column].cast(kind))


def third_removed(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, 2), table.slice(3)])


def third_twice(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table.slice(2, 1)])


def with_a_stranger(table: pa.Table) -> pa.Table:
    # A recent transaction id: events older than the log's oldest may exist only in the lake.
    stranger = with_value(table.slice(2, 1), 0, table.column_names[0], 1000)
    if "ev_txid" in table.column_names:
        stranger = with_value(stranger, 0, "ev_txid", pc.max(table["ev_txid"]).as_py())
    return pa.concat_tables([table, stranger])


# Fixture → the comparison, a text column and a column of another type.
SUBJECTS: dict[str, tuple[Callable[..., Report], tuple[str, str]]] = {
    "archive": (lambda lake, dsn: verify_archive("q", lake, dsn=dsn), ("message", "read_ct")),
    "events": (lambda lake, dsn: verify_events("l", lake, dsn=dsn), ("ev_data", "ev_time")),
    "accounts": (
        lambda lake, dsn: verify_current("bank.accounts", lake, dsn=dsn),
        ("name", "balance"),
    ),
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_each_kind_of_difference_is_found_and_shown(
    subject: str, database_18: Database, request: pytest.FixtureRequest
):
    lake: Path = request.getfixturevalue(subject)
    compare, (text, typed) = SUBJECTS[subject]
    key = first_column(lake)
    equal = compare(lake, database_18.url)
    planted: dict[str, Change] = {
        "missing": third_removed,
        "extra": with_a_stranger,
        "doubled": third_twice,
        "changed": lambda table: with_value(table, 2, text, "not this"),
        "type": lambda table: as_type(table, typed, pa.string()),
    }
    if (
        subject == "accounts"
    ):  # text is a valid type here, as JSON has text for types that the lake lacks
        planted["type"] = lambda table: as_type(table, typed, pa.int32())
    rows = open_dataset(lake).to_table()

    assert (equal.equal, dict(equal.counts), equal.differences) == (True, NONE, ())
    assert equal.postgresql.digest == equal.in_lake.digest
    assert equal.postgresql.rows == equal.in_lake.rows == 20
    for kind, change in planted.items():
        rewrite(lake, change)
        report = compare(lake, database_18.url)
        assert dict(report.counts) == NONE | {kind: 1}, kind
        assert report.equal is False
        (difference,) = report.differences
        assert difference.kind == kind
        if kind == "type":
            assert difference.key == {"column": typed}
        else:
            assert difference.key[key] == ("1000" if kind == "extra" else "3")
        if kind == "changed":
            assert difference.lake == {text: "not this"}
            assert difference.postgresql is not None
            assert list(difference.postgresql) == [text]
        write_deltalake(str(lake), rows, mode="overwrite", schema_mode="overwrite")
    assert compare(lake, database_18.url).equal


def test_all_differences_are_counted_and_the_first_by_key_are_shown(
    archive: Path, db: psycopg.Connection[Any], database_18: Database
):
    db.execute("delete from pgmq.a_q where msg_id between 4 and 10")
    db.execute("update pgmq.a_q set message = '7' where msg_id >= 11")
    db.execute("insert into pgmq.a_q (msg_id, vt) select n, now() from generate_series(101, 110) as n")  # fmt: skip

    report = verify_archive("q", archive, dsn=database_18.url, show=2)

    assert dict(report.counts) == NONE | {"missing": 10, "extra": 7, "changed": 10}
    assert [(d.kind, d.key["msg_id"]) for d in report.differences] == [
        ("missing", "101"),
        ("missing", "102"),
        ("extra", "4"),
        ("extra", "5"),
        ("changed", "11"),
        ("changed", "12"),
    ]
    missing, changed = report.differences[0], report.differences[-1]
    assert missing.lake is None
    assert (missing.postgresql or {})["read_ct"] == "0"
    assert (missing.postgresql or {})["vt"] is not None
    assert (changed.postgresql, changed.lake) == ({"message": "7"}, {"message": None})


def test_row_dropped_from_the_archive_may_be_in_the_lake_once(
    archive: Path, db: psycopg.Connection[Any], database_18: Database
):
    db.execute("delete from pgmq.a_q where msg_id <= 10")
    dropped = verify_archive("q", archive, dsn=database_18.url, dropped=True)
    rewrite(archive, third_twice)
    twice = verify_archive("q", archive, dsn=database_18.url, dropped=True)

    assert (dropped.equal, dropped.in_lake.only_here) == (True, 10)
    assert dict(twice.counts) == NONE | {"doubled": 1}


def test_only_rows_archived_after_the_export_may_be_missing_in_the_lake(
    archive: Path, db: psycopg.Connection[Any], database_18: Database
):
    ((moment,),) = db.execute("select clock_timestamp()").fetchall()
    db.execute("select pgmq.send('q', '1')")
    db.execute("select pgmq.archive('q', 21)")

    later = verify_archive("q", archive, dsn=database_18.url, archived_before=moment)
    rewrite(archive, third_removed)
    before = verify_archive("q", archive, dsn=database_18.url, archived_before=moment)

    assert (later.equal, later.postgresql.only_here) == (True, 1)
    assert dict(before.counts) == NONE | {"missing": 1}


def test_a_queue_is_compared_without_the_time_of_archiving(
    db: psycopg.Connection[Any], database_18: Database, tmp_path: Path
):
    db.execute("select pgmq.create('q')")
    db.execute("select pgmq.send('q', '{\"n\": 1}')")
    db.execute("select pgmq.archive('q', pgmq.send('q', '{}'))")
    query = "select msg_id, read_ct, enqueued_at, vt, message::text, headers::text from pgmq.q_q"
    names = ("msg_id", "read_ct", "enqueued_at", "vt", "message", "headers")
    rows = [dict(zip(names, row, strict=True)) for row in db.execute(query)]
    schema = ARCHIVE.remove(ARCHIVE.get_field_index("archived_at"))
    lake = lake_of(db, rows, schema, tmp_path / "lake")

    assert verify_archive("q", lake, table="queue", dsn=database_18.url).equal


def test_events_outside_of_the_ticks_may_be_on_one_side_alone_and_those_between_may_not(
    db: psycopg.Connection[Any], database_18: Database, events: Path
):
    db.execute("select pgq.register_consumer('l', 'c')")
    with database_18.connect(autocommit=False) as late:
        # In progress at the last tick: it belongs to the next batch despite its low transaction
        # id.
        late.execute("select pgq.insert_event('l', 'late', '')")
        db.execute("select pgq.insert_event('l', 'early', '')")
        tick(db)
        late.commit()
    lagging = verify_events("l", events, consumer="c", dsn=database_18.url)
    to_the_newest = verify_events("l", events, dsn=database_18.url)
    # As if the stream had read both events, and the first half had been rotated away.
    rows = event_rows(db)
    lake_of(db, rows[20:], EVENTS, events)
    ahead = verify_events("l", events, consumer="c", dsn=database_18.url)
    db.execute("delete from pgq.event_1 where ev_id <= %s", (rows[9]["ev_id"],))
    db.execute("delete from pgq.tick where tick_id = 1")
    rotated = verify_events("l", events, dsn=database_18.url)
    db.execute("delete from pgq.event_1 where ev_id = %s", (rows[10]["ev_id"],))
    lost = verify_events("l", events, dsn=database_18.url)

    assert (lagging.equal, lagging.postgresql.only_here) == (True, 2)
    assert dict(to_the_newest.counts) == NONE | {"missing": 1}
    assert [(d.postgresql or {})["ev_type"] for d in to_the_newest.differences] == ["early"]
    assert (ahead.equal, ahead.postgresql.only_here, ahead.in_lake.only_here) == (True, 0, 0)
    assert (rotated.equal, rotated.in_lake.only_here) == (True, 10)
    assert dict(lost.counts) == NONE | {"extra": 1}


def tick(db: psycopg.Connection[Any]) -> None:
    db.execute("select pgq.force_tick('l')")
    db.execute("select pgq.ticker('l')")


def test_of_a_lake_of_shards_those_of_one_database_are_compared(
    db: psycopg.Connection[Any], database_18: Database, events: Path, tmp_path: Path
):
    other = [row | {"shard": "us", "ev_type": "other"} for row in event_rows(db)]
    own = [row | {"shard": "eu"} for row in event_rows(db)]
    lake = lake_of(db, [*own, *other], EVENTS.append(pa.field("shard", pa.string())), tmp_path / "both")  # fmt: skip

    assert verify_events("l", lake, shard="eu", dsn=database_18.url).equal
    assert verify_events("l", lake, shard="us", dsn=database_18.url).counts["changed"] == 20
    with pytest.raises(ConfigurationError, match="several shards; select one with shard"):
        verify_events("l", lake, dsn=database_18.url)
    with pytest.raises(ConfigurationError, match="a single database; omit shard"):
        verify_events("l", events, shard="eu", dsn=database_18.url)


def test_event_retried_for_one_consumer_is_not_counted_in_the_log(
    db: psycopg.Connection[Any], database_18: Database, events: Path
):
    db.execute(
        "insert into pgq.event_1_0 (ev_id, ev_time, ev_owner, ev_type) values (5, now(), 7, 'again')"
    )
    tick(db)

    assert verify_events("l", events, dsn=database_18.url).equal


KINDS_OF_VALUES = """
    create type mood as enum ('glad');
    create type pair as (a int, b text);
    create domain positive as numeric(10,2) check (value > 0);
    create domain small as positive;
    create table kinds (
        id bigint primary key, i2 smallint, i4 int, f4 real, f8 double precision, yes boolean, day date, at timestamptz,
        there timestamp, bytes bytea, dec small, big numeric, word char(5), mood mood, pair pair, list int[],
        doc jsonb, raw json, span interval, uid uuid, clock time,
        made int generated always as (i4 - 1) stored
    );
    insert into kinds values
        (1, -32768, 2147483647, 0.1, 1e-300, true, '2026-02-28', '2026-01-31 10:00:00.000001+09', '0001-01-01',
         '\\x00ff5c', 1.50, 123456789012345678901234567890.10, 'ab', 'glad', '(1,"x y")', '{1,null}',
         '{"b": [1.50, "ü"], "a": null}', ' {"b":1.0} ', '1 day 02:03', '00000000-0000-0000-0000-000000000001', '10:00'),
        (2, null, null, 'NaN', 'Infinity', false, '0001-01-01', '9999-12-31', null, '', 0.01, 'NaN', '', null, null,
         '{}', '"text"', 'null', '0', null, null),
        (3, 0, 0, '-0', 5e-324, null, null, null, null, null, 100, 0.00, null, null, null, null, null, null, null,
         null, null);
"""


def captured(db: psycopg.Connection[Any]) -> pa.Table:
    """Return the rows as in a current-state table: their JSON values in the lake's types."""
    db.execute("set timezone = 'UTC'")
    db.execute("set intervalstyle = 'iso_8601'")
    query = (
        "select row_to_json(r) from (select id, i2, i4, f4::text, f8::text, yes, day::text, at::text, there::text,"
        " bytes, dec::text, big::text, word, mood, pair::text, to_json(list)::text as list, doc::text as doc,"
        " nullif(btrim(raw::text), 'null') as raw, span::text, uid::text, clock::text, made, null::int as dropped from kinds) as r"
    )
    rows = [row for (row,) in db.execute(query)]
    for row in rows:
        row["bytes"] = None if row["bytes"] is None else bytes.fromhex(row["bytes"][2:])
    types = {
        "id": pa.int64(), "i2": pa.int16(), "i4": pa.int64(), "f4": pa.float64(), "f8": pa.float64(),
        "yes": pa.bool_(), "day": pa.date32(), "at": pa.timestamp("us", "UTC"), "there": pa.timestamp("us"),
        "bytes": pa.binary(), "dec": pa.decimal128(10, 2), "made": pa.int32(), "dropped": pa.int32(),
    }  # fmt: skip
    columns = {}
    for name in rows[0]:
        array = pa.array([row[name] for row in rows])
        columns[name] = array.cast(types.get(name, pa.string()))
    return pa.table(columns)


def test_values_of_all_types_are_compared_as_what_they_are(
    db: psycopg.Connection[Any], database_18: Database, tmp_path: Path
):
    db.execute(KINDS_OF_VALUES)
    lake = tmp_path / "lake"
    write_deltalake(str(lake), captured(db))
    equal = verify_current("kinds", lake, dsn=database_18.url)
    db.execute("update kinds set f4 = 0.1000001, f8 = 1.0000000000000002e-300, dec = 1.51, big = big + 0.01,"
               " at = at + interval '1 microsecond', bytes = '\\x00ff5d', doc = doc || '{\"c\": 1}' where id = 1")  # fmt: skip
    changed = verify_current("kinds", lake, dsn=database_18.url)

    assert equal.equal, equal.differences
    assert equal.ignored == ("dropped",)
    assert set(equal.columns) | {"dropped"} == set(captured(db).column_names)
    (difference,) = changed.differences
    assert set(difference.lake or ()) == {"f4", "f8", "dec", "big", "at", "bytes", "doc"}
    assert (difference.lake or {})["at"] == "2026-01-31T01:00:00.000001Z"
    assert (difference.lake or {})["f8"] == "1e-300"


def test_text_of_the_lake_that_is_not_utf_8_is_a_difference_in_its_column(
    db: psycopg.Connection[Any], database_18: Database, tmp_path: Path
):
    db.execute("create table t (id int primary key, v text)")
    db.execute("insert into t values (1, 'a')")
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\3\0\0\0"), pa.py_buffer(b"\\\xff\t")]
    )
    lake = tmp_path / "lake"
    write_deltalake(str(lake), pa.table({"id": [1], "v": ["b"]}))
    (file,) = lake.glob("*.parquet")
    pq.write_table(pa.table({"id": pa.array([1], pa.int64()), "v": text}), file)

    (difference,) = verify_current("t", lake, dsn=database_18.url).differences

    assert (difference.kind, difference.lake) == ("changed", {"v": "\\\\xff\t"})


def test_a_table_without_a_key_is_compared_as_a_bag_of_rows(
    db: psycopg.Connection[Any], database_18: Database, tmp_path: Path
):
    db.execute("create table bag (word text, n int)")
    db.execute("insert into bag values ('a', 1), ('a', 1), (null, 2), ('b', null)")
    rows = [{"word": "a", "n": 1}] * 2 + [{"word": None, "n": 2}, {"word": "b", "n": None}]
    schema = pa.schema({"word": pa.string(), "n": pa.int32()})
    lake = lake_of(db, rows, schema, tmp_path / "lake")
    equal = verify_current("bag", lake, dsn=database_18.url)
    write_deltalake(str(lake), pa.Table.from_pylist(rows[1:3], schema), mode="append")

    assert equal.equal
    assert dict(verify_current("bag", lake, dsn=database_18.url).counts) == NONE | {"doubled": 2}


def test_an_iceberg_table_is_compared_too(
    db: psycopg.Connection[Any],
    database_18: Database,
    archive: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    pytest.importorskip("sqlalchemy", reason="an Iceberg catalogue needs the extra 'iceberg'")
    catalogs = pytest.importorskip(
        "pyiceberg.catalog", reason="the extra 'iceberg' is not installed"
    )
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__HERE__WAREHOUSE", str(tmp_path))
    catalog = catalogs.load_catalog(
        "here", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)
    )
    catalog.create_namespace("lake")
    table = catalog.create_table("lake.q", ARCHIVE)
    address = "iceberg:here/lake.q"
    empty = verify_archive("q", address, dsn=database_18.url, show=0)
    table.append(pa.Table.from_pylist(archive_rows(db), ARCHIVE))
    equal = verify_archive("q", address, dsn=database_18.url)
    table.append(pa.Table.from_pylist(archive_rows(db)[:1], ARCHIVE))
    catalog.close()
    twice = verify_archive("q", address, dsn=database_18.url)

    assert dict(empty.counts) == NONE | {"missing": 20}
    assert (equal.equal, equal.lake) == (True, address)
    assert dict(twice.counts) == NONE | {"doubled": 1}
    with pytest.raises(ConfigurationError, match="there is no lake table iceberg:here/lake.none"):
        verify_archive("q", "iceberg:here/lake.none", dsn=database_18.url)
    with pytest.raises(ConfigurationError, match="pyiceberg has no catalogue 'none'"):
        verify_archive("q", "iceberg:none/lake.q", dsn=database_18.url)


def test_nothing_in_the_lake_is_everything_missing(
    db: psycopg.Connection[Any], database_18: Database, archive: Path, tmp_path: Path
):
    empty = lake_of(db, [], ARCHIVE, tmp_path / "empty")

    report = verify_archive("q", empty, dsn=database_18.url, show=0)

    assert dict(report.counts) == NONE | {"missing": 20}
    assert report.differences == ()


def test_missing_object_is_named(
    db: psycopg.Connection[Any], archive: Path, database_18: Database, tmp_path: Path
):
    dsn = database_18.url
    db.execute("select pgq.create_queue('l')")

    with pytest.raises(QueueNotFoundError, match="queue 'none' does not exist"):
        verify_archive("none", archive, dsn=dsn)
    with pytest.raises(LogNotFoundError, match="event log 'none' does not exist"):
        verify_events("none", archive, dsn=dsn)
    with pytest.raises(
        ConfigurationError, match=r"table 'none' does not exist; name it as schema\.table"
    ):
        verify_current("none", archive, dsn=dsn)
    with pytest.raises(ConfigurationError, match="there is no lake table in"):
        verify_archive("q", tmp_path, dsn=dsn)
    with pytest.raises(
        ConfigurationError, match="column 'ev_id' is bigint in PostgreSQL and missing in the lake"
    ):
        verify_events("l", archive, dsn=dsn)
    with pytest.raises(ConsumerNotFoundError, match="consumer 'none' is not registered"):
        verify_events("l", archive, consumer="none", dsn=dsn)


def test_a_reader_may_compare(
    db: psycopg.Connection[Any], role: str, events: Path, archive: Path, database_18: Database
):
    db.execute(f"grant sluice_reader to {role}")
    dsn = make_conninfo(database_18.url, user=role)

    assert verify_archive("q", archive, dsn=dsn).equal
    assert verify_events("l", events, dsn=dsn).equal


def run(database: Database, *arguments: object) -> Result:
    return CliRunner().invoke(
        pipeline, ["verify", *map(str, arguments), "--dsn", database.url], catch_exceptions=False
    )


def test_verify_reports_as_text_json_and_exit_code(
    db: psycopg.Connection[Any], archive: Path, events: Path, accounts: Path, database_18: Database
):
    same = run(database_18, "archive", "--queue", "q", "--lake", archive)
    log = run(database_18, "events", "--log", "l", "--lake", events)
    table = run(database_18, "current", "--table", "bank.accounts", "--lake", accounts)
    db.execute("update pgmq.a_q set headers = '{\"h\": 2}' where msg_id = 7")
    db.execute("delete from bank.accounts where id = 12")
    other = run(database_18, "archive", "--queue", "q", "--lake", archive, "--json")
    shown = run(database_18, "archive", "--queue", "q", "--lake", archive)
    gone = run(database_18, "current", "--table", "bank.accounts", "--lake", accounts)

    assert (same.exit_code, log.exit_code, table.exit_code) == (0, 0, 0)
    assert same.stdout == (
        "the archive of queue 'q': 20 rows in PostgreSQL, 20 in the lake: no difference\n"
    )
    assert (other.exit_code, shown.exit_code, gone.exit_code) == (1, 1, 1)
    answer = json.loads(other.stdout)
    assert answer["equal"] is False
    assert answer["counts"] == NONE | {"changed": 1}
    assert answer["differences"][0]["postgresql"] == {"headers": '{"h": 2}'}
    assert 'headers {"h": 2}' in shown.stdout
    assert "id 12" in gone.stdout
    assert archive_rows(db)[6]["msg_id"] == 7
    assert ACCOUNTS.field("_deleted")
