"""Our SQL calls our functions with the types they declare, and with every argument.

A call that needs an implicit cast or a default can be taken by an overload that matches better. Only the owner of the
schemas can create one there; exact calls are the second protection.

The first test reads the parse tree of every statement of every function, executed or not, by the parser of PostgreSQL itself
(plpgsql_check walks the statements, debug_print_parse shows the trees). It does not see statements that are composed at run
time (`execute format(…)`), those on records whose columns are known at run time only, and literals of no type: in a parse tree
`f('x')` and `f('x'::text)` are the same. The second test plants an overload for each function and runs what it can reach; it
sees those kinds, but only in statements that are executed.
"""

from __future__ import annotations

import re

import psycopg
import pytest

from pgsluice import schema
from support import rows
from support.pgmq import upstream_sql

FUNCTIONS = """
select p.oid::integer, p.oid::regprocedure::text, l.lanname, p.prorettype = 'trigger'::regtype,
    pg_get_functiondef(p.oid), p.pronargs::integer
from pg_proc as p
join pg_language as l on l.oid = p.prolang
join pg_namespace as n on n.oid = p.pronamespace
where n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')
   or n.nspname = 'public' and p.proname ~ '^pgmq_'
order by 2
"""
CHECKED = """
select * from plpgsql_check_function(
    {oid}, {relation} fatal_errors => false, other_warnings => false, extra_warnings => false, performance_warnings => false
)
"""
TOKEN = re.compile(r"[{}()]|[^\s{}()]+")
EXPLICIT_CALL, IMPLICIT_CAST = "0", "2"
CASTS = {
    "RELABELTYPE": ":relabelformat",
    "FUNCEXPR": ":funcformat",
    "COERCEVIAIO": ":coerceformat",
    "ARRAYCOERCEEXPR": ":coerceformat",
}


def parsed(text: str) -> list:
    """Return a printed node tree as nested lists."""
    stack: list[list] = [[]]
    for token in TOKEN.findall(text):
        if token in "{(":
            stack.append([token])
        elif token in "})":
            closed = stack.pop()
            stack[-1].append(closed)
        else:
            stack[-1].append(token)
    return stack[0]


def field(node: list, name: str) -> object:
    return node[node.index(name) + 1] if name in node else None


def inexact_calls(node: object, arguments_of: dict[int, int]) -> list[tuple[int, str]]:
    """Return the calls of our functions in a tree that lean on a default or on an implicit cast."""
    if not isinstance(node, list):
        return []
    found = [call for part in node for call in inexact_calls(part, arguments_of)]
    if node[:2] != ["{", "FUNCEXPR"] or field(node, ":funcformat") != EXPLICIT_CALL:
        return found
    called = int(str(field(node, ":funcid")))
    if called not in arguments_of:
        return found
    given = field(node, ":args")
    arguments = given[1:] if isinstance(given, list) else []
    if len(arguments) != arguments_of[called]:
        found.append((called, f"with {len(arguments)} arguments"))
    for place, argument in enumerate(arguments, 1):
        inner = field(argument, ":arg") if argument[1] == "NAMEDARGEXPR" else argument
        kind = inner[1] if isinstance(inner, list) and len(inner) > 1 else ""
        if kind in CASTS and field(inner, CASTS[kind]) == IMPLICIT_CAST:
            found.append((called, f"argument {place} with an implicit cast"))
    return found


def trees(
    connection: psycopg.Connection, oid: int, language: str, is_trigger: bool, text: str
) -> list:
    """Return the trees of the statements of a function."""
    said: list[str] = []

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.message_detail and "{QUERY" in diagnostic.message_detail:
            said.append(diagnostic.message_detail)

    connection.add_notice_handler(note)
    connection.execute("set debug_print_parse = on")
    try:
        if language == "plpgsql":
            relation = "relid => 'pgmq.q_orders'::regclass," if is_trigger else ""
            connection.execute(CHECKED.format(oid=oid, relation=relation))
        else:
            connection.execute(text)
    finally:
        connection.execute("set debug_print_parse = off")
        connection.remove_notice_handler(note)
    return [tree for detail in said for tree in parsed(detail)]


@pytest.fixture
def checked(servers):
    """A database of PostgreSQL 15 with everything installed, and the parser of its functions."""
    server = servers.get("15")
    with psycopg.connect(server.url(), autocommit=True) as admin:
        if not rows(admin, "select from pg_available_extensions where name = 'plpgsql_check'"):
            pytest.skip(
                "this server has no plpgsql_check: apt-get install postgresql-15-plpgsql-check"
            )
        admin.execute("create database exact_calls")
    with psycopg.connect(server.url("exact_calls"), autocommit=True) as connection:
        schema.install(connection, legacy=True)
        connection.execute("create extension plpgsql_check")
        connection.execute("select pgmq.create('orders')")
    # A session of its own: the statements of functions that ran are parsed already.
    with psycopg.connect(server.url("exact_calls"), autocommit=True) as connection:
        connection.execute("set client_min_messages = log; set debug_pretty_print = off")
        yield connection
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute("drop database exact_calls with (force)")


