"""Function privileges, and protection against running a caller's code as the owner."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from support import rows, value

P, R, W, A = "public", "reader", "writer", "admin"
# Functions of each schema by the roles that may run them. Administrators may run all.
GROUPS = {
    "pgq": {
        P: {"get_queue_info", "get_consumer_info", "version", "seq_getval", "quote_fqname"},
        R: {
            "register_consumer",
            "register_consumer_at",
            "unregister_consumer",
            "next_batch",
            "next_batch_info",
            "next_batch_custom",
            "get_batch_events",
            "get_batch_cursor",
            "get_batch_info",
            "finish_batch",
            "event_retry",
            "batch_retry",
            "batch_event_sql",
            "batch_event_tables",
            "find_tick_helper",
            "force_tick",
        },
        W: {"insert_event", "current_event_table", "jsontriga", "logutriga", "sqltriga"},
        A: {
            "create_queue",
            "drop_queue",
            "set_queue_config",
            "insert_event_raw",
            "event_retry_raw",
            "ticker",
            "maint_retry_events",
            "maint_rotate_tables_step1",
            "maint_rotate_tables_step2",
            "maint_operations",
            "maint_tables_to_vacuum",
            "grant_perms",
            "_grant_perms_from",
            "tune_storage",
            "seq_setval",
            "upgrade_schema",
        },
    },
    "pgq_coop": {
        P: set(),
        R: {
            "register_subconsumer",
            "unregister_subconsumer",
            "next_batch",
            "next_batch_custom",
            "finish_batch",
        },
        W: set(),
        A: set(),
    },
}
ROLES = ("reader", "writer", "admin")
EXECUTE = """
select p.proname, role, bool_and(has_function_privilege(role, p.oid, 'execute'))
from pg_proc as p
cross join unnest(%s::text[]) as role
where p.pronamespace = %s::regnamespace
group by p.proname, role
having bool_or(has_function_privilege(role, p.oid, 'execute'))
"""


@pytest.mark.parametrize("schema", GROUPS)
def test_each_role_may_run_what_is_its_own_and_nothing_else(connection, role, schema):
    groups = GROUPS[schema]
    expected = {(name, role) for name in groups[P]}
    for prefix in ("pgq", "sluice"):
        expected |= {(name, f"{prefix}_{group}") for group in (R, W, A) for name in groups[group]}
        expected |= {
            (name, f"{prefix}_{member}")
            for group in groups
            for name in groups[group]
            for member in ((A,) if group != P else (R, W, A))
        }
    expected |= {(name, "sluice_monitor") for name in groups[P]}
    roles = [
        role,
        "sluice_monitor",
        *(f"{prefix}_{member}" for prefix in ("pgq", "sluice") for member in ROLES),
    ]
    public = {name for group in groups.values() for name in group}

    found = rows(connection, EXECUTE, roles, schema)

    assert all(whole for _, _, whole in found)
    assert {(name, who) for name, who, _ in found if name in public} == expected
    assert {
        name for name, _, _ in found if name not in public and not name.startswith("_")
    } == set()


def test_internal_functions_granted_to_public_are_security_invoker(connection, role):
    query = """
        select p.oid::regprocedure::text
        from pg_proc as p
        where p.pronamespace in ('pgq'::regnamespace, 'pgq_coop'::regnamespace)
          and starts_with(p.proname, '_')
          and p.prosecdef
          and has_function_privilege(%s, p.oid, 'execute')
    """

    assert rows(connection, query, role) == []


# The complete work of a member of a role.
PRODUCING = [
    "select pgq.insert_event('q', 't', 'd')",
    "select pgq.insert_event('q', 't', 'd', '1', '2', '3', '4')",
    "select pgq.current_event_table('q')",
]
CONSUMING = [
    "select pgq.register_consumer('q', 'mine')",
    "select pgq.register_consumer_at('q', 'mine', 1)",
    "select pgq.next_batch('q', 'mine')",
    "select * from pgq.next_batch_info('q', 'mine')",
    "select * from pgq.next_batch_custom('q', 'mine', null, 1, null)",
    "select * from pgq.get_batch_info(1)",
    "select * from pgq.get_batch_events(1)",
    "select * from pgq.get_batch_cursor(1, 'one', 0)",
    "select * from pgq.get_batch_cursor(1, 'two', 1, 'ev_id > 0')",
    "fetch all from two",
    "select pgq.batch_event_sql(1)",
    "select * from pgq.batch_event_tables(1)",
    "select * from pgq.find_tick_helper(1, 1, now(), 0, 1, null)",
    "select pgq.event_retry(1, 1, 0)",
    "select pgq.event_retry(1, 1, now())",
    "select pgq.batch_retry(1, 60)",
    "select pgq.finish_batch(1)",
    "select pgq.force_tick('q')",
    "select pgq_coop.register_subconsumer('q', 'group', 'one')",
    "select pgq_coop.next_batch('q', 'group', 'one')",
    "select pgq_coop.next_batch_custom('q', 'group', 'one', null, 1, null)",
    "select pgq_coop.finish_batch(99)",
    "select pgq_coop.unregister_subconsumer('q', 'group', 'one', 1)",
    "select pgq.unregister_consumer('q', 'mine')",
]
MANAGING = [
    "select pgq.create_queue('new')",
    "select pgq.set_queue_config('new', 'ticker_max_lag', '1 s')",
    "update pgq.queue set queue_disable_insert = false",
    "select pgq.grant_perms('new')",
    "update pgq.subscription set sub_active = now()",
    "select pgq.insert_event_raw('new', null, now(), null, null, 't', 'd', null, null, null, null)",
    "select pgq.event_retry_raw('q', 'lake', now(), 1, now(), 1, 't', 'd', null, null, null, null)",
    "select pgq.maint_retry_events()",
    "select pgq.ticker()",
    "select pgq.ticker('new')",
    "select * from pgq.maint_operations()",
    "select pgq.maint_rotate_tables_step1('new')",
    "select pgq.maint_rotate_tables_step2()",
    "select * from pgq.maint_tables_to_vacuum()",
    "select pgq.upgrade_schema()",
    "select pgq.set_queue_config('new', 'external_ticker', 'true')",
    "select pgq.ticker('new', 100, now(), 1000)",
    "select pgq.drop_queue('new', true)",
]
PUBLIC = [
    "select * from pgq.get_queue_info()",
    "select * from pgq.get_queue_info('q')",
    "select * from pgq.get_consumer_info()",
    "select * from pgq.get_consumer_info('q')",
    "select * from pgq.get_consumer_info('q', 'c')",
    "select pgq.version()",
    "select pgq.seq_getval('pgq.event_1_id_seq')",
    "select pgq.quote_fqname('a.b')",
    "select * from pgq.queue, pgq.tick, pgq.consumer, pgq.subscription",
]


@pytest.fixture
def batches(connection: psycopg.Connection, consumer: str) -> str:
    """A log with two ticks and an event between them."""
    connection.execute("select pgq.insert_event('changes', 't', 'first')")
    connection.execute("update pgq.queue set queue_name = 'q'")
    connection.execute("select pgq.insert_event('q', 't', 'd')")
    connection.execute("select pgq.ticker('q')")
    return "q"


@pytest.fixture
def member(connection: psycopg.Connection, role: str) -> Iterator[str]:
    """The role without privileges, whose objects are dropped after the test."""
    yield role
    connection.execute("reset role")
    connection.execute(f"drop owned by {role}")


@pytest.mark.parametrize(
    ("member_of", "statements"),
    [
        ("pgq_writer", PRODUCING),
        ("pgq_reader", CONSUMING),
        ("pgq_admin", [*MANAGING, *PRODUCING, *CONSUMING]),
        ("sluice_writer", PRODUCING),
        ("sluice_reader", CONSUMING),
        ("sluice_admin", [*MANAGING, *PRODUCING, *CONSUMING]),
        ("pg_monitor", PUBLIC),
    ],
)
def test_a_member_of_a_role_can_do_all_of_its_work(
    database, connection, batches, member, member_of, statements
):
    connection.execute(f"grant {member_of} to {member}")

    with database.connect(user=member, autocommit=False) as session:
        for statement in [*statements, *PUBLIC]:
            session.execute(statement)


@pytest.mark.parametrize(
    ("member_of", "statements"),
    [
        ("pgq_writer", [*CONSUMING, *MANAGING, "select * from pgq.event_1"]),
        ("pgq_reader", [*PRODUCING, *MANAGING, "truncate pgq.event_1"]),
        (None, [*PRODUCING, *CONSUMING, *MANAGING, "select * from pgq.event_1"]),
    ],
)
def test_without_the_role_it_is_refused(
    database, connection, batches, member, member_of, statements
):
    if member_of:
        connection.execute(f"grant {member_of} to {member}")
    allowed = []

    with database.connect(user=member) as session:
        for statement in statements:
            try:
                session.execute(statement)
            except psycopg.errors.InsufficientPrivilege:
                continue
            except psycopg.errors.InvalidCursorName:
                continue
            allowed.append(statement)

    assert allowed == []


# A schema of operators that record their user, for a search_path in which it precedes pg_catalog.
TRAPS = r"""
create schema evil authorization {role};
set role {role};
create function evil.mark() returns boolean language plpgsql as
    $mark$ begin raise notice 'trap: %', current_user; return true; end $mark$;
