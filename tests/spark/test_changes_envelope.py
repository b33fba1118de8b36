"""Events of captured changes, in the format of each trigger."""

from __future__ import annotations

import json

import psycopg
import pyarrow as pa
import pytest

from pgsluice.errors import ChangeError, SluiceError
from pgsluice.lake.names import TableName
from pgsluice.pipelines.current_state.columns import array_of, lake_type
from pgsluice.pipelines.current_state.envelope import Change, read_change, table_of
from support import rows

TABLE_T = TableName("public", "t")
# Each column tests a different special case.
TABLE = """create table odd (
    id bigint primary key, "two words" text, flag boolean, price numeric(10, 2), ratio double precision,
    tags text[], doc json, at timestamptz, nothing text
)"""
ROW = """(9007199254740993, 'a&b=c%d é "x" \\ +', true, 1.10, 1e300,
    array['a', 'b,"c"'], '{"a": 1.10,  "b": [null, "}"]}', '2026-03-04 05:06:07.000001+00', null)"""
# The formats differ in the text of values without a JSON type.
EXPECTED = {
    "id": 9007199254740993,
    "two words": 'a&b=c%d é "x" \\ +',
    "flag": True,
    "price": "1.10",
    "ratio": "1e+300",
    "tags": '["a","b,\\"c\\""]',
    "doc": '{"a": 1.10,  "b": [null, "}"]}',
    "at": "2026-03-04T05:06:07.000001+00:00",
    "nothing": None,
}
OF_PGQ = {
    **EXPECTED,
    "tags": '{a,"b,\\"c\\""}',
    "at": "2026-03-04T05:06:07.000001+00:00",
}
OF_FORM = {name: value if value is None else str(value) for name, value in OF_PGQ.items()} | {
    "flag": "t",
    "at": "2026-03-04 05:06:07.000001+00",
}


@pytest.fixture
def log(connection: psycopg.Connection) -> psycopg.Connection:
    connection.execute("set timezone = 'UTC'")
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(TABLE)
    return connection


def changes(connection: psycopg.Connection) -> list[Change]:
    events = rows(
        connection,
        "select ev_id, (extract(epoch from ev_time) * 1000000)::bigint, ev_type, ev_data, ev_extra1, ev_extra2 "
        "from pgq.event_1 order by ev_id",
    )
    tables = [table_of(event[2], event[4]) for event in events]
    assert {str(table) for table in tables} <= {"public.odd", "public.hard"}
    read = [read_change(TableName.parse(str(t)), *e) for t, e in zip(tables, events, strict=True)]
    return [change for change in read if change is not None]


def run_through(connection: psycopg.Connection) -> None:
    connection.execute(f"insert into odd values {ROW}")
    connection.execute("update odd set nothing = ''")
    connection.execute("delete from odd")
    connection.execute("truncate odd")


def captured(connection: psycopg.Connection) -> list[tuple]:
    found = changes(connection)
    assert {str(change.table) for change in found} == {"public.odd"}
    assert {change.key for change in found if change.op != "t"} == {("id",)}
    assert [change.seq for change in found] == sorted(change.seq for change in found)
    return [(change.op, change.before, change.after) for change in found]


def test_changes_of_capture(log: psycopg.Connection):
    log.execute("select sluice.capture('odd', 'changes')")

    run_through(log)

    after = {**EXPECTED, "nothing": ""}
    assert captured(log) == [
        ("c", None, EXPECTED),
        ("u", EXPECTED, after),
        ("d", after, None),
        ("t", None, None),
    ]
    assert all(change.at_us > 1_700_000_000_000_000 and change.txid for change in changes(log))


DEEP = "[" * 3000 + "]" * 3000
DIGITS = "1" + "0" * 5000


@pytest.mark.parametrize("trigger", ["capture", "jsontriga"])
def test_values_that_python_cannot_decode_stay_text(log: psycopg.Connection, trigger: str):
    log.execute("create table hard (id int primary key, n numeric, doc jsonb, text text)")
    if trigger == "capture":
        log.execute("select sluice.capture('hard', 'changes')")
    else:
        log.execute(
            "create trigger each after insert or update on hard for each row "
            "execute function pgq.jsontriga('changes', 'backup')"
        )
    values = (DIGITS, f'{{"a": [{DIGITS}, "]"]}}', 'a "]} b')
    log.execute("insert into hard values (1, %s, %s, %s)", values)
    log.execute("update hard set doc = %s, n = 7", (DEEP,))

    first = {"id": 1, "n": DIGITS, "doc": values[1], "text": values[2]}
    second = {**first, "doc": DEEP, "n": 7 if trigger == "capture" else "7"}
    expected = [("c", None, first), ("u", first, second)]
    assert [(each.op, each.before, each.after) for each in changes(log)] == expected


