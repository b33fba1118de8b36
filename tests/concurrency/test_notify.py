"""Notifications with open senders, crashes and a full queue; PGMQ's own SQL is shown to fail."""

from __future__ import annotations

import threading
from contextlib import closing
from importlib import resources

import psycopg
import pytest

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer
from support import rows, value
from support.notify import LAST_NOTIFIED, Listener
from support.servers import FAST

CHANNEL = "pgmq.q_orders.INSERT"
SEND = "select pgmq.send('orders', '{}'::jsonb)"


def install(connection, system):
    if system == "ours":
        schema.install(connection)
        return
    pytest.importorskip("pgmq", reason="PGMQ itself is not installed: pip install pgmq==1.1.4")
    connection.execute((resources.files("pgmq") / "sql" / "pgmq.sql").read_text())


@pytest.fixture(scope="module")
def own_server(servers_folder):
    """A server with a small notification queue, which tests may crash."""
    folder = servers_folder / "notify"
    folder.mkdir(mode=0o755)
    server = EmbeddedServer(folder / "data", options={**FAST, "max_notify_queue_pages": "64"})
    server.start()
    yield server
    server.stop("immediate")


@pytest.fixture(params=["ours", "PGMQ"])
def system(request):
    return request.param


@pytest.fixture
def url(own_server, system):
    """A database with pgsluice or PGMQ, and a queue that notifies at most once in ten minutes."""
    with psycopg.connect(own_server.url(), autocommit=True) as connection:
        connection.execute("create database notify")
    with psycopg.connect(own_server.url("notify"), autocommit=True) as connection:
        install(connection, system)
        connection.execute("select pgmq.create('orders')")
        connection.execute("select pgmq.enable_notify_insert('orders', 600000)")
    yield own_server.url("notify")
    with psycopg.connect(own_server.url(), autocommit=True) as connection:
        connection.execute("drop database notify with (force)")


def connect(url, *, autocommit=True):
    return psycopg.connect(url, autocommit=autocommit)


@pytest.mark.slow
@pytest.mark.parametrize("interval_ms", [0, 250, 600000])
def test_the_open_transaction_of_a_sender_delays_no_other_sender(url, system, interval_ms):
    with connect(url) as other, connect(url, autocommit=False) as slow:
        other.execute("select pgmq.update_notify_insert('orders', %s)", [interval_ms])
        other.execute("set lock_timeout = '500ms'")
        slow.execute(SEND)

        if system == "ours":
            other.execute(SEND)
        else:
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute(SEND)


@pytest.mark.slow
def test_a_batch_of_10000_at_throttle_0_runs_the_trigger_once(url, system):
    with connect(url) as connection, connect(url) as session:
        # PGMQ needs half a minute for 10,000 sends: each one scans the row versions of the previous
        # ones.
        size = 10_000 if system == "ours" else 500
        connection.execute("select pgmq.update_notify_insert('orders', 0)")
        listener = Listener(session, CHANNEL)

        plan = rows(
            connection,
            f"explain (analyze, format json) insert into pgmq.q_orders (vt) select now() from generate_series(1, {size})",
        )

        (trigger,) = plan[0][0][0]["Triggers"]
        assert trigger["Calls"] == (1 if system == "ours" else size)
        assert listener.heard() == [CHANNEL]


# In PGMQ the second sender waits for the first.
@pytest.mark.slow
@pytest.mark.parametrize("system", ["ours"])
def test_only_a_committed_claim_suppresses_notifications(url):
    with (
        connect(url) as session,
        connect(url, autocommit=False) as slow,
        connect(url) as second,
        connect(url) as third,
    ):
        listener = Listener(session, CHANNEL)
        slow.execute(SEND)

        second.execute(SEND)
        assert listener.heard() == [CHANNEL], (
            "the second message must not wait for the first's commit"
        )
        third.execute(SEND)
        assert listener.heard() == []

        slow.commit()
        assert listener.heard() == [CHANNEL]


