"""sluice.notifier_resign: a notifier that stops lets another one lead."""

from __future__ import annotations

from support import value

IS_LEADER = "select is_leader from sluice.notifier_pulse(%s, '1 h', '{}')"
RESIGN = "select sluice.notifier_resign(%s)"


def test_another_leads_at_once(connection):
    assert value(connection, IS_LEADER, 1) is True
    assert value(connection, IS_LEADER, 2) is False

    assert value(connection, RESIGN, 1) is True

    assert value(connection, "select sluice.notifier_age()") is None
    assert value(connection, IS_LEADER, 2) is True


def test_one_that_does_not_lead_changes_nothing(connection):
    assert value(connection, RESIGN, 1) is False
    assert value(connection, IS_LEADER, 1) is True

    assert value(connection, RESIGN, 2) is False

    assert value(connection, IS_LEADER, 2) is False


def test_the_listeners_hear_of_it_before_they_hear_of_the_next(database, connection):
    connection.execute('listen "sluice.notifier"')
    with database.connect() as first, database.connect(autocommit=False) as resigning:
        assert value(first, IS_LEADER, 1) is True
        assert value(resigning, RESIGN, 1) is True
        assert value(first, IS_LEADER, 2) is False, "not before it is committed"
        resigning.commit()
        assert value(first, IS_LEADER, 2) is True
        first.execute("select sluice.notifier_wake('{}', true)")

        heard = [notice.payload for notice in connection.notifies(timeout=10, stop_after=2)]

    assert heard == ["gone", ""]


def test_a_reader_may_resign(database, connection, role):
    connection.execute(f"grant sluice_reader to {role}")
    with database.connect(user=role) as reader:
        assert value(reader, IS_LEADER, 7) is True
        assert value(reader, RESIGN, 7) is True
