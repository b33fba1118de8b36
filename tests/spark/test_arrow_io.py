"""Reading rows as Arrow without Spark: three methods with equal results."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.types import VariantVal

from pgsluice.client.calls import spark as calls
from pgsluice.errors import (
    ConfigurationError,
    ConnectionFailedError,
    ServerError,
    SluiceError,
    UnsupportedReaderError,
)
from pgsluice.spark import arrow_adbc, arrow_io
from pgsluice.spark.access import Access
from pgsluice.spark.arrow_io import Reading, read_batches
from pgsluice.spark.schemas import arrow_schema, struct
from support.servers import Database

READERS = ("adbc", "copy", "rows")
TEXTS = [
    '"quoted", and a \\ slash',
    "line\nbreak\r\n, comma",
    "Zażółć gęślą jaźń 🦆",
    "\\N",
    "\\.",
    "null",
    "",
    " ",
    "\t",
    "x" * 3_000_000,  # longer than a batch
    None,
]


@pytest.fixture(autouse=True)
def no_idle_connections() -> Iterator[None]:
    yield
    arrow_adbc.close_idle()


def read(database: Database, reader: str, query: str, schema: pa.Schema, **options) -> pa.Table:
    batches = read_batches(
        Access(dsn=database.url), query, schema, reading=Reading(reader), **options
    )
    return pa.Table.from_batches(batches, schema)


@pytest.mark.parametrize("reader", READERS)
def test_each_reader_gives_the_same_rows_and_types(
    db: psycopg.Connection, database_18: Database, reader: str
):
    for setting in ("datestyle to 'SQL, DMY'", "timezone to 'Asia/Kathmandu'"):
        db.execute(f"alter database {database_18.name} set {setting}".encode())
    db.execute("create table texts (id bigint, text text)")
    with db.cursor() as cursor, cursor.copy("copy texts from stdin") as copy:
        for row in enumerate(TEXTS):
            copy.write_row(row)
    schema = arrow_schema(
        struct(
            id="long",
            text="string",
            n="integer",
            at="timestamp",
            b="boolean",
            f="double",
            u="string",
        )
    )

    # More rows than a cursor fetches at a time, and more bytes than a batch has.
    rows = read(
        database_18,
        reader,
        "select t.id + 20 * g.n as id, t.text, nullif(t.id, 4)::integer as n, t.id = 3 as b, "
        "case when t.id > 0 then '2026-01-31 23:59:59.000001+00'::timestamptz + t.id * '1 day'::interval end "
        "as at, t.id / 3.0::float8 as f, case when t.id = 5 then 'x'::name end::text as u "
        "from texts as t, generate_series(0, 299) as g (n) where t.id <> 9 or g.n = 7",
        schema,
    )

    assert rows.schema == schema
    assert sorted(rows.column("id").to_pylist()) == sorted(
        t + 20 * g for t in range(11) for g in range(300) if t != 9 or g == 7
    )
    for row in rows.to_pylist():
        number = row["id"] % 20
        moment = datetime(2026, 1, 31, 23, 59, 59, 1, tzinfo=UTC).timestamp() + number * 86_400
        assert row["text"] == TEXTS[number]
        assert row["n"] == (None if number == 4 else number)
        assert row["at"] == (datetime.fromtimestamp(moment, UTC) if number else None)
        assert row["b"] is (number == 3)
        assert row["f"] == number / 3
        assert row["u"] == ("x" if number == 5 else None)


@pytest.mark.parametrize("reader", READERS)
def test_a_column_alone_keeps_its_nulls(db: psycopg.Connection, database_18: Database, reader: str):
    rows = read(
        database_18,
        reader,
        "select case when n % 3 = 0 then '' when n % 3 = 1 then 'x' end as text "
        "from generate_series(1, 6) as n",
        arrow_schema(struct(text="string")),
    )

    assert rows.column("text").to_pylist() == ["x", None, "", "x", None, ""]
    assert read(database_18, reader, "select 1 as text where false", rows.schema).num_rows == 0


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("moment", ["infinity", "-infinity", "10000-01-01 00:00Z", "0001-01-01 BC"])
def test_a_moment_that_spark_does_not_have_is_refused(
    database_18: Database, db: psycopg.Connection, reader: str, moment: str
):
    with pytest.raises(SluiceError, match="column 'vt' cannot be read as timestamp"):
        read(
            database_18,
            reader,
            f"select '{moment}'::timestamptz as vt",
            arrow_schema(struct(vt="timestamp")),
        )
    ends = read(
        database_18,
        reader,
        "values ('0001-01-01 00:00+00'::timestamptz), ('9999-12-31 23:59:59.999999+00')",
        arrow_schema(struct(column1="timestamp")),
    )
    assert ends.column(0).cast(pa.int64()).to_pylist() == [-62135596800000000, 253402300799999999]


@pytest.mark.parametrize("reader", READERS)
def test_unreadable_value_is_reported_with_its_column(
    database_18: Database, db: psycopg.Connection, reader: str
):
    def reading(query: str, **columns: str) -> pa.Table:
        return read(database_18, reader, query, arrow_schema(struct(**columns)))

    assert reading("select 7::bigint as n", n="integer").to_pylist() == [{"n": 7}]
    assert reading("select 7::bigint as n", n="string").to_pylist() == [{"n": "7"}]
    with pytest.raises(SluiceError, match="column 'n' cannot be read as int32"):
        reading("select 1::bigint << 40 as n", n="integer")
    with pytest.raises(SluiceError, match="column 'm' does not exist; the rows have n"):
        reading("select 1 as n", m="integer")
    with pytest.raises(ServerError, match="division by zero") as caught:
        reading("select 1 / (2 - n) as n from generate_series(1, 3) as n", n="integer")
    assert caught.value.sqlstate == "22012"


@pytest.mark.parametrize("reader", READERS)
def test_all_see_what_the_snapshot_sees(db: psycopg.Connection, database_18: Database, reader: str):
    db.execute("create table t as select generate_series(1, 3) as n")
    with database_18.connect(autocommit=False) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        (snapshot,) = holder.execute("select pg_export_snapshot()").fetchone() or ("",)
        db.execute("insert into t values (4)")

        for _ in range(2):  # the second time on the same connection if that is kept
            rows = read(
                database_18,
                reader,
                "select n from t",
                arrow_schema(struct(n="integer")),
                prepare=calls.use_snapshot(snapshot),
            )
            assert rows.num_rows == 3
    assert read(database_18, reader, "select n from t", rows.schema).num_rows == 4


@pytest.mark.parametrize("reader", READERS)
def test_json_comes_as_variant_where_it_is_asked_for(
    db: psycopg.Connection, database_18: Database, reader: str
):
    texts = ['{"a": [1, "x", null, {"b": 1.5}]}', "null", '""', None]

    rows = read(
        database_18,
        reader,
        'select case n when 1 then \'{"a": [1, "x", null, {"b": 1.5}]}\' when 2 then \'null\' when 3 then \'""\' end '
        "as message from generate_series(1, 4) as n",
        arrow_schema(struct(message="variant")),
    )

    assert [
        row["message"] and VariantVal(**row["message"]).toPython() for row in rows.to_pylist()
    ] == [text and json.loads(text) for text in texts]


@pytest.mark.parametrize("reader", READERS)
def test_a_connection_lost_before_the_first_row_is_made_again(
    db: psycopg.Connection, database_18: Database, monkeypatch: pytest.MonkeyPatch, reader: str
):
    real = arrow_io._READERS[reader]
    failures = iter([1, 1])

    def unreachable(access: Access, *arguments) -> Iterator[pa.RecordBatch]:
        if next(failures, None):
            access = Access(dsn="postgresql://127.0.0.1:1/postgres")
        yield from real(access, *arguments)

    monkeypatch.setitem(arrow_io._READERS, reader, unreachable)
    schema = arrow_schema(struct(n="integer"))
    reading = Reading(reader, retries=2, retry_interval_s=0.01)
    access = Access(dsn=database_18.url)

    (batch,) = read_batches(access, "select 1 as n", schema, reading=reading)
    assert batch.num_rows == 1

    failures = iter([1, 1, 1])
    with pytest.raises(ConnectionFailedError):
        next(read_batches(access, "select 1 as n", schema, reading=reading))


@pytest.mark.parametrize("reader", READERS)
def test_a_connection_lost_later_is_an_error(
    db: psycopg.Connection, database_18: Database, reader: str
):
    batches = read_batches(
        Access(dsn=database_18.url),
        "select n, repeat('x', 1000) as text, pg_backend_pid() as pid "
        "from generate_series(1, 200000) as n",
        arrow_schema(struct(n="integer", text="string", pid="integer")),
        reading=Reading(reader, retries=5, retry_interval_s=0.01),
    )
    first = next(batches)
    db.execute("select pg_terminate_backend(%s, 10000)", (first.column("pid")[0].as_py(),))

    with pytest.raises(ConnectionFailedError):
        list(batches)


@pytest.mark.parametrize("reader", READERS)
def test_reader_closed_early_leaves_no_open_transaction(
    db: psycopg.Connection, database_18: Database, reader: str
):
    batches = read_batches(
        Access(dsn=database_18.url),
        "select n, repeat('x', 1000) as text from generate_series(1, 200000) as n",
        arrow_schema(struct(n="integer", text="string")),
        reading=Reading(reader),
    )
    with closing(batches):
        assert next(batches).num_rows > 0

    deadline = threading.Event()
    for _ in range(100):
        others = db.execute(
            "select count(*) from pg_stat_activity where query like '%generate_series%' "
            "and state = 'active' and pid <> pg_backend_pid()"
        ).fetchone()
        if others == (0,):
            break
        deadline.wait(0.1)
    assert others == (0,)


def test_unavailable_driver_falls_back_to_the_next(
    db: psycopg.Connection, database_18: Database, monkeypatch: pytest.MonkeyPatch
):
    schema = arrow_schema(struct(n="integer"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    assert read(database_18, "auto", "select 1 as n", schema).num_rows == 1
    with pytest.raises(UnsupportedReaderError, match="adbc_driver_postgresql is not installed"):
        read(database_18, "adbc", "select 1 as n", schema)

    def refused(*_arguments) -> Iterator[pa.RecordBatch]:
        raise UnsupportedReaderError("no COPY here")
        yield

    monkeypatch.setitem(arrow_io._READERS, "copy", refused)
    assert read(database_18, "auto", "select 1 as n", schema).num_rows == 1


def test_a_connection_that_idled_through_a_restart_is_made_again(
    db: psycopg.Connection, database_18: Database
):
    schema = arrow_schema(struct(pid="integer"))
    query = "select pg_backend_pid() as pid"

    first, again = (read(database_18, "adbc", query, schema).to_pylist() for _ in range(2))
    db.execute("select pg_terminate_backend(%s, 10000)", (first[0]["pid"],))
    later = read(database_18, "adbc", query, schema).to_pylist()

    assert first == again != later


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reader": "jdbc"}, "use auto, adbc, copy or rows"),
        ({"connect.retries": "-1"}, "connect.retries is '-1'"),
        ({"connect.retryIntervalMs": "0"}, "connect.retryIntervalMs is '0'"),
    ],
)
def test_bad_options_of_reading_are_named(options: dict[str, str], message: str):
    with pytest.raises(ConfigurationError, match=message):
        Reading.from_options(options)
    assert Reading.from_options({"connect.retries": "0"}).retries == 0
