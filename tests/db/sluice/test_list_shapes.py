"""The current shapes of the tables that are captured into a log."""

from __future__ import annotations

import pytest

from support import rows, value

LIST = "select schema_name, table_name, shape from sluice.list_shapes('changes') order by 2"


@pytest.fixture
def captured(connection):
    connection.execute(
        """create table item (id int primary key, note text);
        create table other (id int primary key, note text);
        select pgq.create_queue('changes'), pgq.create_queue('another'),
            sluice.capture('item', 'changes', '{"ignore": ["note"]}'), sluice.capture('other', 'another');
        create table of_pgq (id int primary key, n numeric(5, 1));
        create trigger t after insert on of_pgq for each row execute function pgq.jsontriga('changes')"""
    )
    return connection


def test_current_shape_is_that_of_the_next_event(captured):
    captured.execute("alter table item add column extra int")
    captured.execute("insert into item (id) values (1)")

    of_event = value(captured, "select ev_extra2 from pgq.event_1")
    assert rows(captured, LIST)[0] == ("public", "item", of_event)
    same = """select l.columns = s.columns, l.attribute_count = s.attribute_count, l.storage = s.storage
        from sluice.list_shapes('changes') as l
        join sluice.captured_shape as s using (shape)
        where l.table_oid = 'item'::regclass"""
    assert rows(captured, same) == [(True, True, True)]


def test_tables_with_triggers_of_pgq_have_shapes(captured):
    assert [name for _, name, _ in rows(captured, LIST)] == ["item", "of_pgq"]
    columns = value(
        captured, "select columns from sluice.list_shapes('changes') where table_name = 'of_pgq'"
    )
    assert [(column["name"], column["type"]) for column in columns] == [
        ("id", "integer"),
        ("n", "numeric(5,1)"),
    ]


def test_table_whose_capture_names_a_missing_column_does_not_hide_others(captured):
    captured.execute("alter table item rename note to remark")

    assert [name for _, name, _ in rows(captured, LIST)] == ["of_pgq"]


def test_truncate_has_the_shape_of_its_table(captured):
    captured.execute("insert into item (id) values (1)")
    captured.execute("alter table item rename to renamed; truncate renamed")

    found = rows(captured, "select ev_type, ev_extra1, ev_extra2 from pgq.event_1 order by ev_id")
    assert found[1][:2] == ("t", "public.renamed")
    assert found[1][2] == found[0][2]
