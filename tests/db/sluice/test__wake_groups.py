"""sluice._wake_groups: the step of wake_groups and await_groups; test_wake_groups.py has its behaviour."""

from __future__ import annotations

from support import rows

WAKE = "select logs, woken from sluice._wake_groups()"


def test_it_returns_the_logs_with_groups_and_how_many_have_new_events(database, connection):
    for name in ("a", "b", "plain"):
        connection.execute("select pgq.create_queue(%s)", [name])
        connection.execute("select pgq.insert_event(%s, 't', 'd')", [name])
    for name in ("a", "b"):
        connection.execute("select sluice.create_group(%s, 'g')", [name])
    with database.connect() as ticker:
        rows(ticker, "select * from sluice.tick()")
        assert rows(ticker, WAKE) == [(2, 0)]

        connection.execute("select pgq.insert_event('b', 't', 'd')")

        assert rows(ticker, WAKE) == [(2, 1)]
        assert rows(ticker, WAKE) == [(2, 0)]
    assert rows(connection, WAKE) == [(0, 0)]
