"""Untrusted code: the installer runs none from our schemas, the search_path or pg_temp."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgsluice import schema
from pgsluice.errors import SchemaError
from support import rows, value
from support.pgmq import upstream_sql

# Planted functions advance this sequence, as any role can, and a rollback does not undo it.
WITNESS = """
create sequence public.witness;
grant usage on sequence public.witness to public;
"""
PLANTED = "perform pg_catalog.nextval('public.witness'::pg_catalog.regclass);"


def executed(connection: psycopg.Connection) -> bool:
    """True if a planted function ran since the witness was created."""
    return value(connection, "select is_called from public.witness")


@pytest.fixture
def member(database, connection, role) -> Iterator[psycopg.Connection]:
    """A session of a role that may create in schema pgmq, as sluice_admin formerly could."""
    connection.execute(WITNESS)
    connection.execute(f"grant sluice_admin to {role}")
    connection.execute(f"grant create on schema pgmq to {role}")
    connection.execute("select pgmq.create('orders')")
    with database.connect(user=role) as session:
        yield session
    connection.execute(f"drop owned by {role}")


def plant(session: psycopg.Connection, signature: str = "_create_reader(varchar)") -> None:
    session.execute(
        f"create function pgmq.{signature} returns void language plpgsql as $$ begin {PLANTED} "
        "perform set_config('role', 'none', true); end; $$"
    )


def test_install_refuses_a_function_of_another_role_in_our_schemas(connection, member, role):
    plant(member)

    with pytest.raises(SchemaError) as caught:
        schema.install(connection)

    assert not executed(connection)
    assert str(caught.value) == (
        f"function pgmq._create_reader(character varying) belongs to {role}, who could run code with the installer's "
        "rights through it; drop function pgmq._create_reader(character varying)"
    )
    member.execute("drop function pgmq._create_reader(varchar)")
    assert schema.install(connection) == ()


def test_upgrade_and_its_plan_refuse_a_function_of_another_role(connection, member):
    plant(member)

    for act in (schema.upgrade, schema.plan):
        with pytest.raises(SchemaError, match="_create_reader"):
            act(connection)

    assert not executed(connection)


def test_verify_lists_a_function_of_another_role_and_does_not_run_it(connection, member, role):
    plant(member)

    differences = schema.verify(connection)

    assert not executed(connection)
    assert (
        f"-function pgmq._create_reader(character varying) belongs to {role}; "
        "drop function pgmq._create_reader(character varying)" in differences
    )


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (
            "create procedure pgmq.p() language sql as ''",
            "procedure pgmq.p() belongs to {role}, who could run code with the installer's rights through it; "
            "drop procedure pgmq.p()",
        ),
        (
            "create view pgmq.q_trap as select 1 as msg_id",
            "view pgmq.q_trap belongs to {role}, who could run code with the installer's rights through it; "
            "drop view pgmq.q_trap",
        ),
        (
            "create domain pgmq.text as pg_catalog.text",
            "type pgmq.text belongs to {role}, who could run code with the installer's rights through it; "
            "drop type pgmq.text",
        ),
        (
            "create operator pgmq.<< (leftarg = text, rightarg = text, function = pg_catalog.texteq)",
            "operator pgmq.<<(text,text) belongs to {role}, who could run code with the installer's rights through it; "
            "drop operator pgmq.<<(text,text)",
        ),
    ],
)
def test_install_refuses_every_kind_of_object_that_runs_code(
    connection, member, role, create, message
):
    member.execute(create)

    with pytest.raises(SchemaError) as caught:
        schema.install(connection)

    assert message.format(role=role) in str(caught.value).replace("pg_catalog.text", "text")


def test_every_planted_object_is_named(connection, member):
    plant(member, "_create_reader(varchar)")
    plant(member, "_create_reader(name)")

    with pytest.raises(SchemaError) as caught:
        schema.install(connection)

    assert str(caught.value).count("drop function pgmq._create_reader(") == 2
    assert ". Also: " in str(caught.value)


@pytest.mark.slow
def test_functions_of_the_schemas_owner_and_of_superusers_are_listed_and_not_refused(connection):
    connection.execute("create function pgmq.mine() returns integer return 1")
    connection.execute(
        "set role sluice_owner; create function pgq.left_over(integer) returns integer return 1; reset role"
    )

    assert schema.install(connection) == ()

    assert [line for line in schema.verify(connection) if "function" in line] == [
        "-function pgmq.mine() is none of this release; drop function pgmq.mine()",
        "-function pgq.left_over(integer) is none of this release; drop function pgq.left_over(integer)",
    ]


@pytest.mark.slow
def test_verify_lists_who_else_may_create_in_our_schemas(connection, role):
    connection.execute(f"grant create on schema pgmq, sluice to {role}")

    differences = schema.verify(connection)
    connection.execute(f"drop owned by {role}")

    assert differences == (
        f"-create on schema pgmq is granted to {role}; revoke create on schema pgmq from {role}",
        f"-create on schema sluice is granted to {role}; revoke create on schema sluice from {role}",
    )


def test_a_planted_function_of_the_older_names_is_refused(connection, database, role):
    connection.execute(WITNESS)
    schema.install(connection, legacy=True)
    connection.execute(f"grant create on schema public to {role}")
    with database.connect(user=role) as session:
        session.execute(
            "create function public.pgmq_send(text, text) returns bigint language sql as 'select 1'"
        )

    with pytest.raises(SchemaError, match=r"function public.pgmq_send\(.*text\) belongs to"):
        schema.install(connection)
    connection.execute(f"drop owned by {role}")


# Functions and operators that unqualified names would resolve to, as their types match better.
HOSTILE = """
create schema if not exists hostile;
grant usage on schema hostile to public;
create function hostile.mark() returns void language plpgsql as $$ begin {planted} end; $$;
"""
BETTER_MATCHES = (
    ("format(text, text, name)", "text", "''"),
    ("format(text, text)", "text", "''"),
    ("format(text, name, name)", "text", "''"),
    ("lower(varchar)", "text", "''"),
    ("lower(text)", "text", "''"),
    ("now()", "timestamptz", "pg_catalog.now()"),
    ("clock_timestamp()", "timestamptz", "pg_catalog.now()"),
    ("to_regclass(text)", "regclass", "null"),
    ("set_config(text, text, boolean)", "text", "''"),
    ("pg_get_userbyid(oid)", "name", "''"),
    ("split_part(text, text, integer)", "text", "''"),
    ("has_schema_privilege(text, text)", "boolean", "true"),
)


@pytest.fixture
def trapped(request, empty_database) -> Iterator[psycopg.Connection]:
    """A superuser's session whose search_path starts with a schema of planted functions."""
    with empty_database.connect() as connection:
        connection.execute(WITNESS)
        connection.execute(HOSTILE.replace("{planted}", PLANTED))
        for signature, kind, result in BETTER_MATCHES:
            for place in ("hostile", "pg_temp"):
                connection.execute(
                    f"create function {place}.{signature} returns {kind} language plpgsql as "
                    f"$$ begin {PLANTED} return {result}; end; $$"
                )
        types = (("name", "text"), ("text", "text"), ("name", "name"), ("oid", "oid"))
        operators = [(name, *pair) for name in ("=", "<>", "~", "||", "<") for pair in types]
        for name, left, right in operators:
            kind = "text" if name == "||" else "boolean"
            result = "$1" if kind == "text" else "true"
            connection.execute(
                f"create function hostile.compare_{operators.index((name, left, right))}({left}, {right}) returns {kind} "
                f"language plpgsql as $$ begin {PLANTED} return {result}; end; $$"
            )
            connection.execute(
                f"create operator hostile.{name} (leftarg = {left}, rightarg = {right}, "
                f"function = hostile.compare_{operators.index((name, left, right))})"
            )
        for table in ("pg_class", "pg_proc", "pg_namespace", "migration", "meta"):
            connection.execute(f"create temporary table {table} (n integer)")
        connection.execute("set search_path = hostile, pg_catalog, public")
        yield connection