@pytest.mark.parametrize("data", ["hello", "", "{", '{"a": 1 "b": 2}', "[" * 3000, "{" * 3000])
def test_event_with_a_type_of_ours_and_other_data_is_no_change(data: str):
    assert read_change(TABLE_T, 1, 1, "c", data, "public.t") is None
    head = '{"op":"INSERT","table":["public","t"],"pkey":["id"]}'
    with pytest.raises(ChangeError):
        read_change(TABLE_T, 1, 1, head, data, "public.t")


def test_value_left_out_of_a_large_row_is_an_error_where_the_lake_needs_it(log: psycopg.Connection):
    log.execute("create table big (id int primary key, doc text)")
    log.execute("create table no_key (id int, doc text)")
    large = "(select string_agg(md5(n::text), '') from generate_series(1, 1000) as n)"
    for table in ("big", "no_key"):
        log.execute(
            f"""select sluice.capture('{table}', 'changes', '{{"row_bytes_max": 10000}}')"""
        )
        log.execute(f"insert into {table} values (1, 'small')")
        log.execute(f"update {table} set doc = {large}")
        log.execute(f"update {table} set doc = 'small'")
        log.execute(f"update {table} set doc = {large}")
        log.execute(f"delete from {table}")
    found: dict[str, list[str]] = {"big": [], "no_key": []}
    for name, ev_id, ev_type, data, extra1 in rows(
        log, "select ev_extra1, ev_id, ev_type, ev_data, ev_extra1 from pgq.event_1 order by ev_id"
    ):
        table = TableName.of(name)
        try:
            read_change(table, ev_id, 1, ev_type, data, extra1)
            found[table.table].append("read")
        except ChangeError as error:
            found[table.table].append(str(error).partition(":")[0].partition(" has ")[2])

    refused = "no value of doc"
    assert found["big"] == ["read", refused, "read", refused, "read"]
    # A row without a key is found by all its values.
    assert found["no_key"] == ["read", refused, refused, refused, refused]


def test_value_unchanged_by_an_update_is_in_both_rows(log: psycopg.Connection):
    log.execute("create table big (doc text, id int, tags text[], attributes jsonb)")
    log.execute("select sluice.capture('big', 'changes')")
    log.execute(
        """insert into big
           select string_agg(md5(n::text), ''), 1, array_agg(md5(n::text)), jsonb_agg(md5(n::text))
           from generate_series(1, 2000) as n"""
    )
    log.execute("update big set id = 2")
    log.execute("update big set doc = null")

    (data,) = log.execute("select ev_data from pgq.event_1 where ev_type = 'u' limit 1").fetchone()
    assert json.loads(data)["unchanged"] == ["doc", "tags", "attributes"]
    insert, update, last = (
        read_change(
            TableName("public", "big"), ev_id, 1, ev_type, data, "public.big", None,
            frozenset({"attributes"}),
        )
        for ev_id, ev_type, data in rows(
            log, "select ev_id, ev_type, ev_data from pgq.event_1 order by ev_id"
        )
    )  # fmt: skip
    assert update.before == insert.after
    assert update.after == {**insert.after, "id": 2} == last.before


def test_value_left_out_of_another_row_of_an_update_is_no_error(log: psycopg.Connection):
    log.execute("create table no_key (id int, doc text)")
    log.execute("""select sluice.capture('no_key', 'changes', '{"row_bytes_max": 100000}')""")
    log.execute(
        """insert into no_key
           select s, string_agg(md5(n::text), '')
           from (values (2000), (9000)) as s (s), generate_series(1, s) as n group by s"""
    )
    log.execute("update no_key set id = id + 1")

    (data,) = log.execute(
        "select ev_data from pgq.event_1 where ev_type = 'u' and ev_data like '%: {\"id\":2001,%'"
    ).fetchone() or ("",)
    found = read_change(TableName("public", "no_key"), 1, 1, "u", data, "public.no_key")
    assert json.loads(data)["left_out"] == {"before": ["doc"], "after": ["doc"]}
    assert found.before == {**found.after, "id": 2000}


def test_changes_of_capture_without_the_row_before(log: psycopg.Connection):
    log.execute("""select sluice.capture('odd', 'changes', '{"before": false}')""")

    run_through(log)

    after = {**EXPECTED, "nothing": ""}
    key = {"id": EXPECTED["id"]}
    assert captured(log) == [
        ("c", None, EXPECTED),
        ("u", None, after),
        ("d", key, None),
        ("t", None, None),
    ]


