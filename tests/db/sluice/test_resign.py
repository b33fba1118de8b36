from __future__ import annotations

from support import value


def lead(connection, candidate):
    return value(connection, "select sluice.lead('maintenance', %s, '1 h')", candidate)


def test_another_leads_at_once_after_a_resignation(connection):
    lead(connection, 1)
    assert value(connection, "select sluice.resign('maintenance', 2)") is False
    assert lead(connection, 2) is False

    assert value(connection, "select sluice.resign('maintenance', 1)") is True

    assert value(connection, "select sluice.maintenance_leader()") is None
    assert lead(connection, 2) is True