@pytest.mark.slow
def test_nothing_of_the_sessions_path_is_run_by_install_verify_plan_and_uninstall(trapped):
    before = value(trapped, "show search_path")
    schema.install(trapped, legacy=True)
    for act in (schema.install, schema.verify, schema.plan, schema.upgrade, schema.fingerprint):
        act(trapped)
        assert value(trapped, "show search_path") == before, act
    schema.uninstall(trapped, drop_data=True)
    schema.install_tables(trapped)

    assert not executed(trapped)
    assert value(trapped, "show search_path") == before


@pytest.mark.slow
def test_nothing_of_the_sessions_path_is_run_by_adopt(trapped):
    trapped.execute("set search_path = pg_catalog")
    trapped.execute(upstream_sql())
    trapped.execute("select pgmq.create('orders'), pgmq.create_unlogged('fast')")
    trapped.execute("set search_path = hostile, pg_catalog, public")

    assert schema.plan_adoption(trapped).objections == ()
    assert schema.adopt(trapped) != ()

    assert not executed(trapped)


def test_nothing_of_the_sessions_path_is_run_by_the_printed_text(trapped):
    trapped.execute(schema.print_sql(legacy=True), prepare=False)

    assert not executed(trapped)
    assert value(trapped, "show search_path") == "hostile, pg_catalog, public"


def test_a_failed_installation_leaves_the_sessions_path_as_it_was(connection):
    connection.execute("set search_path = public")
    connection.execute(
        "update sluice.migration set checksum = 'x' where version = 'pgq/0000_baseline'"
    )

    with pytest.raises(SchemaError):
        schema.install(connection)

    assert value(connection, "show search_path") == "public"


@pytest.mark.slow
@pytest.mark.parametrize("format_option", ["custom", "plain"])
def test_a_restored_dump_verifies(database, connection, empty_database, tmp_path, format_option):
    connection.execute("select pgmq.create('orders'), pgq.create_queue('changes')")
    programs = Path(database.server.bin_dir)
    dump = tmp_path / "dump"

    def run(program: str, *arguments: object) -> None:
        command = [programs / program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    run("pg_dump", "-F", format_option, "-f", dump, database.url)
    if format_option == "custom":
        run("pg_restore", "-d", empty_database.url, dump)
    else:
        run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", dump, empty_database.url)

    with empty_database.connect() as restored:
        assert schema.verify(restored) == ()
        assert schema.fingerprint(restored) == schema.fingerprint(connection)
        assert rows(restored, "select queue_name from pgmq.list_queues()") == [("orders",)]
