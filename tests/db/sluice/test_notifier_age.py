"""sluice.notifier_age: the time since the last round of a notifier."""

from __future__ import annotations

from datetime import timedelta

from support import value, wait_until

AGE = "select sluice.notifier_age()"


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
