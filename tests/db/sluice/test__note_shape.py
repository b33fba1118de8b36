"""Shapes of captured tables, with _table_columns, _type_definition and _storage; _live_columns and _live_key in tests/concurrency."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value
from support.capture import noted


@pytest.fixture
def item(connection: psycopg.Connection) -> psycopg.Connection:
    connection.execute(
        """create type status as enum ('new', 'done');
        create type place as (x int, y int);
        create domain amount as numeric(10, 2);
        create table item (
            id int primary key, note text not null default 'n', price amount, state status default 'new',
            spots place[], twice int generated always as (id * 2) stored
        );
        create table plain (id int primary key, note text);
        insert into item (id) values (1), (2);
        select pgq.create_queue('changes'), sluice.capture('item', 'changes'), sluice.capture('plain', 'changes')"""
    )
    return connection


def test_columns_are_stored_with_what_tells_that_values_changed(item):
    ((columns, attributes, storage),) = rows(
        item,
        """select columns, attribute_count, storage = format('%s %s', table_oid, pg_relation_filenode(table_oid))
        from sluice.captured_shape where table_oid = 'item'::regclass""",
    )

    assert (attributes, storage) == (6, True)
    facts = ("attnum", "name", "type", "modifier", "generated", "missing", "definition")
    assert [tuple(column[fact] for fact in facts) for column in columns] == [
        (1, "id", "integer", -1, "", False, ""),
        (2, "note", "text", -1, "", False, ""),
        (3, "price", "numeric(10,2)", 655366, "", False, ""),
        (4, "state", "public.status", -1, "", False, 'enum ["new", "done"]'),
        (
            5,
            "spots",
            "public.place[]",
            -1,
            "",
            False,
            'composite [["x", "integer", null], ["y", "integer", null]]',
        ),
        (6, "twice", "integer", -1, "(id * 2)", False, ""),
    ]
    assert all(column["version"].isdigit() for column in columns)


def test_columns_that_are_not_captured_are_not_part_of_the_shape(item):
    item.execute("""select sluice.capture('plain', 'changes', '{"ignore": ["note"]}')""")

    newest = "select columns from sluice.captured_shape where table_oid = 'plain'::regclass order by shape_id desc limit 1"
    assert [column["name"] for column in value(item, newest)] == ["id"]


@pytest.mark.parametrize("table", ["item", "plain"], ids=["dynamic", "static"])
def test_shape_first_used_in_a_transaction_that_is_rolled_back_is_stored_by_the_next(
    database, item, table
):
    item.execute(f"alter table {table} add column extra int")
    with database.connect(autocommit=False) as writer:
        writer.execute(f"insert into {table} (id) values (3)")
        writer.rollback()
        writer.execute("savepoint s")
        writer.execute(f"insert into {table} (id) values (4)")
        writer.execute("rollback to s")
        writer.execute(f"insert into {table} (id) values (5)")
        writer.commit()
        writer.execute(f"insert into {table} (id) values (6)")
        writer.commit()

    of_events, stored = noted(item, table)
    assert len(of_events) == 1
    assert of_events <= stored


def test_shape_changes_with_a_label_and_with_a_column_that_is_dropped_and_added(item):
    shapes = []
    for statement in (
        "select",
        "alter type status add value 'old'",
        "alter type status rename value 'old' to 'former'",
        "alter type place add attribute z int",
        "alter table item drop column note, add column note text",
    ):
        item.execute(statement)
        item.execute("insert into item (id) select max(id) + 1 from item")
        item.execute("update item set price = 2 where id = 1")
        shapes.append(value(item, "select ev_extra2 from pgq.event_1 order by ev_id desc limit 1"))

    assert len(set(shapes)) == len(shapes)
    of_events, stored = noted(item)
    assert of_events == set(shapes)
    assert of_events <= stored


def test_rows_of_a_snapshot_have_their_shape(item):
    item.execute("select sluice.capture_snapshot('item', 'changes')")

    of_events, stored = noted(item)
    assert of_events == stored
