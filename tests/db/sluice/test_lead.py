"""sluice.lead: one session leads, the others hear it, and nobody leads through a pooler."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value, wait_until


def lead(session):
    return value(session, "select sluice.lead(%s)", session.info.backend_pid)


def test_one_session_leads_until_it_ends_and_those_who_stand_by_hear_it(database):
    with database.connect() as first, database.connect() as second:
        assert [lead(first), lead(second), lead(first)] == [True, False, True]

        heard = list(second.notifies(timeout=30, stop_after=1))
        assert [notification.channel for notification in heard] == ["sluice.leader"]
        first.close()
        wait_until(lambda: lead(second), "the server to notice")

        # It hears itself no more.
        assert rows(second, "select * from pg_listening_channels()") == []


def test_behind_a_pooler_nobody_leads(connection):
    other = connection.info.backend_pid + 1

    assert value(connection, "select sluice.lead(%s)", other) is None
    assert value(connection, "select sluice.lead(null)") is None
    assert value(connection, "select count(*) from pg_locks where locktype = 'advisory'") == 0


def test_a_leader_that_is_cut_off_is_ended_by_the_server(database, connection):
    with database.connect() as leader:
        lead(leader)

        assert value(leader, "show idle_session_timeout") == "5s"
        assert value(leader, "show synchronous_commit") == "off"
        leader.execute("set idle_session_timeout = '50ms'")  # as if it were over
        wait_until(lambda: lead(connection), "the server to end it")
        with pytest.raises(psycopg.OperationalError):
            leader.execute("select 1")


def test_only_who_may_maintain_may_lead(connection, as_member):
    query = "select sluice.lead(pg_backend_pid())"

    assert as_member("sluice_admin", query) == [(True,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_reader", query)
