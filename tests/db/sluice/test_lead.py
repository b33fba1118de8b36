"""sluice.lead: leader election among sessions, notified standbys, and poolers."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value, wait_until


def lead(session):
    return value(session, "select sluice.lead(%s)", session.info.backend_pid)


def test_one_session_leads_until_it_ends_and_standbys_are_notified(database):
    with database.connect() as first, database.connect() as second:
        assert [lead(first), lead(second), lead(first)] == [True, False, True]

        notifications = list(second.notifies(timeout=30, stop_after=1))
        assert [notification.channel for notification in notifications] == ["sluice.leader"]
        first.close()
        wait_until(lambda: lead(second), "the server to end the first session")

        # The leader no longer listens.
        assert rows(second, "select * from pg_listening_channels()") == []


def test_no_leader_is_elected_behind_a_pooler(connection):
    other = connection.info.backend_pid + 1

    assert value(connection, "select sluice.lead(%s)", other) is None
    assert value(connection, "select sluice.lead(null)") is None
    assert value(connection, "select count(*) from pg_locks where locktype = 'advisory'") == 0


def test_a_leader_that_is_cut_off_is_ended_by_the_server(database, connection):
    with database.connect() as leader:
        lead(leader)

        assert value(leader, "show idle_session_timeout") == "5s"
        assert value(leader, "show synchronous_commit") == "off"
        leader.execute("set idle_session_timeout = '50ms'")  # simulates the timeout
        wait_until(lambda: lead(connection), "the server to end the session")
        with pytest.raises(psycopg.OperationalError):
            leader.execute("select 1")


def test_only_an_admin_may_lead(connection, as_member):
    query = "select sluice.lead(pg_backend_pid())"

    assert as_member("sluice_admin", query) == [(True,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_reader", query)
