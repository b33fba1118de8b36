"""Extra maintenance of logs: a role that names a function gains no rights of the session that runs maintenance.

Covers sluice.list_extra_maint, sluice._trusts.
"""

from __future__ import annotations

import re

import psycopg
import pytest

from pgsluice import schema
from support import rows, value

RUN = "select sluice.run_extra_maint('changes', %s)"
MARK = "create function {name} returns text language sql {options} as 'insert into public.mark values (current_user) returning who'"


@pytest.fixture
def mallory(database, connection, role):
    """A session of a member of both administrators' roles, with a schema of its own and rights in public."""
    connection.execute("create table public.mark (who text); grant all on public.mark to public")
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(f"grant sluice_admin, pgq_admin to {role}")
    connection.execute(f"create schema evil authorization {role}")
    connection.execute("grant usage on schema evil to public")
    connection.execute(f"grant create on schema public to {role}")
    with database.connect(user=role) as session:
        yield session
    connection.execute(f"drop owned by {role} cascade")


def named(mallory: psycopg.Connection, *names: str) -> None:
    mallory.execute(
        "update pgq.queue set queue_extra_maint = %s where queue_name = 'changes'", [list(names)]
    )


def refused(connection: psycopg.Connection, name: str, reason: str) -> None:
    """Check that nothing of a function runs, that PgQ's daemon does not get it, and that verify lists it."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match=reason) as caught:
        connection.execute(RUN, [name])
    assert caught.value.diag.message_hint
    assert rows(connection, "select * from mark") == []
    daemon = rows(connection, "select func_name from pgq.maint_operations()")
    assert name not in [func_name for (func_name,) in daemon]
    assert any(
        "'changes'" in line and name in line and re.search(reason, line)
        for line in schema.problems(connection)
    )


@pytest.mark.parametrize("options", ["", "security definer"])
def test_a_function_of_the_role_that_names_it_is_not_called_by_a_superuser(
    connection, mallory, role, options
):
    mallory.execute(MARK.format(name="evil.evil(text)", options=options))
    named(mallory, "evil.evil")

    refused(connection, "evil.evil", f"belongs to {role}, whose code would get the rights of")

    assert value(mallory, RUN, "evil.evil") is True  # its own code with its own rights
    assert rows(connection, "select * from mark") == [(role,)]
    operations = rows(mallory, "select func_name from pgq.maint_operations()")
    assert ("evil.evil",) in operations


def test_a_function_of_a_role_that_the_naming_role_can_become_is_not_called(
    connection, mallory, role
):
    connection.execute(f"create role team_{role}; grant team_{role} to {role}")
    connection.execute(f"grant create, usage on schema evil to team_{role}")
    mallory.execute(f"set role team_{role}")
    mallory.execute(MARK.format(name="evil.shared(text)", options=""))
    mallory.execute("reset role")
    named(mallory, "evil.shared")
    try:
        refused(connection, "evil.shared", f"belongs to team_{role}")
    finally:
        connection.execute(f"drop owned by team_{role} cascade; drop role team_{role}")


def test_a_trusted_function_is_not_called_in_a_schema_whose_owner_could_replace_it(
    connection, mallory, role
):
    connection.execute(MARK.format(name="evil.good(text)", options=""))
    named(mallory, "evil.good")

    refused(connection, "evil.good", f"its schema belongs to {role}, who could replace it")


@pytest.mark.parametrize("owner", ["superuser", "sluice_owner"])
def test_a_function_of_a_trusted_role_is_called(connection, mallory, owner):
    connection.execute(MARK.format(name="public.good(text)", options=""))
    connection.execute("grant create on schema public to sluice_owner")
    if owner != "superuser":
        connection.execute(f"alter function public.good(text) owner to {owner}")
    named(mallory, "good")

    assert value(connection, RUN, "good") is True
    assert rows(connection, "select count(*) from mark") == [(1,)]
    assert ("good", "changes") in rows(connection, "select * from pgq.maint_operations()")
    assert schema.problems(connection) == ()


@pytest.mark.parametrize("parameter", ["varchar", "name", "anyelement", "public.words"])
def test_an_overload_of_another_role_is_not_called(connection, mallory, parameter):
    mallory.execute("create domain public.words as text")
    connection.execute(MARK.format(name="public.good(text)", options=""))
    connection.execute("revoke execute on function public.good(text) from public")
    connection.execute("grant execute on function public.good(text) to pgq_admin, sluice_admin")
    mallory.execute(
        f"create function public.good({parameter}) returns integer language plpgsql as "
        "$$ begin raise exception 'ran'; end $$"
    )
    named(mallory, "good")

    assert value(connection, RUN, "good") is True
    assert rows(connection, "select count(*) from mark") == [(1,)]


def test_an_overload_that_makes_a_call_ambiguous_is_not_called_either(connection, mallory):
    connection.execute(MARK.format(name="public.good(text)", options=""))
    mallory.execute(MARK.format(name="public.good(text, integer default 1)", options=""))
    named(mallory, "good")

    with pytest.raises(psycopg.errors.AmbiguousFunction):
        connection.execute(RUN, ["good"])
    assert rows(connection, "select * from mark") == []


def test_a_name_without_letters_stops_no_other_function(connection, mallory):
    connection.execute(MARK.format(name="public.good(text)", options=""))
    named(mallory, "", ".", "x.", ".x", '"', "good")

    assert value(connection, RUN, "good") is True
    assert ("good", "changes") in rows(connection, "select * from pgq.maint_operations()")


def test_a_function_without_exactly_one_text_is_not_called(connection, mallory):
    connection.execute(MARK.format(name="public.good(varchar)", options=""))
    named(mallory, "good")

    refused(connection, "good", re.escape("there is no function public.good(text)"))


def test_a_trusted_function_finds_no_code_of_other_roles_by_the_search_path(
    connection, mallory, database
):
    connection.execute(
        "create function public.good(text) returns void language plpgsql as "
        "$$ begin perform lower(1 @+@ 1); exception when undefined_function then null; end $$"
    )
    connection.execute(f"alter database {database.name} set search_path = evil, public")
    mallory.execute(
        "create function evil.plus(integer, integer) returns text language plpgsql as "
        "$$ begin insert into public.mark values (current_user); return ''; end $$"
    )
    for namespace in ("evil", "public"):
        mallory.execute(
            f"create operator {namespace}.@+@ (function = evil.plus, leftarg = integer, rightarg = integer)"
        )
    named(mallory, "good")
    with database.connect() as session:
        assert value(session, "select 1 @+@ 1") == ""
        session.execute("truncate mark")

        assert value(session, RUN, "good") is True

    assert rows(connection, "select * from mark") == []


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("pg_catalog.ts_stat", "select evil.vector()"),  # runs its argument as SQL
        ("pg_catalog.lo_import", "/etc/passwd"),
        ("pg_catalog.pg_read_file", "/etc/passwd"),
    ],
)
def test_a_built_in_function_does_not_get_a_text_of_the_naming_role(connection, mallory, name, log):
    mallory.execute(
        "create function evil.vector() returns tsvector language plpgsql as "
        "$$ begin insert into public.mark values (current_user); return ''; end $$"
    )
    mallory.execute("select pgq.create_queue(%s)", [log])
    mallory.execute("update pgq.queue set queue_extra_maint = %s", [[name]])

    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="built in or written in C"):
        connection.execute("select sluice.run_extra_maint(%s, %s)", [log, name])
    assert rows(connection, "select * from mark") == []


def test_a_function_is_not_called_that_the_naming_roles_may_not_call(connection, mallory):
    """An administrator of logs would else drop a queue of messages that has the name of its log."""
    connection.execute("select pgmq.create('changes')")
    named(mallory, "pgmq.drop_queue")

    refused(
        connection, "pgmq.drop_queue", "pgq_admin may write queue_extra_maint, but may not call it"
    )

    assert value(connection, "select count(*) from pgmq.meta") == 1
    connection.execute(MARK.format(name="public.private(text)", options=""))
    connection.execute("revoke execute on function public.private(text) from public")
    named(mallory, "private")
    refused(connection, "private", "may not call it")


def test_a_role_that_owns_a_function_with_the_installation_is_trusted(connection, mallory, role):
    connection.execute(f"grant sluice_owner to {role}")
    mallory.execute(MARK.format(name="public.mine(text)", options=""))
    named(mallory, "mine")

    assert value(connection, RUN, "mine") is True


def test_every_administrator_reads_the_rules(connection, as_member):
    for member_of in ("pgq_admin", "sluice_admin"):
        assert as_member(member_of, "select * from sluice.list_extra_maint(10::oid)") == []
        assert as_member(member_of, "select sluice._trusts(10::oid, 10::oid)") == [(True,)]
        assert as_member(member_of, "select sluice._trusts(10::oid, 'nowhere'::text)") == [(None,)]
