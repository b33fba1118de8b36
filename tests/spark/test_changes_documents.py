"""Columns of json and jsonb in current-state tables: their text is the document that PostgreSQL shows."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pgsluice.lake.current_tables import Tables
from pgsluice.verify import verify_current
from spark.conftest import LOG
from spark.current_states import States
from support.servers import Database

NAME = "public.j"
# Documents of json; those of the second list are none of jsonb.
DOCUMENTS = ['"1"', "1", "1.50", "true", "null", '"null"', '"abc"', '"a\\"b\\\\"', '{"a": "1", "b": null}', "[1, [2]]", "[]", '""', '"ü\\n"', "1e400", "-0", "-0.0"]  # fmt: skip
TEXTS = [
    '"\\u0000"',
    '"\\ud800"',
    '{"a": "\\u0000"}',
    ' {"a":  1,\n "a": 2} ',
    '["\\udc00"]',
    "  7 ",
]
TRIGGERS = {
    "capture": f"select sluice.capture('j', '{LOG}')",
    "jsontriga": f"create trigger j after insert or update or delete on j for each row execute function pgq.jsontriga('{LOG}')",
    "logutriga": f"create trigger j after insert or update or delete on j for each row execute function pgq.logutriga('{LOG}')",
}  # fmt: skip


@pytest.fixture
def states(
    database_18: Database, log: psycopg.Connection, current: Tables, tmp_path: Path
) -> States:
    return States(database_18, log, current, tmp_path)


@pytest.mark.parametrize("by", TRIGGERS)
def test_documents_are_stored_as_postgresql_shows_them(
    by: str, states: States, log: psycopg.Connection, database_18: Database
):
    log.execute("create table j (id int primary key, a json, b jsonb)")
    log.execute(TRIGGERS[by])
    for at, text in enumerate([*DOCUMENTS, *TEXTS]):
        b = text if text in DOCUMENTS else None
        log.execute("insert into j values (%s, %s::json, %s::jsonb)", (at, text, b))
    log.execute("""insert into j values (100, '"only scalars"', '"1"')""")
    states.update()
    log.execute("""update j set b = '"moved"' where id in (0, 100)""")
    states.update()

    expected = log.execute("""
        select id, case when json_typeof(a) <> 'null' then btrim(a::text) end,
            case when jsonb_typeof(b) <> 'null' then b::text end
        from j order by id
    """).fetchall()
    rows = sorted((row["id"], row["a"], row["b"]) for row in states.live(NAME))
    assert [(i, a and a.strip(), b) for i, a, b in rows] == expected
    assert all(json.loads(a) is not None for _, a, _ in rows if a)
    assert verify_current(NAME, states.at(NAME), dsn=database_18.url).equal


def test_snapshot_stores_the_same_documents(
    states: States, log: psycopg.Connection, database_18: Database
):
    log.execute("create table j (id int primary key, a json, b jsonb)")
    log.execute(
        """insert into j values (1, '"\\u0000"', '"abc"'), (2, '1', '1'), (3, null, '"1"')"""
    )
    log.execute(TRIGGERS["capture"])
    log.execute("select sluice.capture_snapshot('j', %s, null, 10)", (LOG,))

    states.update()

    rows = sorted((row["id"], row["a"], row["b"]) for row in states.live(NAME))
    assert rows == [(1, '"\\u0000"', '"abc"'), (2, "1", "1"), (3, None, '"1"')]
    assert verify_current(NAME, states.at(NAME), dsn=database_18.url).equal


def test_documents_of_arrays_and_structs_are_compared_with_odd_texts(
    database_18: Database, log: psycopg.Connection, current: Tables, tmp_path: Path
):
    kinds = {"a": pa.struct([("a", pa.string())]), "b": pa.list_(pa.string())}
    types = {f"{NAME}.{name}": kind for name, kind in kinds.items()}
    states = States(database_18, log, current, tmp_path, column_types=types)
    log.execute("create table j (id int primary key, a jsonb, b jsonb, c json[])")
    log.execute(TRIGGERS["capture"])
    log.execute("""
        insert into j values (1, '{"a": "1"}', '["x", "1"]', array['"\\u0000"'::json, '1']), (2, null, null, '{}')
    """)
    states.update()

    rows = sorted(states.live(NAME), key=lambda row: row["id"])
    assert [(row["a"], row["b"]) for row in rows] == [({"a": "1"}, ["x", "1"]), (None, None)]
    assert [row["c"] for row in rows] == ['["\\u0000",1]', "[]"]
    assert verify_current(NAME, states.at(NAME), dsn=database_18.url).equal


def test_difference_in_a_document_is_shown_with_its_column(
    log: psycopg.Connection, database_18: Database, tmp_path: Path
):
    log.execute("create table j (id int primary key, a json, b jsonb)")
    log.execute("""insert into j values (1, '"\\u0000"', '"abc"'), (2, '"\\ud800"', '"1"')""")
    rows = {"id": [1, 2], "a": ['"\\u0000"', '"\\ud801"'], "b": ['"abc"', "1"]}
    write_deltalake(str(tmp_path), pa.table(rows))

    report = verify_current(NAME, str(tmp_path), dsn=database_18.url)

    (difference,) = report.differences
    assert difference.key == {"id": "2"}
    assert difference.postgresql == {"a": '"\\ud800"', "b": '"1"'}
    assert difference.lake == {"a": '"\\ud801"', "b": "1"}