do $do$
declare
    v_operator record;
begin
    for v_operator in
        select o.oid, o.oprname, o.oprleft::regtype as arg_1, o.oprright::regtype as arg_2, o.oprresult::regtype as result
        from pg_operator as o
        where o.oprnamespace = 'pg_catalog'::regnamespace
          and o.oprname in ('=', '<>', '<', '>', '<=', '>=', '+', '-', '||', '~')
          and o.oprleft::regtype::text in
              ('text', 'name', 'integer', 'bigint', 'boolean', 'interval', 'timestamp with time zone', 'xid8', 'oid')
          and o.oprright::regtype::text in
              ('text', 'name', 'integer', 'bigint', 'boolean', 'interval', 'timestamp with time zone', 'xid8', 'oid')
    loop
        execute format(
            'create function evil.operator_%s(%s, %s) returns %s language plpgsql as
                $f$ begin perform evil.mark(); return $1 operator(pg_catalog.%s) $2; end $f$',
            v_operator.oid, v_operator.arg_1, v_operator.arg_2, v_operator.result, v_operator.oprname
        );
        execute format(
            'create operator evil.%s (leftarg = %s, rightarg = %s, function = evil.operator_%s)',
            v_operator.oprname, v_operator.arg_1, v_operator.arg_2, v_operator.oid
        );
    end loop;
