"""sluice.lead: leader election by a sequence. Covers _turn."""

from __future__ import annotations

import psycopg
import pytest

from support import value, wait_until, wal_bytes


def lead(connection, candidate, lease="1 h", role="maintenance"):
    return value(connection, "select sluice.lead(%s, %s, %s::interval)", role, candidate, lease)


def leader(connection):
    return value(
        connection,
        "select case when is_active then candidate end from sluice.leader('maintenance')",
    )


def test_one_candidate_leads_until_its_lease_is_over(connection):
    assert leader(connection) is None
    assert [lead(connection, 1), lead(connection, 2), lead(connection, 1)] == [True, False, True]
    assert leader(connection) == 1

    wait_until(lambda: lead(connection, 2, "0.2 s"), "the lease to end")

    assert lead(connection, 1) is False
    assert leader(connection) == 2


def test_roles_have_leaders_of_their_own(connection):
    assert lead(connection, 1)
    assert lead(connection, 2, role="notifier")
    assert not lead(connection, 2)
    assert value(connection, "select candidate from sluice.leader('notifier')") == 2


def test_a_call_by_a_fast_clock_keeps_no_candidate_from_leading(connection):
    connection.execute(
        "select setval('sluice.maintenance_turn', "
        "(floor(extract(epoch from clock_timestamp() + '1 h') * 100)::bigint << 23) | 1)"
    )

    assert lead(connection, 2) is True


@pytest.mark.parametrize("candidate", [0, 4_194_303])
def test_the_number_of_a_candidate_is_kept(connection, candidate):
    assert lead(connection, candidate)
    assert leader(connection) == candidate


@pytest.mark.parametrize("has_ended", [False, True])
def test_half_a_lease_is_enough_if_the_session_of_the_leader_has_ended(
    database, connection, has_ended
):
    with database.connect() as session:
        pid = session.info.backend_pid
        assert lead(session, pid)
        connection.execute(
            "select setval('sluice.maintenance_turn', last_value - (40 * 60 * 100::bigint << 23)) "
            "from sluice.maintenance_turn"
        )
        assert lead(connection, 2, "1 h 30 min") is False
        assert lead(connection, 2, "1 h") is False
        if has_ended:
            session.close()
            wait_until(lambda: lead(connection, 2, "1 h"), "the session to end")
        assert lead(connection, 2, "1 h") is has_ended


def test_a_leader_takes_no_transaction_id_and_writes_nothing(connection):
    lead(connection, 1)
    with connection.transaction():
        assert lead(connection, 1)
        assert wal_bytes(connection, "sluice.lead('maintenance', 1, '1 h'::interval)") == 0
        assert value(connection, "select pg_current_xact_id_if_assigned()") is None


def test_of_candidates_in_parallel_sessions_one_leads(database):
    with database.connect(autocommit=False) as first, database.connect(autocommit=False) as second:
        assert lead(first, 1) is True
        assert lead(second, 2) is False  # although the first has not committed


def test_only_an_admin_may_lead_maintenance(connection, as_member):
    query = "select sluice.lead('maintenance', 5, '1 s')"

    assert as_member("sluice_admin", query) == [(True,)]
    assert as_member(
        "sluice_monitor",
        "select case when is_active then candidate end from sluice.leader('maintenance')",
    ) == [(5,)]
    connection.execute("select sluice.resign('maintenance', 5)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_reader", query)