@pytest.mark.parametrize(
    ("trigger", "row"), [("jsontriga", OF_PGQ), ("logutriga", OF_FORM)], ids=["json", "form"]
)
@pytest.mark.parametrize("backup", ["", ", 'backup'"], ids=["plain", "backup"])
def test_changes_of_the_triggers_of_pgq(
    log: psycopg.Connection, trigger: str, row: dict, backup: str
):
    log.execute(
        "create trigger each after insert or update or delete on odd for each row "
        f"execute function pgq.{trigger}('changes'{backup})"
    )
    log.execute(
        f"create trigger every after truncate on odd execute function pgq.{trigger}('changes')"
    )

    run_through(log)

    # In this format a number is text, and is read as a number if its column is known.
    after = {**row, "nothing": ""}
    assert captured(log) == [
        ("c", None, row),
        ("u", row if backup else None, after),
        ("d", after, None),
        ("t", None, None),
    ]


def test_a_statement_of_sqltriga_is_refused(log: psycopg.Connection):
    log.execute(
        "create trigger each after insert on odd for each row execute function pgq.sqltriga('changes')"
    )
    log.execute("insert into odd (id) values (1)")

    with pytest.raises(
        SluiceError, match="a statement of pgq.sqltriga for public.odd instead of a row"
    ):
        changes(log)


@pytest.mark.parametrize(
    ("ev_type", "ev_data", "extra1"),
    [
        (None, "{}", None),
        ("order.created", '{"op": "c"}', None),
        ("c", "not json", "public.t"),
        ("c", '{"op": "c", "after": {"id": 1}}', "public.t"),
        ("c", '{"op": "u", "before": null, "after": null, "source": {}}', None),
        ("I:id", "id=1", None),
        ("D", "done", "later"),
        ("c", None, "public.t"),
    ],
)
def test_other_events_are_no_changes(ev_type: str | None, ev_data: str | None, extra1: str | None):
    assert read_change(TABLE_T, 1, 1, ev_type, ev_data, extra1) is None


@pytest.mark.parametrize(
    ("ev_type", "ev_data"),
    [
        ('{"op":"INSERT","table":["public","t"],"pkey":["id"]}', "7"),
        ('{"op":"UPSERT","table":["public","t"],"pkey":["id"]}', "{}"),
        ("I:id", "%ff=1"),
    ],
)
def test_a_change_that_cannot_be_read_is_an_error_with_a_hint(ev_type: str, ev_data: str):
    with pytest.raises(SluiceError, match=r"event 7 .* change of public.t, .* leave its table out"):
        read_change(TABLE_T, 7, 1, ev_type, ev_data, "public.t")


def test_names_and_nested_values_are_found_wherever_they_stand():
    row = '{ "a\\"b" : [1, {"after": 2.50}] ,"after":{"x":"}"},"c" :1.50 }'
    data = json.dumps({"op": "c", "source": {"schema": "s", "table": "t", "key": None}})[:-1]

    change = read_change(
        TableName("s", "t"), 1, 1, "c", f'{data}, "before" : null, "after" : {row}}}'
    )

    assert change is not None
    assert change.after == {'a"b': '[1, {"after": 2.50}]', "after": '{"x":"}"}', "c": "1.50"}
    assert change.key == ()


@pytest.mark.parametrize(
    ("postgres", "lake", "values"),
    [
        ("smallint", pa.int64(), [1, "1", None]),
        ("bigint", pa.int64(), [9007199254740993]),
        ("real", pa.float32(), [1, "0.1", "NaN", "-Infinity"]),
        ("double precision", pa.float64(), [1, "1e+300", "0.1"]),
        ("boolean", pa.bool_(), [True, "f"]),
        ("date", pa.date32(), ["2026-01-01"]),
        ("timestamp with time zone", pa.timestamp("us", "UTC"), ["2026-01-01 01:00:00.5+01"]),
        ("timestamp(3) without time zone", pa.timestamp("us"), ["2026-01-01T00:00:00"]),
        ("numeric(10,2)", pa.decimal128(10, 2), [1, "1.10"]),
        ("bytea", pa.binary(), ["\\x00ff"]),
        *(
            (kind, pa.string(), ["x", 1, "1.50", True])
            for kind in ("numeric", "numeric(50,2)", "numeric(3,-2)", "text", "uuid", "integer[]",
                         "timestamp with time zone[]", "character varying(3)", "mood", None)
        ),
    ],
)  # fmt: skip
def test_each_type_has_one_in_the_lake(postgres: str | None, lake: pa.DataType, values: list):
    kind = lake_type(postgres)

    array = array_of(values, kind, "t.c")

    assert (kind, array.type, len(array)) == (lake, lake, len(values))
    assert array.null_count == values.count(None)


@pytest.mark.parametrize(
    ("postgres", "value"),
    [
        ("date", "0044-03-15 BC"),
        ("timestamp with time zone", "0044-03-15T00:00:00+00:00 BC"),
        ("numeric(10,2)", "NaN"),
        ("integer", "many"),
        ("integer", 2**63),
        ("boolean", "maybe"),
        ("bytea", "a\\000"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_with_a_hint(postgres: str, value: str | int):
    with pytest.raises(SluiceError, match=r"column t.c is .*column_types=.*t.c"):
        array_of([value], lake_type(postgres), "t.c")