end;
$do$;
create function evil.now() returns timestamptz language plpgsql as
    $f$ begin perform evil.mark(); return pg_catalog.now(); end $f$;
create function evil.nextval(regclass) returns bigint language plpgsql as
    $f$ begin perform evil.mark(); return pg_catalog.nextval($1); end $f$;
create function evil.format(text, variadic text[]) returns text language plpgsql as
    $f$ begin perform evil.mark(); return pg_catalog.format($1, variadic $2); end $f$;
create function evil.quote_ident(text) returns text language plpgsql as
    $f$ begin perform evil.mark(); return pg_catalog.quote_ident($1); end $f$;
create view evil.trap as select 1::bigint as last_value, evil.mark() as is_called;
create function evil.on_write() returns trigger language plpgsql as
    $f$ begin perform evil.mark(); return new; end $f$;
reset role;
create table evil.trap_0 (like pgq.event_template);
create table evil.trap_1 (like pgq.event_template);
alter table evil.trap_0 owner to {role};
alter table evil.trap_1 owner to {role};
set role {role};
create trigger trap before insert on evil.trap_0 for each row execute function evil.on_write();
create trigger trap before truncate on evil.trap_1 for each statement execute function evil.on_write();
grant all on schema evil to public;
grant all on all tables in schema evil to public;
reset role;
"""
TEMPORARY = """
create temporary view pg_class as select c.*, evil.mark() as trap from pg_catalog.pg_class as c;
create temporary view pg_proc as select p.*, evil.mark() as trap from pg_catalog.pg_proc as p;
create temporary view pg_attribute as select a.attrelid, a.attname, evil.mark() as trap from pg_catalog.pg_attribute as a;
create temporary view pg_namespace as select n.*, evil.mark() as trap from pg_catalog.pg_namespace as n;
create temporary view queue as select q.*, evil.mark() as trap from pgq.queue as q;
create temporary view tick as select t.*, evil.mark() as trap from pgq.tick as t;
"""
HOSTILE = (
    "q'; do $x$ begin perform evil.mark(); end $x$; --",
    'q"; do $x$ begin perform evil.mark(); end $x$; --',
    "x' || evil.mark() || '",
    "evil.mark()",
    "true or evil.mark()",
    "evil.trap",
    "evil",
)
FUNCTIONS = """
select p.oid::regproc::text, p.proargtypes::regtype[]::text[], coalesce(p.proargnames, '{}')
from pg_proc as p
where p.pronamespace in ('pgq'::regnamespace, 'pgq_coop'::regnamespace)
  and p.prorettype <> 'trigger'::regtype and p.prokind = 'f'
  and has_function_privilege(p.oid, 'execute')