def test_every_call_of_our_functions_has_their_declared_types_and_all_arguments(checked):
    found = rows(checked, FUNCTIONS)
    names = {oid: signature for oid, signature, *_ in found}
    arguments_of = {oid: count for oid, *_, count in found}

    inexact, seen = [], 0
    for oid, signature, language, is_trigger, text, _ in found:
        nodes = trees(checked, oid, language, is_trigger, text)
        seen += len(nodes)
        inexact += [
            f"{signature} calls {names[called]} {how}"
            for node in nodes
            for called, how in inexact_calls(node, arguments_of)
        ]

    assert seen > 2000, "the parser shows too few statements"
    assert not inexact, "\n".join(sorted(set(inexact)))


def test_the_parser_finds_an_inexact_call(checked):
    checked.execute(
        "create function sluice.careless(i_name varchar) returns void language plpgsql as "
        "$$ begin perform pgmq._create_reader(i_name), pgmq.read('orders'::text, 1, 1); end; $$"
    )
    found = rows(checked, FUNCTIONS)
    arguments_of = {oid: count for oid, *_, count in found}
    [careless] = [row for row in found if row[1].startswith("sluice.careless")]

    calls = [
        call
        for node in trees(checked, careless[0], *careless[2:5])
        for call in inexact_calls(node, arguments_of)
    ]

    assert sorted(how for _, how in calls) == [
        "argument 1 with an implicit cast",
        "with 3 arguments",
    ]


SIGNATURES = """
select n.nspname, p.proname, p.proargtypes::regtype[]::text[], p.pronargdefaults::integer
from pg_proc as p
join pg_namespace as n on n.oid = p.pronamespace
where n.nspname in ('pgmq', 'pgq', 'pgq_coop', 'sluice')
  and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype
order by p.oid::regprocedure::text
"""
# What an overload declares instead of a type of ours, to match what a careless call passes.
INSTEAD = (
    {"text": "character varying"},
    {"text": "name"},
    {"bigint": "integer"},
    {"integer": "bigint"},
    {"interval": "text"},
    {"jsonb": "text"},
    {"boolean": "text"},
    {"bigint": "text"},
    {"timestamp with time zone": "text"},
    {"regclass": "oid"},
    {"oid": "regclass"},
)
# Each function that runs with its owner's rights is reached by one of these, or by what it calls.
WORK = """
select pgmq.create('orders'::text)
select pgmq.create_unlogged('fast'::text)
select pgmq.create_non_partitioned('plain'::text)
select pgmq.create_partitioned('parts'::text, '10'::text, '100'::text, 2)
select pgmq.create_fifo_index('orders'::text)
select pgmq.create_fifo_indexes_all()
select pgmq.enable_notify_insert('orders'::text, 250)
select pgmq.disable_notify_insert('orders'::text)
select pgmq.convert_archive_partitioned('orders'::text, '10'::text, '100'::text, 2)
select pgmq.send('parts'::text, '1'::jsonb) from generate_series(1, 30)
select sluice.set_queue_options('orders'::text, '{"fleet_concurrency": 3, "key_concurrency": 2, "rate": 5, "rate_interval": "1 minute"}'::jsonb, null::text)
select sluice.set_queue_options('orders'::text, '{"deduplication_window": "1 minute", "paused": true, "archive_retention": "1 day"}'::jsonb, null::text)
select sluice.set_queue_options('orders'::text, '{"fleet_concurrency": null, "key_concurrency": null, "rate": null, "rate_interval": null, "paused": null}'::jsonb, null::text)
select sluice.set_queue_options('orders'::text, '{"fleet_concurrency": 3, "key_concurrency": 2, "rate": 5}'::jsonb, 'pack'::text)
select sluice.set_queue_options('orders'::text, '{"fleet_concurrency": null, "key_concurrency": 1, "rate": null, "when_waiting": "block"}'::jsonb, 'pack'::text)
select * from sluice.queue_options('orders'::text)
select * from sluice.list_limit_usage()
select sluice.set_queue_options('orders'::text, '{"key_concurrency": null, "rate_interval": null, "when_waiting": null}'::jsonb, 'pack'::text)
select sluice.report_worker('w'::text, 'app'::text, 'host'::text, 1, '1'::text, array['queue orders'], 1, '1 s'::interval, '[{"running_s": 1}]'::jsonb, '{}'::jsonb, pg_backend_pid(), '[]'::jsonb, '[]'::jsonb, '[{"ended_s": 1, "seconds": 2}]'::jsonb)
select sluice.end_worker('w'::text)
select sluice._maintain_processes('0'::interval)
select pgq.create_queue('changes'::text)
select pgq.register_consumer('changes'::text, 'one'::text)
select pgq_coop.register_subconsumer('changes'::text, 'many'::text, 'first'::text)
select pgq.insert_event('changes'::text, 't'::text, 'd'::text)
select sluice.insert_event('changes'::text, 't'::text, 'd'::text, '1 hour'::interval, null::text, null::text, null::text, null::text)
select sluice.create_group('changes'::text, 'workers'::text, '{}'::jsonb)
select pgq.force_tick('changes'::text)
select pgq.ticker()
select * from sluice.tick()
select * from sluice.claim('changes'::text, 'workers'::text, 10, '1 minute'::interval, true, null::text[], false)
select pgq.next_batch('changes'::text, 'one'::text)
select pgq.event_retry(1::bigint, 1::bigint, 0)
select pgq.finish_batch(1::bigint)
select pgq.maint_retry_events()
select * from sluice.rotate(null::text)
select pgq.maint_rotate_tables_step1('changes'::text)
select pgq.maint_rotate_tables_step2()
select * from sluice.maintain_groups(null::text)
select * from sluice.maintain()
select * from sluice.after_restore(null::text)
select * from pgq.get_queue_info('changes'::text)
select * from pgq.get_consumer_info()
select sluice.drop_group('changes'::text, 'workers'::text)
select pgq_coop.unregister_subconsumer('changes'::text, 'many'::text, 'first'::text, 0)
select pgq.unregister_consumer('changes'::text, 'one'::text)
select pgq.drop_queue('changes'::text, true)
select pgmq.drop_queue('orders'::text)
select pgmq.drop_queue('parts'::text)
"""


