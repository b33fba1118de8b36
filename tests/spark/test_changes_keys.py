"""Keys whose values the lake stores otherwise, or PostgreSQL compares otherwise, in tables of real events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from pgsluice.lake.current_tables import Tables
from pgsluice.lake.mutable import Changes
from pgsluice.lake.names import TableName
from pgsluice.pipelines.current_state import columns, table
from pgsluice.pipelines.current_state.envelope import Change
from pgsluice.pipelines.current_state.overwrite import replace_table
from pgsluice.verify import verify_current
from spark.changing import apply, stored
from spark.conftest import LOG
from spark.current_states import States
from spark.lake_reading import lake_table
from support.servers import Database

NAME = "public.t"
TABLE = TableName.parse(NAME)


@dataclass(frozen=True)
class Case:
    """A type of a key, and values of it.

    Attributes:
        kind: Type in PostgreSQL.
        values: Distinct keys.
        rewritten: A key and an equal or different one that an update writes in its place.
        shown: SQL expression of the key `id` as the lake stores it, as text.
        of_lake: Returns a stored key as that text.
    """

    kind: str
    values: tuple[str, ...]
    rewritten: tuple[str, str]
    shown: str = "to_json(id) #>> '{}'"
    of_lake: Callable[[Any], str] = str


def floating(value: float) -> str:
    return str(value + 0.0)


FLOAT = (
    "case id::text when 'NaN' then 'nan' when '-0' then '0.0' when '0' then '0.0' else id::text end"
)
DAY = (
    "case id when 'infinity' then '9999-12-31' when '-infinity' then '0001-01-01' else id::text end"
)
STAMP = (
    "case id when 'infinity' then '9999-12-31 23:59:59.999999' when '-infinity' then '0001-01-01 00:00:00' "
    "else id::text end"
)

CASES = {
    "float8": Case("float8", ("NaN", "0", "-1.5", "2.5", "1e+300"), ("0", "-0"), FLOAT, floating),
    "float4": Case("float4", ("NaN", "0", "-1.5", "0.25", "3.5"), ("0", "-0"), FLOAT, floating),
    "numeric": Case("numeric", ("NaN", "1.0", "-0.5", "1e30", "7"), ("1.0", "1.00")),
    "numeric(6,2)": Case("numeric(6,2)", ("0", "1.5", "-2.25"), ("1.5", "1.50")),
    "date": Case(
        "date",
        ("infinity", "9999-12-31", "-infinity", "0001-01-01", "2026-01-02"),
        ("2026-01-02", "2026-01-03"),
        DAY,
    ),
    "timestamp": Case(
        "timestamp",
        ("infinity", "9999-12-31 23:59:59.999999", "-infinity", "0001-01-01", "2026-01-02 03:04:05"),
        ("2026-01-02 03:04:05", "2026-01-02 03:04:06"),
        STAMP,
    ),
    "timestamptz": Case(
        "timestamptz",
        ("infinity", "9999-12-31 23:59:59.999999+00", "-infinity", "0001-01-01 00:00+00", "2026-01-02 03:04:05+00"),
        ("2026-01-02 03:04:05+00", "2026-01-02 03:04:06+00"),
        STAMP.replace("id::text", "(id at time zone 'UTC')::text"),
        lambda value: str(value.replace(tzinfo=None)),
    ),
    "interval": Case("interval", ("1 mon", "31 days", "1 hour"), ("1 mon", "30 days"), "interval_out(id)::text"),
    "bpchar": Case("bpchar", ("a ", "b", ""), ("a ", "a"), "to_json(id) #>> '{}'"),
    "char(5)": Case("char(5)", ("a", "b", ""), ("a", "a ")),
    "any_case": Case("any_case", ("a", "b", "ß"), ("a", "A"), "id::text"),
    "jsonb": Case(
        "jsonb", ('"1"', "1", "null", "[1.0]", '{"a": null}', '"ü"'), ("[1.0]", "[1.00]"), "id::text"
    ),
    "numeric[]": Case("numeric[]", ("{1.0,NaN}", "{}", "{NULL}"), ("{1.0,NaN}", "{1.00,NaN}"), "to_json(id)::text"),
    "float8[]": Case("float8[]", ("{0}", "{NaN}", "{1}"), ("{0}", "{-0}"), "to_json(id)::text"),
    "bytea": Case("bytea", ("\\x00", "\\x", "\\xff"), ("\\xff", "\\xfe"), "encode(id, 'hex')", bytes.hex),
    "uuid": Case("uuid", ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"),
                 ("00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001")),
    "timetz": Case("timetz", ("12:00+00", "13:00+01", "24:00+00"), ("12:00+00", "11:00-01")),
    "bool": Case("bool", ("true",), ("true", "false"), "case when id then 'True' else 'False' end"),
    "text": Case("text", ("", "\\N", "a\tb", "NaN", "infinity", "'", "𝄞"), ("", "\u0001")),
}  # fmt: skip


# A text that is equal in upper and lower case, as of the extension citext.
ANY_CASE = """
    create type any_case;
    create function ci_in(cstring) returns any_case language internal immutable strict as 'textin';
    create function ci_out(any_case) returns cstring language internal immutable strict as 'textout';
    create type any_case (input = ci_in, output = ci_out, like = text);
    create cast (any_case as text) without function;
    create function ci_cmp(a any_case, b any_case) returns int language sql immutable
        as $$ select bttextcmp(lower(a::text collate "C"), lower(b::text collate "C")) $$;
    create function ci_lt(a any_case, b any_case) returns bool language sql immutable as 'select ci_cmp(a, b) < 0';
    create function ci_eq(a any_case, b any_case) returns bool language sql immutable as 'select ci_cmp(a, b) = 0';
    create operator < (function = ci_lt, leftarg = any_case, rightarg = any_case);
    create operator = (function = ci_eq, leftarg = any_case, rightarg = any_case);
    create operator class any_case default for type any_case using btree
        as operator 1 <, operator 3 =, function 1 ci_cmp(any_case, any_case);
