from __future__ import annotations

from support import value


def leader(connection):
    return value(connection, "select sluice.maintenance_leader()")


def test_an_old_call_is_no_leader(connection):
    connection.execute(
        "select setval('sluice.maintenance_turn', "
        "(floor(extract(epoch from clock_timestamp() - '1 min'::interval) * 100)::bigint << 23) | 1)"
    )

    assert leader(connection) is None

    connection.execute("select sluice.lead('maintenance', 1, '1 s')")
    assert leader(connection) == 1