def plant_overloads(connection: psycopg.Connection, found: list[tuple]) -> int:
    """Plant overloads of these functions that say when they run; return how many."""
    statements = []
    for namespace, name, types, defaults in found:
        overloads = {tuple(instead.get(kind, kind) for kind in types) for instead in INSTEAD} | {
            tuple(types[:count]) for count in range(len(types) - defaults, len(types))
        }
        for overload in overloads - {tuple(types)}:
            signature = f"{namespace}.{name}({', '.join(overload)})"
            statements.append(
                f"create function {signature} returns text language plpgsql as $$ begin "
                f"raise warning 'planted: {signature}'; return null; end; $$"
            )
    planted = 0
    for statement in statements:
        try:
            connection.execute(statement)
            planted += 1
        except psycopg.errors.DuplicateFunction:
            continue  # one of ours
    return planted


def run_of_planted(connection: psycopg.Connection, acts: list) -> list[str]:
    """Run acts, whether they succeed or not; return which planted functions ran, and calls that could not choose."""
    said: list[str] = []

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        message = diagnostic.message_primary or ""
        if message.startswith("planted: "):
            said.append(f"{message} in {diagnostic.context}")

    connection.add_notice_handler(note)
    for act in acts:
        try:
            connection.execute(act) if isinstance(act, str) else act(connection)
        except psycopg.errors.AmbiguousFunction as error:
            said.append(f"{error.diag.message_primary} in {error.diag.context or act}")
        except psycopg.Error:
            continue
    connection.remove_notice_handler(note)
    return said


def test_no_planted_overload_is_run(database_18):
    with database_18.connect() as connection:
        planted = plant_overloads(connection, rows(connection, SIGNATURES))
        acts = [
            *(line for line in WORK.splitlines() if line),
            *(schema.install, schema.verify, schema.plan, schema.upgrade),
            lambda connection: schema.uninstall(connection, drop_data=True),
        ]

        assert planted > 1000
        assert run_of_planted(connection, acts) == []


def test_no_planted_overload_is_run_by_adopt(database_18):
    with database_18.connect() as connection:
        found = rows(connection, SIGNATURES)
        connection.execute("drop schema pgmq, pgq, pgq_coop, sluice cascade")
        connection.execute(upstream_sql())
        connection.execute(
            "select pgmq.create('orders'), pgmq.create_unlogged('fast'), pgmq.create_fifo_index('orders'), "
            "pgmq.enable_notify_insert('orders', 7)"
        )
        plant_overloads(connection, [row for row in found if row[0] == "pgmq"])

        assert run_of_planted(connection, [schema.plan_adoption, schema.adopt]) == []

        assert schema.installed_versions(connection) != ()


def test_a_planted_overload_that_is_run_is_seen(database_18):
    with database_18.connect() as connection:
        plant_overloads(connection, rows(connection, SIGNATURES))

        [said] = run_of_planted(connection, ["select pgmq.create('orders'::varchar)"])

    assert "planted: pgmq.create(character varying)" in said
