"""sluice.run_extra_maint: it calls only the functions that a log names, as the caller."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value

RUN = "select sluice.run_extra_maint(%s, %s)"


@pytest.fixture
def called(connection):
    """A log that names a function to be quoted; calls return the logs and callers so far."""
    connection.execute('create schema "My schema"; grant usage on schema "My schema" to public')
    connection.execute("create table call (log text, caller text); grant all on call to public")
    connection.execute(
        'create function "My schema"."f(x)"(log text) returns integer language sql '
        "as 'insert into public.call values (log, current_user) returning 1'"
    )
    connection.execute("create function note(log text) returns text language sql as 'select log'")
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("update pgq.queue set queue_extra_maint = '{My schema.f(x), note}'")
    return lambda: rows(connection, "select * from call")


def test_it_calls_what_the_log_names_with_the_name_of_the_log(connection, called):
    assert value(connection, RUN, "changes", "My schema.f(x)") is True
    assert [log for log, _ in called()] == ["changes"]

    assert (
        value(connection, RUN, "changes", "note") is True
    )  # an unqualified name is in schema public, as in PgQ


def test_it_calls_nothing_that_the_log_does_not_name(connection, called):
    assert value(connection, RUN, "changes", "pg_catalog.pg_sleep") is False
    assert value(connection, RUN, "nowhere", "My schema.f(x)") is False
    assert value(connection, RUN, None, None) is False
    assert called() == []


def test_it_has_the_rights_of_its_caller(called, as_member, role):
    assert as_member(
        "sluice_admin", "select sluice.run_extra_maint('changes', 'My schema.f(x)')"
    ) == [(True,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_reader", "select sluice.run_extra_maint('changes', 'note')")