"""


# Types whose keys are stored otherwise than as text: their rows are found in three ways.
HOW = ("merged", "rewritten", "in buckets")
FOUND = [(name, "merged") for name in CASES] + [
    (name, how)
    for name in ("float8", "float4", "numeric(6,2)", "date", "timestamptz", "bytea", "jsonb")
    for how in HOW[1:]
]


@pytest.fixture
def states(
    how: str, database_18: Database, log: psycopg.Connection, current: Tables, tmp_path: Path
) -> States:
    log.execute("set timezone = 'UTC'; set intervalstyle = 'iso_8601'")
    log.execute(ANY_CASE)
    buckets = {NAME: 3} if how == "in buckets" else {}
    return States(database_18, log, current, tmp_path, buckets=buckets, are_many=how == "rewritten")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how"), FOUND)
def test_each_key_has_the_row_that_postgresql_has(
    name: str, states: States, log: psycopg.Connection, database_18: Database
):
    case = CASES[name]
    log.execute(f"create table t (id {case.kind} primary key, v text)")
    log.execute("select sluice.capture('t', %s)", (LOG,))

    def check() -> None:
        states.update()
        assert states.parked(NAME) is None
        rows = [(case.of_lake(row["id"]), row["v"]) for row in states.live(NAME)]
        there = log.execute(f"select {case.shown}, v from t").fetchall()
        if "float" in case.kind and "[" not in case.kind:
            there = [(floating(float(key)), v) for key, v in there]
        assert sorted(rows) == sorted(there)
        report = verify_current(NAME, states.at(NAME), dsn=database_18.url)
        assert report.equal, str(report)

    for value in case.values:
        log.execute(f"insert into t values (%s::{case.kind}, 'first')", (value,))
    check()
    for value in case.values:
        log.execute(f"update t set v = %s where id = %s::{case.kind}", (f"of {value!r}", value))
    check()
    before, after = case.rewritten
    if after not in case.values:
        log.execute(
            f"update t set id = %s::{case.kind}, v = 'moved' where id = %s::{case.kind}",
            (after, before),
        )
    check()
    for values in (case.values[:1], case.values[1:]):
        for value in values:
            log.execute(f"delete from t where id = %s::{case.kind}", (value,))
        check()
    for values in (case.values[1:], case.values[:1]):
        for value in values:
            log.execute(f"insert into t values (%s::{case.kind}, 'again')", (value,))
        check()
    with log.transaction():
        log.execute("delete from t")
        log.execute(f"insert into t values (%s::{case.kind}, 'last')", (case.values[0],))
    check()


@pytest.mark.parametrize("how", ["merged"])
def test_nan_in_a_key_is_found_in_a_file_of_other_keys(states: States, log: psycopg.Connection):
    log.execute("create table t (id float8 primary key, v int)")
    log.execute("select sluice.capture('t', %s)", (LOG,))
    log.execute("insert into t values ('NaN', 1), (5, 1)")
    states.update()

    log.execute("insert into t values (7, 1)")
    log.execute("update t set v = 2 where id = 'NaN'")
    log.execute("update t set v = 3 where id = 'NaN'")
    states.update()
    found = [(str(row["id"]), row["v"]) for row in states.live(NAME)]
    log.execute("delete from t where id = 'NaN'")
    states.update()

    assert sorted(found) == [("5.0", 1), ("7.0", 1), ("nan", 3)]
    assert sorted((row["id"], row["v"]) for row in states.live(NAME)) == [(5.0, 1), (7.0, 1)]


@pytest.mark.parametrize("how", ["merged"])
@pytest.mark.parametrize("name", ["float8", "numeric", "interval", "any_case", "jsonb", "bpchar"])
def test_key_written_otherwise_moves_its_row_without_rows_before(
    name: str, states: States, log: psycopg.Connection, database_18: Database
):
    kind, (before, after) = CASES[name].kind, CASES[name].rewritten
    log.execute(f"create table t (id {kind} primary key, v text)")
    log.execute("""select sluice.capture('t', %s, '{"before": false}')""", (LOG,))
    log.execute(f"insert into t values (%s::{kind}, 'a')", (before,))
    states.update()

    log.execute(f"update t set id = %s::{kind}, v = 'b'", (after,))
    states.update()

    assert [row["v"] for row in states.live(NAME)] == ["b"]
    assert verify_current(NAME, states.at(NAME), dsn=database_18.url).equal


@pytest.mark.parametrize("how", ["merged"])
@pytest.mark.parametrize("trigger", ["jsontriga", "logutriga"])
def test_keys_of_pgqs_triggers_are_equal_in_every_time_zone(
    trigger: str, states: States, log: psycopg.Connection, database_18: Database
):
    log.execute("create table t (id timestamptz, f float8, d date, v int, primary key (id, f, d))")
    log.execute(
        "create trigger t after insert or update or delete on t for each row "
        f"execute function pgq.{trigger}('{LOG}')"
    )
    log.execute("set timezone = 'Europe/Berlin'")  # its offset was 53 minutes and 28 seconds
    log.execute("insert into t values ('1850-01-01 12:00', 'NaN', 'infinity', 1)")
    log.execute("insert into t values ('1850-01-01 12:00', 'NaN', '9999-12-31', 1)")
    states.update()
    log.execute("set timezone = 'Asia/Kolkata'")
    log.execute("update t set v = 2 where d = 'infinity'")
    states.update()
    log.execute("set timezone = 'UTC'")
    log.execute("delete from t where d = '9999-12-31'")
    states.update()

    assert states.parked(NAME) is None
    assert [row["v"] for row in states.live(NAME)] == [2]
    assert verify_current(NAME, states.at(NAME), dsn=database_18.url).equal


@pytest.mark.parametrize("how", ["merged"])
@pytest.mark.parametrize("kind", ["numeric(18,4)", "numeric(20,0)", "numeric(38,10)"])
def test_key_of_many_digits_is_found_among_other_files(
    kind: str, states: States, log: psycopg.Connection, database_18: Database
):
    log.execute(f"create table t (id {kind} primary key, v int)")
    log.execute("select sluice.capture('t', %s)", (LOG,))
    for number in range(3):
        log.execute("insert into t values (12345678901234.0123::numeric + %s, 1)", (number,))
        states.update()

    for _ in range(2):
        log.execute("update t set v = v + 1 where id = (select min(id) from t)")
        states.update()

    assert sorted(row["v"] for row in states.live(NAME)) == [1, 1, 3]
    if isinstance(
        states.current.lake, Path
    ):  # another reader, which skips files by their statistics
        rows = QueryBuilder().register("t", DeltaTable(states.at(NAME)))
        wanted = f"cast('12345678901235.0123' as decimal{kind.removeprefix('numeric')})"
        assert (
            pa.table(rows.execute(f"select v from t where id = {wanted}").read_all()).num_rows == 1
        )
    assert verify_current(NAME, states.at(NAME), dsn=database_18.url).equal


@pytest.mark.parametrize("how", ["merged"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "10000-01-01"),
        ("date", "0044-03-15 BC"),
        ("timestamp", "10000-01-01"),
        ("timestamptz", "0001-01-01 00:00 BC"),
        ("numeric(6,2)", "NaN"),
    ],
)
def test_key_out_of_range_parks_the_table_with_the_cause_and_a_hint(
    kind: str, value: str, states: States, log: psycopg.Connection
):
    log.execute(f"create table t (id {kind} primary key)")
    log.execute("select sluice.capture('t', %s)", (LOG,))
    log.execute("insert into t values (%s)", (value,))

    states.update()

    parked = states.parked(NAME)
    assert parked is not None
    assert "column public.t.id is" in parked
    assert "does not fit" in parked
    assert "lake rebuild public.t" in parked


@pytest.mark.parametrize("how", ["merged"])
def test_infinite_key_parks_a_table_without_the_column_that_distinguishes_it(
    states: States, log: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
):
    log.execute("create table t (id date primary key)")
    log.execute("select sluice.capture('t', %s)", (LOG,))
    log.execute("insert into t values ('9999-12-31')")
    with monkeypatch.context() as patch:  # as a table has that was created without the column
        patch.setattr(table, "has_ends", lambda _kind: False)
        states.update()
    log.execute("insert into t values ('2026-01-01')")
    states.update()
    assert states.parked(NAME) is None

    log.execute("insert into t values ('infinity')")
    states.update()

    assert "a key of public.t is infinite" in str(states.parked(NAME))
    assert len(states.live(NAME)) == 2


def test_rebuilt_table_distinguishes_infinite_keys(
    current: Tables, monkeypatch: pytest.MonkeyPatch
):
    kinds = {"id": pa.date32()}
    with monkeypatch.context() as patch:  # as a table has that was created without the column
        patch.setattr(table, "has_ends", lambda _kind: False)
        former = table.CurrentTable.create(current, TABLE, ("id",), kinds)
    apply(former, [inserted(1, "9999-12-31")], version=0)
    new = table.CurrentTable.create(current.staged(), TABLE, ("id",), kinds)
    apply(new, [inserted(2, "9999-12-31"), inserted(3, "infinity")], version=1)

    replace_table(current, TABLE, new.again(), app_id="a", properties={})
    rebuilt = table.CurrentTable.open(current, TABLE)
    assert rebuilt is not None
    apply(rebuilt, [inserted(4, "-infinity"), inserted(5, "infinity")], version=2)

    rows = [(row["_row"], row["_seq"]) for row in stored(rebuilt).to_pylist()]
    assert sorted(rows) == [("", 2), ("-infinity", 4), ("infinity", 5)]


def inserted(seq: int, key: str) -> Change:
    return Change(TABLE, ("id",), seq, seq, "c", None, {"id": key})


def test_rows_of_other_writers_with_negative_zero_as_key_are_updated(current: Tables):
    kinds = {"id": pa.float64(), "v": pa.string()}
    stored = table.CurrentTable.create(current, TABLE, ("id",), kinds).stored
    times = {"_changed_at": pa.array([0], columns.TIMESTAMP), "_deleted": pa.array([False])}

    for seq, (key, v) in enumerate([(-0.0, "first"), (0.0, "second"), (float("nan"), "third")]):
        rows = pa.table({"id": [key], "v": [v], "_seq": [seq], **times}).select(
            stored.columns.names
        )
        stored.newest().merge(Changes(rows, ("id",), "_seq"), {})

    found = lake_table(str(current.place_of(TABLE))).to_pylist()
    assert sorted((str(abs(row["id"])), row["v"]) for row in found) == [
        ("0.0", "second"),
        ("nan", "third"),
    ]