order by p.oid::regprocedure::text
"""
VALUES = {
    "integer": "1",
    "bigint": "1",
    "boolean": "true",
    "interval": "'0'",
    "timestamp with time zone": "'2001-02-03'",
}


@pytest.fixture
def attacker(database, connection, batches, member) -> Iterator[psycopg.Connection]:
    """A session whose search_path has trap operators before pg_catalog; they record their user."""
    connection.execute(TRAPS.format(role=member))
    with database.connect(user=member) as session:
        session.execute(TEMPORARY)
        session.execute("set search_path = evil, pg_catalog, pg_temp")
        yield session


def users_trapped(session: psycopg.Connection, statements: list[str]) -> set[str]:
    """Run statements, ignoring errors; return the users that ran a trap."""
    trapped = set()

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        message = diagnostic.message_primary or ""
        if message.startswith("trap: "):
            trapped.add(message.removeprefix("trap: "))

    session.add_notice_handler(note)
    for statement in statements:
        try:
            session.execute(statement)
        except psycopg.Error:
            continue
    session.remove_notice_handler(note)
    return trapped


def test_the_traps_catch_a_function_that_is_not_pinned(connection, attacker):
    connection.execute(
        "create function pgq.careless(text) returns boolean language sql security definer as $$ select $1 = 'x' $$"
    )
    connection.execute("alter function pgq.careless(text) owner to sluice_owner")
    connection.execute("grant execute on function pgq.careless(text) to public")

    assert users_trapped(attacker, ["select pgq.careless('x')"]) == {"sluice_owner"}


@pytest.mark.parametrize(
    "member_of", [None, "pgq_reader", "pgq_writer", "pgq_admin", "sluice_admin"]
)
def test_a_callers_path_runs_nothing_as_the_owner(connection, attacker, member, member_of):
    if member_of:
        connection.execute(f"grant {member_of} to {member}")

    users = users_trapped(attacker, [*PUBLIC, *PRODUCING, *CONSUMING, *MANAGING])

    assert users <= {member}


def calls_with_hostile_texts(session: psycopg.Connection) -> list[str]:
    """Return calls of every function that the session may run, with hostile texts as arguments."""
    statements = []
    for function, types, names in rows(session, FUNCTIONS):
        fitting = [
            VALUES.get(kind, "'c'" if "consumer" in name else "'q'")
            for kind, name in zip(types, [*names, *[""] * len(types)], strict=False)
        ]
        places = [place for place, kind in enumerate(types) if kind == "text"] or [None]
        for place in places:
            for text in HOSTILE if place is not None else ("",):
                arguments = list(fitting)
                if place is not None:
                    arguments[place] = psycopg.sql.quote(text)
                typed = ", ".join(
                    f"{argument}::{kind}" for argument, kind in zip(arguments, types, strict=True)
                )
                statements.append(f"select * from {function}({typed})")
    return statements


@pytest.mark.slow
@pytest.mark.parametrize("member_of", ["pgq_reader", "pgq_writer", "pgq_admin", "sluice_admin"])
def test_no_text_of_a_caller_is_run_as_the_owner(connection, attacker, member, member_of):
    connection.execute(f"grant {member_of} to {member}")
    attacker.execute("reset search_path")

    statements = calls_with_hostile_texts(attacker)

    assert len(statements) >= 40
    assert users_trapped(attacker, statements) <= {member}


def test_the_condition_of_a_cursor_runs_as_the_caller(connection, attacker, member):
    connection.execute(f"grant pgq_reader to {member}")
    attacker.execute("reset search_path")
    attacker.execute("select pgq.register_consumer_at('q', 'mine', 1)")
    batch_id = value(attacker, "select pgq.next_batch('q', 'mine')")

    assert users_trapped(
        attacker, [f"select * from pgq.get_batch_cursor({batch_id}, 'cur', 1, 'evil.mark()')"]
    ) == {member}


@pytest.mark.slow
def test_names_in_the_table_of_logs_are_not_run_or_emptied_as_the_owner(
    connection, attacker, member
):
    connection.execute(f"grant pgq_admin to {member}")
    connection.execute(
        "select pgmq.create('victim'), pgmq.create('victim_0'), pgmq.create('victim_1')"
    )
    for queue in ("victim", "victim_0", "victim_1"):
        connection.execute("select pgmq.send(%s, '1'::jsonb)", [queue])
        connection.execute(f"alter table pgmq.q_{queue} owner to sluice_owner")
    attacker.execute("reset search_path")
    calls = [
        statement
        for statement in calls_with_hostile_texts(attacker)
        if "drop_queue" not in statement and "unregister" not in statement
    ]

    for prefix, sequence in (
        ("evil.trap", "evil.trap"),
        ("pgmq.q_victim", "pgmq.q_victim_msg_id_seq"),
    ):
        poison = (
            f"update pgq.queue set queue_data_pfx = '{prefix}', queue_event_seq = '{sequence}', "
            f"queue_tick_seq = '{sequence}', queue_extra_maint = array['evil.mark()'], "
            "queue_rotation_period = '0'"
        )
        statements = [poison, *calls, *PRODUCING, *CONSUMING, *MANAGING]
        assert users_trapped(attacker, statements) <= {member}
    users = users_trapped(attacker, ["select pgq.drop_queue('q', true)"])

    assert users <= {member}
    for queue in ("victim", "victim_0", "victim_1"):
        assert value(connection, f"select count(*) from pgmq.q_{queue}") == 1
    assert value(connection, "select last_value from pgmq.q_victim_msg_id_seq") == 1


def test_only_administrators_write_the_tables_that_functions_read_names_from(connection, role):
    query = """
        select r, p
        from unnest(array['pgq_reader', 'pgq_writer', 'sluice_reader', 'sluice_writer', 'sluice_monitor', %s]) as r,
            unnest(array['insert', 'update', 'delete', 'truncate', 'trigger', 'references']) as p,
            pg_class as c
        where c.relnamespace in ('pgq'::regnamespace, 'pgq_coop'::regnamespace) and c.relkind in ('r', 'v', 'p')
          and has_table_privilege(r, c.oid, p)
    """

    assert rows(connection, query, role) == []
