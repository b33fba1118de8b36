"""sluice.notify_ready: pg_cron's notifier, which wakes the listeners of queues with messages."""

from __future__ import annotations

import psycopg
import pytest

from support import value
from support.notify import Listener

NOTIFY = "select sluice.notify_ready()"


def test_queues_with_something_to_read_are_announced_with_a_sign_of_life(database, connection):
    connection.execute(
        "select pgmq.create(name) from unnest('{ready,due,later,empty}'::text[]) as name"
    )
    connection.execute(
        "select pgmq.send('ready', '1'), pgmq.send('due', '1', 0), pgmq.send('later', '1', 600)"
    )
    connection.execute("select pgmq.set_vt('due', 1, -1)")
    with database.connect() as session:
        listener = Listener(
            session,
            "sluice.q_ready",
            "sluice.q_due",
            "sluice.q_later",
            "sluice.q_empty",
            "sluice.notifier",
        )

        assert value(connection, NOTIFY) == 3

        assert sorted(listener.heard()) == ["sluice.notifier", "sluice.q_due", "sluice.q_ready"]
        assert value(connection, "select is_active from sluice.leader('notifier')")


def test_without_queues_there_is_the_sign_of_life(connection):
    assert value(connection, NOTIFY) == 1


def test_while_a_notifier_is_at_work_it_does_nothing(connection):
    connection.execute("select pgmq.create('ready'); select pgmq.send('ready', '1')")
    assert value(connection, "select is_leader from sluice.notifier_pulse(7, '1 second', '{}')")

    assert value(connection, NOTIFY) == 0


def test_a_reader_may_call_it(connection, as_member):
    assert as_member("sluice_reader", NOTIFY) == [(1,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_writer", NOTIFY)