# PGMQ's senders are serialized.
@pytest.mark.slow
@pytest.mark.parametrize("system", ["ours"])
def test_senders_at_once_notify_at_least_once_and_the_rest_of_the_window_is_quiet(url):
    """Some senders roll back and must not use up the throttle window."""
    start = threading.Barrier(8)
    errors: list[Exception] = []

    def send(number):
        try:
            with connect(url, autocommit=False) as session:
                for i in range(40):
                    session.execute("select 1")
                    if i == 0:
                        start.wait(30)
                    session.execute(SEND)
                    if (i + number) % 2:
                        session.commit()
                    else:
                        session.rollback()
        except Exception as error:
            errors.append(error)

    with connect(url) as session:
        listener = Listener(session, CHANNEL)
        threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert errors == []
        heard = listener.heard()
        assert value(session, "select count(*) from pgmq.q_orders") == 160
        # Senders concurrent with the first commit notify, too; 160 would mean no throttling.
        assert 1 <= len(heard) <= 32
        session.execute(SEND)
        assert listener.heard() == []


@pytest.mark.slow
def test_after_a_crash_listeners_are_notified_as_before(own_server, url, system):
    with connect(url) as connection:
        connection.execute(SEND)
        last = value(connection, LAST_NOTIFIED)
        connection.execute("checkpoint")

    own_server.stop("immediate")
    own_server.start()

    with connect(url) as connection:
        listener = Listener(connection, CHANNEL)
        if system == "ours":
            assert value(connection, LAST_NOTIFIED) == last
            connection.execute(SEND)
            assert listener.heard() == [], "the interval continues after the crash"
            connection.execute("select pgmq.update_notify_insert('orders', 0)")
            connection.execute(SEND)
            assert listener.heard() == [CHANNEL]
        else:
            connection.execute(SEND)
            assert listener.heard() == []
            with pytest.raises(psycopg.errors.RaiseException, match="not have notify_insert"):
                connection.execute("select pgmq.update_notify_insert('orders', 0)")


# PGMQ sends no notifications after a crash.
@pytest.mark.slow
@pytest.mark.parametrize("system", ["ours"])
def test_a_sender_that_a_crash_cut_off_uses_up_no_window(own_server, url):
    # Close it without a commit, which would fail on a crashed server.
    with closing(connect(url)) as connection, closing(connect(url, autocommit=False)) as cut_off:
        cut_off.execute(SEND)
        # A later commit flushes its claim to disk.
        connection.execute("set synchronous_commit = on")
        connection.execute("create table behind ()")
        assert value(connection, LAST_NOTIFIED) > 0
        own_server.stop("immediate")

    own_server.start()

    with connect(url) as connection:
        assert value(connection, LAST_NOTIFIED) > 0, "the claim itself was logged"
        listener = Listener(connection, CHANNEL)
        connection.execute(SEND)
        connection.execute(SEND)
        assert listener.heard() == [CHANNEL]


def fill_notifications(connection):
    for _ in range(200):
        connection.execute("select pg_notify('filler', repeat('x', 7000))")


def test_a_full_queue_of_notifications_fails_no_sender(url, system):
    with connect(url) as connection, connect(url, autocommit=False) as deaf:
        connection.execute("select pgmq.update_notify_insert('orders', 0)")
        deaf.execute("listen filler")
        deaf.commit()
        deaf.execute(
            "select 1"
        )  # in a transaction, so that the server must keep later notifications for it
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            fill_notifications(connection)

        if system == "ours":
            connection.execute(SEND)
            assert value(connection, "select count(*) from pgmq.q_orders") == 1
            assert value(connection, LAST_NOTIFIED) == 0
        else:
            with pytest.raises(psycopg.errors.ProgramLimitExceeded):
                connection.execute(SEND)

        deaf.rollback()
        deaf.execute("unlisten *")
        deaf.commit()
        listener = Listener(connection, CHANNEL)
        connection.execute(SEND)
        assert listener.heard() == [CHANNEL]
