"""Names, argument names, types, defaults and result columns equal those of PGMQ."""

from __future__ import annotations

import psycopg
import pytest

from support import rows

SIGNATURES = """
select p.proname,
    p.proargnames,
    p.proargtypes::regtype[]::text[],
    p.proallargtypes::regtype[]::text[],
    p.prorettype::regtype::text,
    p.proretset,
    p.prokind::text,
    pg_get_expr(p.proargdefaults, 0)
from pg_proc as p
where p.pronamespace = 'pgmq'::regnamespace
  and not starts_with(p.proname, '_')
"""
FIELDS = """
select a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity::text,
    pg_get_expr(d.adbin, d.adrelid)
from pg_attribute as a
left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = %s::regclass and a.attnum > 0
order by a.attnum
"""
INDEXES = """
select pg_get_indexdef(i.indexrelid), i.indisprimary, i.indisunique
from pg_index as i
where i.indrelid = %s::regclass
order by 1
"""

# PGMQ's index on vt serves none of its queries; ours serve read's and have its name or another.
OTHER_INDEXES = [
    ("CREATE INDEX q_shape_vt_idx ON pgmq.q_shape USING btree (vt)", False, False),
    (
        "CREATE INDEX q_shape_vt_idx ON pgmq.q_shape USING btree (vt, msg_id) WHERE (vt > enqueued_at)",
        False,
        False,
    ),
    (
        "CREATE INDEX q_shape_ready_idx ON pgmq.q_shape USING btree (msg_id) WHERE (vt <= enqueued_at)",
        False,
        False,
    ),
]


def signatures(connection):
    found = {}
    for name, *signature in rows(connection, SIGNATURES):
        found.setdefault(name, set()).add(repr(signature))
    return found


def test_every_function_of_ours_has_all_of_pgmqs_overloads_and_no_others(ours, upstream):
    mine, theirs = signatures(ours), signatures(upstream)

    assert len(mine) >= 16
    assert {name: theirs.get(name) for name in mine} == mine


@pytest.mark.parametrize("type_name", ["message_record", "queue_record", "metrics_result", "meta"])
def test_types_and_the_table_of_queues_have_pgmqs_fields_in_order(ours, upstream, type_name):
    mine = rows(ours, FIELDS, f"pgmq.{type_name}")

    assert mine
    assert mine == rows(upstream, FIELDS, f"pgmq.{type_name}")


@pytest.fixture(scope="module")
def queue(ours, upstream):
    for connection in (ours, upstream):
        connection.execute("select pgmq.create('Shape')")
    return "shape"


@pytest.mark.parametrize("prefix", ["q", "a"])
def test_the_tables_of_a_queue_have_pgmqs_columns_keys_and_indexes(ours, upstream, queue, prefix):
    table = f"pgmq.{prefix}_{queue}"

    mine, theirs = rows(ours, FIELDS, table), rows(upstream, FIELDS, table)
    assert mine
    assert mine == theirs
    mine, theirs = rows(ours, INDEXES, table), rows(upstream, INDEXES, table)
    assert [index for index in mine if index not in OTHER_INDEXES] == [
        index for index in theirs if index not in OTHER_INDEXES
    ]


def test_the_relations_of_a_queue_have_pgmqs_names_and_kinds(ours, upstream, queue):
    query = (
        "select relname, relkind::text, relpersistence::text from pg_class "
        "where relnamespace = 'pgmq'::regnamespace and relname ~* 'shape' order by relname"
    )

    mine = rows(ours, query)

    assert ("q_shape_ready_idx", "i", "p") in mine
    mine.remove(("q_shape_ready_idx", "i", "p"))
    assert len(mine) == 7
    assert mine == rows(upstream, query)


def test_monitoring_reads_figures_and_no_messages_unlike_in_pgmq(ours, upstream, queue):
    query = "select has_table_privilege('pg_monitor', 'pgmq.q_shape', 'select')"
    assert rows(upstream, query) == [(True,)]
    assert rows(ours, query) == [(False,)]

    ours.execute("set role pg_monitor")
    try:
        assert rows(ours, "select queue_name, queue_length from pgmq.metrics('shape')") == [
            ("shape", 0)
        ]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ours.execute("select message from pgmq.q_shape")
    finally:
        ours.execute("reset role")
