"""sluice.resign: a leader gives up leadership; a notifier tells the listeners."""

from __future__ import annotations

from support import value

IS_LEADER = "select is_leader from sluice.notifier_pulse(%s, '1 h', '{}')"
RESIGN = "select sluice.resign('notifier', %s)"


def lead(connection, candidate):
    return value(connection, "select sluice.lead('maintenance', %s, '1 h')", candidate)


def test_another_leads_at_once_after_a_resignation(connection):
    lead(connection, 1)
    assert value(connection, "select sluice.resign('maintenance', 2)") is False
    assert lead(connection, 2) is False

    assert value(connection, "select sluice.resign('maintenance', 1)") is True

    assert (
        value(
            connection,
            "select case when is_active then candidate end from sluice.leader('maintenance')",
        )
        is None
    )
    assert lead(connection, 2) is True


def test_another_leads_at_once(connection):
    assert value(connection, IS_LEADER, 1) is True
    assert value(connection, IS_LEADER, 2) is False

    assert value(connection, RESIGN, 1) is True

    assert (
        value(connection, "select clock_timestamp() - called_at from sluice.leader('notifier')")
        is None
    )
    assert value(connection, IS_LEADER, 2) is True


def test_resigning_without_leading_changes_nothing(connection):
    assert value(connection, RESIGN, 1) is False
    assert value(connection, IS_LEADER, 1) is True

    assert value(connection, RESIGN, 2) is False

    assert value(connection, IS_LEADER, 2) is False


def test_resignation_is_notified_before_the_next_heartbeat(database, connection):
    connection.execute('listen "sluice.notifier"')
    with database.connect() as first, database.connect(autocommit=False) as resigning:
        assert value(first, IS_LEADER, 1) is True
        assert value(resigning, RESIGN, 1) is True
        assert value(first, IS_LEADER, 2) is False, "not before the resignation is committed"
        resigning.commit()
        assert value(first, IS_LEADER, 2) is True
        first.execute("select sluice.notifier_wake('{}', true)")

        payloads = [notice.payload for notice in connection.notifies(timeout=10, stop_after=2)]

    assert payloads == ["gone", ""]


def test_a_reader_may_resign(database, connection, role):
    connection.execute(f"grant sluice_reader to {role}")
    with database.connect(user=role) as reader:
        assert value(reader, IS_LEADER, 7) is True
        assert value(reader, RESIGN, 7) is True
