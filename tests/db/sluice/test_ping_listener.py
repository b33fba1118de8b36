"""sluice.ping_listener: a session tests that it receives notifications."""

from __future__ import annotations

from support import rows, value

PING = "select channel, notifier_age from sluice.ping_listener()"


def test_only_the_session_itself_is_notified(database, connection):
    with database.connect() as other:
        rows(other, PING)
        ((channel, age),) = rows(connection, PING)

        (heard,) = connection.notifies(timeout=0)

        assert heard.channel == channel == f"sluice.listener_{connection.info.backend_pid}"
        assert age is None
        assert [notice.channel for notice in other.notifies(timeout=0.2)] == [
            f"sluice.listener_{other.info.backend_pid}"
        ]


def test_session_receives_heartbeats_afterwards(connection):
    rows(connection, PING)
    list(connection.notifies(timeout=0))
    connection.execute("select sluice.notifier_wake('{}', true), pg_notify('sluice.ticker', '')")

    heard = {notice.channel for notice in connection.notifies(timeout=10, stop_after=2)}

    assert heard == {"sluice.notifier", "sluice.ticker"}


def test_it_returns_the_age_of_the_last_round(connection):
    connection.execute("select sluice.notifier_pulse(1, '1 s', '{}')")

    ((_, age),) = rows(connection, PING)

    assert age.total_seconds() < 10


def test_a_reader_and_a_monitor_may_ping(database, connection, role):
    connection.execute(f"grant sluice_reader to {role}")
    with database.connect(user=role) as member:
        assert value(member, "select channel from sluice.ping_listener()")
