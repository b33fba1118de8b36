"""A log under everything at once: every committed event comes exactly once to each consumer, and nothing else does."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest

from support import rows, value, wait_until

LOG = "stress"
WRITERS = 4
TICKERS = 4
CONSUMERS = ("first", "second")
MEMBERS = ("one", "two")


class Stress:
    """Writers, tickers, consumers, a rotation each second and a long transaction, on one log."""

    def __init__(self, database, events: int, seed: int) -> None:
        self._database = database
        self._events_each = events // WRITERS
        self._seed = seed
        self._written = threading.Event()
        self._drained = threading.Event()
        self._failures: list[BaseException] = []
        self._lock = threading.Lock()
        self.committed: list[str] = []
        self.received: dict[str, list[str]] = {name: [] for name in (*CONSUMERS, "group")}
        self.switches = 0
        self.reclaims = 0

    def run(self) -> None:
        with self._database.connect() as session:
            session.execute("select pgq.create_queue(%s)", (LOG,))
            session.execute(
                "update pgq.queue set queue_rotation_period = '0', queue_ticker_max_count = 200"
            )
            for name in CONSUMERS:
                session.execute("select pgq.register_consumer(%s, %s)", (LOG, name))
            for member in MEMBERS:
                session.execute(
                    "select pgq_coop.register_subconsumer(%s, 'group', %s)", (LOG, member)
                )
            writers = [
                threading.Thread(target=self._guarded, args=(self._write, number))
                for number in range(WRITERS)
            ]
            others = [
                *(
                    threading.Thread(target=self._guarded, args=(self._tick,))
                    for _ in range(TICKERS)
                ),
                threading.Thread(target=self._guarded, args=(self._rotate,)),
                threading.Thread(target=self._guarded, args=(self._straddle,)),
                *(
                    threading.Thread(target=self._guarded, args=(self._consume, name))
                    for name in CONSUMERS
                ),
                *(
                    threading.Thread(target=self._guarded, args=(self._cooperate, name))
                    for name in MEMBERS
                ),
            ]
            for thread in (*writers, *others):
                thread.start()
            for thread in writers:
                thread.join()
            self._written.set()
            others[TICKERS + 1].join()
            session.execute("select sluice.log_tick(%s)", (LOG,))
            wait_until(
                lambda: self._failures or self._is_drained(session), "the consumers to end", 180
            )
            self._drained.set()
            for thread in others:
                thread.join()
        if self._failures:
            raise self._failures[0]

    def _is_drained(self, session: psycopg.Connection) -> bool:
        # Of a group the members' batches count: the main consumer runs ahead of them.
        return (
            rows(
                session,
                """select s.sub_last_tick, s.sub_batch is null
               from pgq.subscription as s where s.sub_last_tick is distinct from
                   (select max(t.tick_id) from pgq.tick as t where t.tick_queue = s.sub_queue)
                   and s.sub_last_tick is not null or s.sub_batch is not null""",
            )
            == []
        )

    def _guarded(self, target: Callable[..., None], *arguments: object) -> None:
        try:
            with self._database.connect(autocommit=False) as session:
                session.prepare_threshold = 1
                target(session, *arguments)
        except BaseException as error:
            self._failures.append(error)
            self._written.set()
            self._drained.set()

    def _write(self, session: psycopg.Connection, number: int) -> None:
        chance = random.Random(f"{self._seed}/{number}")
        done = 0
        while done < self._events_each and not self._drained.is_set():
            names = [f"{number}-{done + n}" for n in range(chance.randint(1, 400))]
            if chance.random() < 0.1:
                # An old snapshot: rotations happen between it and the insert.
                session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                session.execute("select from pgq.consumer")
                time.sleep(chance.random() * 1.5)
            how = chance.random()
            if how < 0.1:
                for name in names[:20]:
                    session.execute("select pgq.insert_event(%s, 't', %s)", (LOG, name))
                names = names[:20]
            elif how < 0.7:
                session.execute(
                    "select sluice.insert_events(%s, array_fill('t'::text, array[%s]), %s)",
                    (LOG, len(names), names),
                )
            else:
                table = value(session, "select pgq.current_event_table(%s)", LOG)
                if chance.random() < 0.2:
                    time.sleep(
                        chance.random()
                    )  # stalled between choosing the table and writing to it
                with session.cursor().copy(f"copy {table} (ev_type, ev_data) from stdin") as copy:
                    copy.write("".join(f"t\t{name}\n" for name in names))
            if chance.random() < 0.1:
                session.execute("savepoint half")
                session.execute("select pgq.insert_event(%s, 't', 'rolled back')", (LOG,))
                session.execute("rollback to savepoint half")
            if chance.random() < 0.1:
                session.rollback()
            else:
                session.commit()
                with self._lock:
                    self.committed += names
                done += len(names)
            session.isolation_level = None

    def _tick(self, session: psycopg.Connection) -> None:
        while not self._drained.is_set():
            session.execute("select pgq.ticker()")
            session.commit()
            time.sleep(0.005)

    def _rotate(self, session: psycopg.Connection) -> None:
        while not self._drained.wait(1.0):
            done = rows(session, "select action from sluice.rotate(%s)", LOG)
            session.commit()
            self.switches += done.count(("switched",))
            self.reclaims += done.count(("reclaimed",))

    def _straddle(self, session: psycopg.Connection) -> None:
        """Write, wait for many ticks and rotations, and commit."""
        number = 0
        while not self._written.is_set():
            number += 1
            name = f"late-{number}"
            session.execute("select pgq.insert_event(%s, 't', %s)", (LOG, name))
            self._written.wait(4.0)
            session.commit()
            with self._lock:
                self.committed.append(name)

    def _consume(self, session: psycopg.Connection, name: str) -> None:
        while not self._drained.is_set():
            batch = value(session, "select pgq.next_batch(%s, %s)", LOG, name)
            self._finish(session, batch, "pgq.finish_batch", name)

    def _cooperate(self, session: psycopg.Connection, name: str) -> None:
        while not self._drained.is_set():
            batch = value(session, "select pgq_coop.next_batch(%s, 'group', %s)", LOG, name)
            self._finish(session, batch, "pgq_coop.finish_batch", "group")

    def _finish(self, session: psycopg.Connection, batch: object, finish: str, name: str) -> None:
        if batch is None:
            session.commit()
            time.sleep(0.01)
            return
        found = rows(session, "select ev_data from pgq.get_batch_events(%s)", batch)
        assert value(session, f"select {finish}(%s)", batch) == 1
        session.commit()
        with self._lock:
            self.received[name] += [data for (data,) in found]


def differences(committed: list[str], received: list[str]) -> list[str]:
    """What was lost, doubled or made up, a few of each."""
    counts, expected = Counter(received), Counter(committed)
    lost, extra = expected - counts, counts - expected
    return [
        *(f"lost {name}" for name in sorted(lost)[:5]),
        *(f"too often {name}" for name in sorted(extra)[:5]),
    ]


def judged(stress: Stress) -> dict[str, list[str]]:
    return {
        name: said
        for name, received in stress.received.items()
        if (said := differences(stress.committed, received))
    }


@pytest.mark.slow
def test_half_a_million_events_come_exactly_once_to_each_consumer(database_18):
    stress = Stress(database_18, 500_000, seed=1)

    stress.run()

    assert judged(stress) == {}
    assert len(stress.committed) >= 500_000
    assert stress.switches >= 10
    assert stress.reclaims >= 3
