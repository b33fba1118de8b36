"""Deduplication with concurrent senders, rollbacks, crashes and lost replies."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import psycopg
import pytest

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer
from support import rows, value, wait_for_lock
from support.queue_options import set_queue_options
from support.servers import FAST

READ_COMMITTED, REPEATABLE_READ = "read committed", "repeatable read"


@pytest.fixture
def orders(connection):
    connection.execute("select pgmq.create('orders')")
    set_queue_options(connection, "orders", deduplication_window="5 minutes")
    return connection


class Sender:
    """A session with an open transaction, whose sends may wait."""

    def __init__(self, database, level):
        self.session = database.connect(autocommit=False)
        self.level = level
        self._thread = None
        self._results = []
        self.begin()

    def begin(self):
        self.session.execute(f"set transaction isolation level {self.level}")
        self.session.execute(
            "select count(*) from pgmq.meta"
        )  # takes the snapshot of its isolation level

    def send(self, *keys):
        if len(keys) == 1:
            return [value(self.session, "select sluice.send('orders', '1', %s)", keys[0])]
        call = "select * from sluice.send_batch('orders', %s::jsonb[], %s::text[])"
        return [row[0] for row in rows(self.session, call, ["1"] * len(keys), list(keys))]

    def send_and_wait(self, observer, *keys):
        """Send in a thread; return when the session waits for a lock."""

        def run():
            try:
                self._results.append(self.send(*keys))
            except psycopg.Error as error:
                self._results.append(error)

        self._thread = threading.Thread(target=run)
        self._thread.start()
        wait_for_lock(observer, self.session)

    def result(self):
        self._thread.join(30)
        return self._results.pop()


@pytest.fixture
def senders(database, orders):
    made = []

    def make(level=READ_COMMITTED):
        made.append(Sender(database, level))
        return made[-1]

    yield make
    for sender in made:
        sender.session.close()


@pytest.mark.parametrize("level", [READ_COMMITTED, REPEATABLE_READ])
@pytest.mark.parametrize("keys", [["k"], ["k", "k"]], ids=["send", "send_batch"])
def test_the_second_waits_and_gets_the_first_ones_id(orders, senders, level, keys):
    first, second = senders(level), senders(level)
    assert first.send("k") == [1]
    second.send_and_wait(orders, *keys)

    first.session.commit()

    result = second.result()
    if level == REPEATABLE_READ:
        assert isinstance(result, psycopg.errors.SerializationFailure)
        second.session.rollback()
        second.begin()
        result = second.send(*keys)
    assert result == [1] * len(keys)
    second.session.commit()
    assert value(orders, "select count(*) from pgmq.q_orders") == 1


@pytest.mark.parametrize("level", [READ_COMMITTED, REPEATABLE_READ])
@pytest.mark.parametrize("keys", [["k"], ["k", "k"]], ids=["send", "send_batch"])
def test_when_the_first_rolls_back_the_second_stores(orders, senders, level, keys):
    first, second = senders(level), senders(level)
    first.send("k")
    second.send_and_wait(orders, *keys)

    first.session.rollback()

    assert second.result() == [2] * len(keys)
    second.session.commit()
    assert rows(orders, "select msg_id from pgmq.q_orders") == [(2,)]
    assert value(orders, "select sluice.send('orders', '1', 'k')") == 2


@pytest.mark.parametrize("level", [READ_COMMITTED, REPEATABLE_READ])
@pytest.mark.parametrize("keys", [["k"], ["k", "k"]], ids=["send", "send_batch"])
def test_a_key_that_runs_out_is_sent_anew_by_one_of_two(orders, senders, level, keys):
    orders.execute("select sluice.send('orders', '1', 'k')")
    orders.execute("update sluice.deduplication_key set expires_at = now()")
    first, second = senders(level), senders(level)
    assert first.send("k") == [2]
    second.send_and_wait(orders, *keys)

    first.session.commit()

    result = second.result()
    if level == REPEATABLE_READ:
        assert isinstance(result, psycopg.errors.SerializationFailure)
        second.session.rollback()
        result = second.send(*keys)
    assert result == [2] * len(keys)


def test_sending_a_duplicate_key_takes_no_lock(orders, senders):
    assert value(orders, "select sluice.send('orders', '1', 'k')") == 1
    first, second = senders(), senders()
    second.session.execute("set lock_timeout = '100ms'")

    assert first.send("k") == [1]
    assert second.send("k", "other") == [1, 2]


@pytest.mark.parametrize("keys", [["k"], ["k", "k"]], ids=["send", "send_batch"])
def test_a_window_that_ends_while_the_second_waits_still_counts(orders, senders, keys):
    first, second = senders(), senders()
    first.send("k")
    second.send_and_wait(orders, *keys)
    # As if the first transaction were open for longer than the window: its key expires before the
    # commit.
    first.session.execute("update sluice.deduplication_key set expires_at = clock_timestamp()")

    first.session.commit()

    assert second.result() == [1] * len(keys)
    over = "select expires_at < clock_timestamp() from sluice.deduplication_key"
    assert value(orders, over) is True


def test_batches_with_the_same_keys_in_opposite_orders_do_not_deadlock(orders, senders):
    gate, first, second = senders(), senders(), senders()
    keys = [f"{n:03}" for n in range(100)]
    gate.send("050")
    first.send_and_wait(orders, *keys)
    second.send_and_wait(orders, *keys[::-1])

    gate.session.commit()

    sent = first.result()
    first.session.commit()
    assert second.result() == sent[::-1]
    second.session.commit()
    assert value(orders, "select count(*) from pgmq.q_orders") == 100


def test_eight_senders_of_the_same_keys_store_each_key_once(database, orders):
    start = threading.Barrier(8)
    results, errors = {}, []

    def send(number):
        try:
            with database.connect(autocommit=False) as session:
                session.execute("select 1")
                start.wait(30)
                for key in range(40):
                    call = "select sluice.send('orders', %s::jsonb, %s)"
                    msg_id = value(session, call, str(key), f"key {key}")
                    # Ignore the results of senders that roll back.
                    if (key + number) % 3 == 0:
                        session.rollback()
                        continue
                    session.commit()
                    results.setdefault(key, set()).add(msg_id)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert errors == []
    assert value(orders, "select count(*) from pgmq.q_orders") == 40
    stored = dict(rows(orders, "select message::int, msg_id from pgmq.q_orders"))
    assert results == {key: {msg_id} for key, msg_id in stored.items()}


@pytest.fixture
def crashing(servers_folder):
    """A separate server with a logged and an unlogged queue, and a function that crashes it."""
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o755)
    # Commits are synchronous, as their WAL must survive the crash.
    own = EmbeddedServer(folder / "own", options={**FAST, "synchronous_commit": "on"})
    own.start()
    with psycopg.connect(own.url(), autocommit=True) as connection:
        schema.install(connection)
        for name, kind in (("orders", "create"), ("fast", "create_unlogged")):
            connection.execute(f"select pgmq.{kind}('{name}')")
            set_queue_options(connection, name, deduplication_window="1 hour")

    def crash():
        own.stop("immediate")
        own.start()

    yield own, crash
    own.stop("immediate")


@pytest.mark.slow
def test_after_a_crash_an_unlogged_queue_stores_again_what_it_lost_and_a_logged_one_does_not(
    crashing,
):
    server, crash = crashing
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for name in ("orders", "fast"):
            assert value(connection, f"select sluice.send('{name}', '1', 'k')") == 1

    crash()

    with psycopg.connect(server.url(), autocommit=True) as connection:
        assert value(connection, "select sluice.send('orders', '1', 'k')") == 1
        again = value(connection, "select sluice.send('fast', '1', 'k')")
        assert again > 1
        assert value(connection, "select sluice.send('fast', '1', 'k')") == again
        for name in ("orders", "fast"):
            assert value(connection, f"select count(*) from pgmq.q_{name}") == 1


@pytest.mark.slow
def test_a_queue_that_its_owner_made_unlogged_stores_again_after_a_crash(crashing):
    server, crash = crashing
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("alter table pgmq.q_orders set unlogged")
        connection.execute("select sluice.send('orders', '1', 'k')")

    crash()

    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("select sluice.send('orders', '1', 'k')")
        assert value(connection, "select count(*) from pgmq.q_orders") == 1


def test_a_sender_that_the_server_cut_off_before_its_commit_left_no_key(database, orders):
    with database.connect(autocommit=False) as cut_off:
        cut_off.execute("select sluice.send('orders', '1', 'k')")
        orders.execute("select pg_terminate_backend(%s, 10000)", [cut_off.info.backend_pid])
        cut_off.close()

    assert value(orders, "select sluice.send('orders', '2', 'k')") == 2
    assert rows(orders, "select message from pgmq.q_orders") == [(2,)]
