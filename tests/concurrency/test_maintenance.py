"""Maintenance by many at once, under senders and readers: nothing is lost, nobody fails, no deadlock."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

from support import rows, value

COPIES = 8
SENDERS = 3
READERS = 3
BATCHES = 120
BATCH = 25
DEADLINE_S = 120.0
CREATE = {
    # Partitions of 50: each sender crosses into another every second batch, and often there is none yet.
    "ids": "select pgmq.create_partitioned('orders', '50', null, 2)",
    "time": "select pgmq.create_partitioned('orders', '1 second', null, 2)",
}


class Threads:
    """Runs functions in threads of their own, each with a connection, and keeps what they raise."""

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


@pytest.mark.parametrize("kind", CREATE)
def test_eight_maintainers_with_senders_and_readers_lose_nothing_and_fail_nobody(database, kind):
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

    def read(session, number):
        acknowledge = "archive" if number % 2 else "delete"
        while True:
            was_last = all_sent.is_set()
            ids = [m[0] for m in rows(session, "select * from pgmq.read('orders', 600, 40)")]
            done = rows(session, f"select * from pgmq.{acknowledge}('orders', %s::bigint[])", ids)
            taken.update(msg_id for (msg_id,) in done)
            if was_last and not ids:
                return

    def maintain(session, _number):
        while not over.is_set():
            for _task, _queue, done, detail in rows(session, "select * from sluice.maintain()"):
                if not done:
                    given_up[detail] += 1

    senders, others = Threads(database), Threads(database)
    others.start(read, READERS)
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


def test_queues_are_shared_among_those_who_maintain(database):
    """The second passes by the table that the first has in hand, and does the other."""
    with database.connect() as connection:
        connection.execute("select pgmq.create_partitioned('orders', '10', '100', 1)")
        connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[15]))")
        with database.connect(autocommit=False) as first:
            first.execute(
                "select pg_advisory_xact_lock(hashtextextended('sluice.maintain.q_orders', 0))"
            )

            assert rows(connection, "select detail from sluice.maintain()") == [
                ("a_orders_P20: 20 to 30",)
            ]
        assert rows(connection, "select detail from sluice.maintain()") == [
            ("q_orders_P20: 20 to 30",)
        ]


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
