"""sluice.notifier_wake: one notification for each queue, at the commit."""

from __future__ import annotations

import psycopg
import pytest

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer
from support import value
from support.notify import Listener
from support.servers import FAST


def test_each_queue_is_notified_once_without_a_payload_and_the_notifier_when_asked(
    database, connection
):
    with database.connect() as session:
        listener = Listener(session, "sluice.q_a", "sluice.q_b", "sluice.notifier")

        assert value(connection, "select sluice.notifier_wake('{a, b, A}')") == 2
        assert sorted(listener.heard()) == ["sluice.q_a", "sluice.q_b"]
        assert value(connection, "select sluice.notifier_wake('{}', true)") == 1
        assert listener.heard() == ["sluice.notifier"]
        assert value(connection, "select sluice.notifier_wake('{}')") == 0
        assert listener.heard() == []


def test_rolled_back_send_wakes_no_listener(database, connection):
    with database.connect() as session, database.connect(autocommit=False) as other:
        listener = Listener(session, "sluice.q_a")
        other.execute("select sluice.notifier_wake('{a}')")
        assert listener.heard() == []
        other.rollback()

        assert listener.heard() == []


@pytest.fixture
def small_queue(servers_folder):
    """A server with a small notification queue."""
    folder = servers_folder / "wake"
    folder.mkdir(mode=0o755)
    server = EmbeddedServer(folder / "data", options={**FAST, "max_notify_queue_pages": "64"})
    server.start()
    with psycopg.connect(server.url()) as connection:
        schema.install(connection)
    yield server
    server.stop("immediate")


@pytest.mark.slow
def test_no_notification_while_the_notification_queue_is_half_full(small_queue):
    with (
        psycopg.connect(small_queue.url(), autocommit=True) as connection,
        psycopg.connect(small_queue.url()) as slow,
    ):
        slow.execute("listen filler")
        slow.commit()
        slow.execute("select 1")  # opens a transaction, which retains later notifications
        while value(connection, "select pg_notification_queue_usage()") < 0.5:
            connection.execute("select pg_notify('filler', repeat('x', 7000))")

        assert value(connection, "select sluice.notifier_wake('{a}', true)") == 0

        slow.rollback()
        slow.execute("unlisten *")
        slow.commit()
        assert value(connection, "select sluice.notifier_wake('{a}', true)") == 2
