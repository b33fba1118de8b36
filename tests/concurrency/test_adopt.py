"""Adoption of PGMQ while unmodified clients use it: they may wait, but do not fail."""

from __future__ import annotations

import threading

import psycopg
import pytest

from pgsluice import schema
from pgsluice.errors import RetryableError
from support import rows, value, wait_for_lock, wait_until
from support.pgmq import make_older, upstream_sql


@pytest.fixture
def pgmq(empty_database):
    """A superuser's session in a database with PGMQ 1.13.0."""
    with empty_database.connect() as connection:
        connection.execute(upstream_sql())
        yield connection


class Client:
    """Sends, reads and deletes in a loop; records sent and received messages, and its error."""

    def __init__(self, database, queues, *, prepared):
        self._database = database
        self._queues = queues
        self._prepared = prepared
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent: list[tuple[str, int]] = []
        self.received: list[tuple[str, int]] = []
        self.rounds = 0
        self.error: Exception | None = None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(60)

    def _run(self):
        try:
            with self._database.connect(autocommit=False) as connection:
                if self._prepared:
                    connection.execute(
                        "prepare receive (text) as select * from pgmq.read($1, 300, 2)"
                    )
                    connection.execute(
                        "prepare emit (text) as select * from pgmq.send($1, '1'::jsonb)"
                    )
                    connection.commit()
                while not self._stop.is_set():
                    self._round(connection)
                    self.rounds += 1
        except Exception as error:
            self.error = error

    def _round(self, connection):
        sent, received = [], []
        for queue in (
            self._queues
        ):  # several queues in one transaction, in a different order for each client
            send, read = (
                (f"execute emit('{queue}')", f"execute receive('{queue}')")
                if self._prepared
                else (
                    f"select pgmq.send('{queue}', '1'::jsonb)",
                    f"select * from pgmq.read('{queue}', 300, 2)",
                )
            )
            sent += [(queue, row[0]) for row in rows(connection, send)]
            ids = [row[0] for row in rows(connection, read)]
            rows(connection, "select pgmq.delete(%s, %s::bigint[])", queue, ids)
            received += [(queue, msg_id) for msg_id in ids]
        connection.commit()
        self.sent += sent
        self.received += received


@pytest.mark.slow
def test_clients_wait_and_go_on_and_no_message_is_lost_or_delivered_twice(empty_database, pgmq):
    pgmq.execute("select pgmq.create('one'), pgmq.create_unlogged('two'), pgmq.create('three')")
    pgmq.execute("select pgmq.enable_notify_insert('one', 10)")
    queues = ["one", "two", "three"]
    # All clients use one order: different orders would deadlock even without an adoption.
    clients = [
        Client(empty_database, queues, prepared=prepared) for prepared in (False, True, False, True)
    ]

    with clients[0], clients[1], clients[2], clients[3]:
        wait_until(
            lambda: all(c.rounds > 20 or c.error for c in clients), "clients to send and read"
        )
        steps = schema.adopt(pgmq)
        rounds = [c.rounds for c in clients]
        wait_until(
            lambda: all(
                c.error or c.rounds > before + 20 for c, before in zip(clients, rounds, strict=True)
            ),
            "clients to continue",
        )

    assert [c.error for c in clients] == [None] * 4
    assert steps != ()
    sent = [message for c in clients for message in c.sent]
    received = [message for c in clients for message in c.received]
    assert len(set(sent)) == len(sent)
    assert len(set(received)) == len(received)
    left = [
        (queue, msg_id)
        for queue in queues
        for (msg_id,) in rows(pgmq, f"select msg_id from pgmq.q_{queue}")
    ]
    assert sorted(received + left) == sorted(sent)
    assert schema.verify(pgmq) == ()


@pytest.mark.slow
def test_a_session_that_holds_one_queue_and_wants_another_is_not_the_victim(empty_database, pgmq):
    pgmq.execute("select pgmq.create('one'), pgmq.create('two')")
    pgmq.execute("select pgmq.send('one', '1'::jsonb), pgmq.send('two', '1'::jsonb)")
    errors = []

    def adopt():
        with empty_database.connect() as connection:
            try:
                schema.adopt(connection)
            except Exception as error:
                errors.append(error)

    adopter = threading.Thread(target=adopt)
    with empty_database.connect(autocommit=False) as client:
        # Locks are taken in the order of names: q_one before q_two, which is held.
        assert rows(client, "select msg_id from pgmq.read('two', 30, 1)") == [(1,)]
        adopter.start()
        wait_until(
            lambda: value(
                pgmq,
                "select count(*) > 0 from pg_locks where mode = 'AccessExclusiveLock' and relation = 'pgmq.q_one'::regclass",
            ),
            "the adopter to lock q_one",
        )
        assert rows(client, "select msg_id from pgmq.read('one', 30, 1)") == [(1,)]
        client.commit()
        adopter.join(60)

    assert errors == []
    assert schema.verify(pgmq) == ()


