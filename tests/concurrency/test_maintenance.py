"""Concurrent maintenance with senders and readers: no lost messages, errors or deadlocks."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter

import pytest

from support import rows, value, wait_until
from support.queue_options import set_queue_options

COPIES = 8
SENDERS = 3
READERS = 3
BATCHES = 120
BATCH = 25
DEADLINE_S = 120.0
CREATE = {
    # With partitions of 50, every second batch of a sender crosses into a partition that may not
    # exist yet.
    "ids": "select pgmq.create_partitioned('orders', '50', null, 2)",
    "time": "select pgmq.create_partitioned('orders', '1 second', null, 2)",
}


class Threads:
    """Runs functions in threads, each with a connection, and records their errors."""

    def __init__(self, database) -> None:
        self._database = database
        self._threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []

    def start(self, work, count: int) -> None:
        for number in range(count):
            thread = threading.Thread(target=self._run, args=(work, number), daemon=True)
            thread.start()
            self._threads.append(thread)

    def join(self) -> None:
        end = time.monotonic() + DEADLINE_S
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
            assert not thread.is_alive(), f"still at work after {DEADLINE_S} s"

    def _run(self, work, number: int) -> None:
        try:
            with self._database.connect() as connection:
                work(connection, number)
        except BaseException as error:
            self.errors.append(error)


def reader(all_sent, taken):
    """Delete and archive messages in turn until all are sent and the queue is empty."""

    def read(session, number):
        acknowledge = "archive" if number % 2 else "delete"
        while True:
            was_last = all_sent.is_set()
            ids = [m[0] for m in rows(session, "select * from pgmq.read('orders', 600, 40)")]
            done = rows(session, f"select * from pgmq.{acknowledge}('orders', %s::bigint[])", ids)
            taken.update(msg_id for (msg_id,) in done)
            if was_last and not ids:
                return

    return read


@pytest.mark.slow
@pytest.mark.parametrize("kind", CREATE)
def test_eight_maintainers_beside_senders_and_readers_lose_nothing_and_raise_nothing(
    database, kind
):
    sent: Counter[int] = Counter()
    taken: Counter[int] = Counter()
    given_up: Counter[str] = Counter()
    over = threading.Event()
    all_sent = threading.Event()
    with database.connect() as connection:
        connection.execute(CREATE[kind])

    def send(session, _number):
        for _ in range(BATCHES):
            sent.update(
                msg_id
                for (msg_id,) in rows(
                    session,
                    "select * from pgmq.send_batch('orders', array_fill('1'::jsonb, array[%s]))",
                    BATCH,
                )
            )

    def maintain(session, _number):
        while not over.is_set():
            for _task, _queue, done, detail in rows(session, "select * from sluice.maintain()"):
                if not done:
                    given_up[detail] += 1

    senders, others = Threads(database), Threads(database)
    others.start(reader(all_sent, taken), READERS)
    others.start(maintain, COPIES)
    senders.start(send, SENDERS)
    senders.join()
    all_sent.set()
    with database.connect() as connection:
        end = time.monotonic() + DEADLINE_S
        while len(taken) < len(sent) and time.monotonic() < end and not others.errors:
            time.sleep(0.05)
        over.set()
        others.join()

        assert senders.errors + others.errors == []
        assert len(sent) == SENDERS * BATCHES * BATCH
        assert max(taken.values()) == 1
        assert taken == sent
        in_use = {f"{table}_orders is in use; the next call tries again" for table in "qa"}
        assert set(given_up) <= in_use | {"time is up; the next call goes on"}
        assert value(connection, "select count(*) from pgmq.q_orders") == 0
        archived = value(connection, "select count(*) from pgmq.a_orders")
        assert 0 < archived < len(sent)


# Idempotent calls that services make when they start; eight sessions repeat them at once.
CALLS = (
    "select * from sluice.maintain()",
    "select pgmq.create('orders')",
    "select pgmq.create_fifo_index('orders')",
    "select pgmq.create_fifo_indexes_all()",
    "select pgmq.enable_notify_insert('orders', 0)",
    "select pgmq.update_notify_insert('orders', 100)",
    "select * from pgmq.metrics_all()",
    "select sluice.set_queue_options('orders', '{\"archive_retention\": \"1 millisecond\"}')",
    "select sluice.set_queue_options('orders', '{\"deduplication_window\": \"5 minutes\"}')",
)


@pytest.mark.slow
def test_eight_copies_of_every_maintenance_call_lose_nothing_and_raise_nothing(database):
    sent: list[int] = []
    taken: Counter[int] = Counter()
    over = threading.Event()
    all_sent = threading.Event()
    with database.connect() as connection:
        connection.execute("select pgmq.create('orders')")
        set_queue_options(connection, "orders", deduplication_window="5 minutes")
        connection.execute("select pgmq.enable_notify_insert('orders')")

    def call(session, number):
        # Each session starts with another call, so that all run at the same time.
        for position in itertools.count(number):
            if over.is_set():
                return
            session.execute(CALLS[position % len(CALLS)])

    def send(session, number):
        for batch in range(BATCHES // 4):
            keys = [f"{number}/{batch}/{item}" for item in range(BATCH)]
            for _ in range(2):  # the second send is a duplicate
                ids = rows(
                    session,
                    "select * from sluice.send_batch('orders', array_fill('1'::jsonb, array[%s]), %s)",
                    BATCH,
                    keys,
                )
            sent.extend(msg_id for (msg_id,) in ids)

    senders, others = Threads(database), Threads(database)
    others.start(reader(all_sent, taken), READERS)
    others.start(call, COPIES * 2)
    senders.start(send, SENDERS)
    senders.join()
    all_sent.set()
    with database.connect() as connection:
        wait_until(
            lambda: len(taken) >= len(sent) or bool(others.errors), "every message", DEADLINE_S
        )
        over.set()
        others.join()

        assert senders.errors + others.errors == []
        assert len(set(sent)) == len(sent) == SENDERS * (BATCHES // 4) * BATCH
        assert taken == Counter(sent)
        wait_until(
            lambda: (
                rows(connection, "select from sluice.maintain()") == []
                and value(connection, "select count(*) from pgmq.a_orders") == 0
            ),
            "the archive to be emptied",
        )


def done(connection):
    """Return the steps of a call; on a busy machine these may include its deadline."""
    return [d for (d,) in rows(connection, "select detail from sluice.maintain() where done")]


def test_queues_are_shared_among_those_who_maintain(database):
    """The second session skips the table that the first one has locked."""
    with database.connect() as connection:
        connection.execute("select pgmq.create_partitioned('orders', '10', '100', 1)")
        connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[15]))")
        with database.connect(autocommit=False) as first:
            first.execute("select sluice._try_lock(1936551792, hashtext('q_orders'))")

            assert done(connection) == ["a_orders_P20: 20 to 30"]
        assert done(connection) == ["q_orders_P20: 20 to 30"]


@pytest.mark.slow
def test_a_queue_can_be_dropped_while_it_is_maintained(database):
    with database.connect() as connection, database.connect() as session:
        session.execute("set statement_timeout = '60s'")
        stop = threading.Event()
        steps = []
        threads = Threads(database)

        def maintain(other, _number):
            while not stop.is_set():
                steps.extend(rows(other, "select * from sluice.maintain()"))

        threads.start(maintain, 2)
        for _ in range(15):
            connection.execute("select pgmq.create_partitioned('orders', '10', '50', 1)")
            session.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[95]))")
            assert value(connection, "select pgmq.drop_queue('orders')") is True
        stop.set()
        threads.join()

        assert threads.errors == []
        assert rows(connection, "select * from sluice.partitioned_table") == []
        assert rows(connection, "select relname from pg_class where relname ~ '^[qa]_orders'") == []
