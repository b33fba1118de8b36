"""sluice.leader: the last leader of a role, and the time since its last call."""

from __future__ import annotations

from datetime import timedelta

from support import value, wait_until

AGE = "select clock_timestamp() - called_at from sluice.leader('notifier')"


def test_there_is_no_age_before_the_first_notifier(connection):
    assert value(connection, AGE) is None


def test_it_grows_from_the_last_round_on_also_of_one_that_was_rolled_back(database, connection):
    with database.connect(autocommit=False) as other:
        other.execute("select sluice.notifier_pulse(1, '1 s', '{}')")
        other.rollback()

    wait_until(lambda: value(connection, AGE) > timedelta(milliseconds=50), "the age to grow")
    before = value(connection, AGE)
    connection.execute("select sluice.notifier_pulse(1, '1 s', '{}')")
    assert value(connection, AGE) < before


def test_a_monitor_may_ask(database, connection, role):
    connection.execute(f"grant sluice_monitor to {role}")
    with database.connect(user=role) as monitor:
        assert value(monitor, AGE) is None


def leader(connection):
    return value(
        connection,
        "select case when is_active then candidate end from sluice.leader('maintenance')",
    )


def test_an_old_call_is_no_leader(connection):
    connection.execute(
        "select setval('sluice.maintenance_turn', "
        "(floor(extract(epoch from clock_timestamp() - '1 min'::interval) * 100)::bigint << 23) | 1)"
    )

    assert leader(connection) is None

    connection.execute("select sluice.lead('maintenance', 1, '1 s')")
    assert leader(connection) == 1