@pytest.mark.slow
def test_a_queue_dropped_before_the_tables_are_locked_is_not_made_again(empty_database, pgmq):
    pgmq.execute("select pgmq.create('one'), pgmq.create('two')")
    errors = []

    def adopt(connection):
        try:
            schema.adopt(connection)
        except RetryableError as error:
            errors.append(str(error))

    with (
        empty_database.connect(autocommit=False) as client,
        empty_database.connect() as adopting,
    ):
        client.execute("lock table pgmq.q_one in share mode")
        adopter = threading.Thread(target=adopt, args=(adopting,))
        adopter.start()
        wait_for_lock(pgmq, adopting)
        client.execute("delete from pgmq.meta where queue_name = 'two'")
        client.execute("create table pgmq.q_three ()")
        client.execute("insert into pgmq.meta values ('three', false, false)")
        client.commit()
        adopter.join(60)

    assert errors == [
        "queues were created or dropped while the tables were being locked; run the adoption again; nothing was changed"
    ]
    assert schema.installed_versions(pgmq) == ()


@pytest.mark.slow
def test_a_session_in_the_middle_of_a_call_finishes_it_as_it_began(empty_database, pgmq):
    pgmq.execute("select pgmq.create('orders'), pgmq.send('orders', '1'::jsonb)")
    got = []

    def read():
        with empty_database.connect() as client:
            got.extend(
                rows(client, "select msg_id from pgmq.read_with_poll('orders', 30, 1, 30, 10)")
            )

    with empty_database.connect(autocommit=False) as adopter:
        reader = threading.Thread(target=read)
        adopter.execute("lock table pgmq.q_orders in access exclusive mode")
        reader.start()
        wait_until(
            lambda: value(
                pgmq, "select count(*) = 1 from pg_stat_activity where wait_event_type = 'Lock'"
            ),
            "the reader to wait for the lock",
        )
        schema.adopt(adopter)
        adopter.commit()
        reader.join(60)

    assert got == [(1,)]


@pytest.mark.slow
def test_a_topic_batch_that_waited_fails_whole_and_is_sent_again(empty_database, pgmq):
    # The running function is PGMQ's, and calls an internal function that no longer exists.
    pgmq.execute("select pgmq.create('one'), pgmq.create('two')")
    pgmq.execute("select pgmq.bind_topic('a', 'one'), pgmq.bind_topic('a', 'two')")
    send = "select * from pgmq.send_batch_topic('a', array['1']::jsonb[])"
    errors, sent = [], []

    def emit():
        with empty_database.connect() as client:
            try:
                rows(client, send)
            except psycopg.Error as error:
                errors.append(error.sqlstate)
            sent.extend(rows(client, send))

    with empty_database.connect(autocommit=False) as adopter:
        sender = threading.Thread(target=emit)
        adopter.execute("lock table pgmq.topic_bindings in access exclusive mode")
        sender.start()
        wait_until(
            lambda: value(
                pgmq, "select count(*) = 1 from pg_stat_activity where wait_event_type = 'Lock'"
            ),
            "the sender to wait for the lock",
        )
        schema.adopt(adopter)
        adopter.commit()
        sender.join(60)

    assert errors == ["42883"]
    assert [queue for queue, _ in sent] == ["one", "two"]
    assert value(pgmq, "select count(*) from pgmq.q_one") == 1


def test_a_prepared_statement_of_an_older_pgmq_must_be_prepared_again(empty_database, pgmq):
    pgmq.execute("select pgmq.create('orders')")
    make_older(pgmq, "1.9")
    with empty_database.connect() as client:
        client.execute("prepare receive as select * from pgmq.read('orders', 0, 1)")
        client.execute("prepare lengths as select * from pgmq.metrics('orders')")
        client.execute("prepare emit as select pgmq.send('orders', '1'::jsonb)")
        rows(client, "execute receive")
        rows(client, "execute lengths")
        rows(client, "execute emit")

        schema.adopt(pgmq)

        for name in ("receive", "lengths"):
            with pytest.raises(
                psycopg.errors.FeatureNotSupported, match="must not change result type"
            ):
                client.execute(f"execute {name}")
        assert rows(client, "execute emit") == [(2,)]
        assert len(rows(client, "select * from pgmq.read('orders', 0, 1)")) == 1


@pytest.mark.slow
def test_two_adopters_at_once_adopt_once(empty_database, pgmq):
    pgmq.execute("select pgmq.create('orders')")
    done = []

    def adopt(connection):
        connection.execute("select 1")  # psycopg commits the transaction that it opens itself
        done.append(schema.adopt(connection))
        connection.commit()

    with (
        empty_database.connect(autocommit=False) as first,
        empty_database.connect(autocommit=False) as second,
    ):
        first.execute("select 1")
        schema.adopt(first)
        waiting = threading.Thread(target=adopt, args=(second,))
        waiting.start()
        wait_for_lock(pgmq, second)
        first.commit()
        waiting.join(60)

    assert done == [()]
