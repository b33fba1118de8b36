"""Functions, tables and grants equal PgQ's, with its names, arguments and result columns."""

from __future__ import annotations

import re

from compat.pgq.cases import STATEMENTS
from support import rows

# The trigger functions have conformance tests of their own: test_triggers.py.
TRIGGERS = {"jsontriga", "logutriga", "sqltriga"}
SIGNATURES = """
select p.proname,
    p.proargtypes::regtype[]::text[],
    p.proargnames,
    p.proargmodes::text[],
    p.proallargtypes::regtype[]::text[],
    p.prorettype::regtype::text,
    p.proretset,
    p.prokind::text,
    pg_get_expr(p.proargdefaults, 0)
from pg_proc as p
where p.pronamespace = 'pgq'::regnamespace
"""
GRANTS = """
select p.oid::regprocedure::text, g.grantee
from pg_proc as p
cross join lateral (
    select case when a.grantee = 0 then 'public' else a.grantee::regrole::text end
    from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
) as g (grantee)
where p.pronamespace = 'pgq'::regnamespace and g.grantee in ('public', 'pgq_reader', 'pgq_writer', 'pgq_admin')
"""
COLUMNS = """
select c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
from pg_class as c
join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'v')
  and c.relname in ('queue', 'tick', 'consumer', 'subscription', 'event_template', 'retry_queue')
order by c.relname, a.attnum
"""
TABLE_GRANTS = """
select c.relname, role, privilege
from pg_class as c,
    unnest(array['pgq_reader', 'pgq_writer', 'pgq_admin', 'pg_read_all_settings']) as role,
    unnest(array['select', 'insert', 'update', 'delete', 'truncate']) as privilege
where c.relnamespace = 'pgq'::regnamespace
  and c.relname ~ '^(queue|tick|consumer|subscription|event_template|retry_queue|event_1|event_1_0)$'
  and has_table_privilege(role, c.oid, privilege)
"""
WIDER_TYPES = {"bigint": "xid8", "txid_snapshot": "pg_snapshot"}


def signatures(connection):
    return {(name, tuple(types)): rest for name, types, *rest in rows(connection, SIGNATURES)}


def test_every_function_has_pgqs_argument_names_types_and_result_columns(both):
    mine, theirs = map(signatures, both)

    assert len(theirs) == 51
    assert {key: mine.get(key) for key in theirs} == theirs


def test_a_function_of_a_name_of_pgqs_has_no_other_overloads_and_another_name_is_internal(both):
    mine, theirs = map(signatures, both)

    assert [name for name, _ in mine.keys() - theirs.keys() if not name.startswith("_")] == []


def test_every_function_is_called_by_a_case_of_the_conformance_table(both):
    called = set(re.findall(r"\bpgq\.(\w+)\(", "\n".join(STATEMENTS)))

    assert {name for name, _ in signatures(both[1])} - called == TRIGGERS


def test_pgqs_roles_may_execute_what_they_may_in_pgq(both):
    mine, theirs = (set(rows(connection, GRANTS)) for connection in both)
    functions = {function for function, _ in theirs}

    assert {grant for grant in mine if grant[0] in functions} >= theirs
    # PUBLIC has no more rights than in PgQ; other roles get only grants they had through a role.
    granted = {grant for grant in mine - theirs if grant[0] in functions}
    assert {grant for grant in granted if grant[1] == "public"} == set()


def test_the_tables_have_pgqs_columns_in_order(both):
    mine, theirs = (rows(connection, COLUMNS) for connection in both)

    assert [row[:2] for row in mine] == [row[:2] for row in theirs]
    unlike = {
        (their_type, my_type)
        for (*_, my_type), (*_, their_type) in zip(mine, theirs, strict=True)
        if my_type != their_type
    }
    assert unlike == set(WIDER_TYPES.items())


def test_pgqs_roles_may_do_with_the_tables_what_they_may_in_pgq(both):
    for connection in both:
        connection.execute("select pgq.create_queue('q')")

    mine, theirs = (set(rows(connection, TABLE_GRANTS)) for connection in both)

    assert mine - theirs == set()
    # Administrators write queue and subscription; only functions write the other tables.
    assert theirs - mine == {
        *(("queue", "pgq_admin", privilege) for privilege in ("insert", "delete")),
        *(
            (table, "pgq_admin", privilege)
            for table in ("tick", "consumer", "retry_queue")
            for privilege in ("insert", "update", "delete")
        ),
        ("event_template", "pgq_admin", "insert"),
        ("event_template", "pgq_admin", "truncate"),
    }
