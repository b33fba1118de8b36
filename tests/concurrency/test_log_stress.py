"""A log under stress: each consumer receives every committed event once, and no other event."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from support import replace_in, rows, value, wait_until

LOG = "stress"
WRITERS = 8
TICKERS = 8
CONSUMERS = ("shared", "slow")
MEMBERS = ("one", "two")
NO_SUCH_BATCH = "PQ003"


class Stress:
    """Writers, tickers, consumers, a rotation each period and a long transaction, on one log.

    One consumer has two sessions, one lags by some periods now and then, one is a group of two
    members.
    """

    def __init__(self, database, events: int, *, period_s: float, seed: int) -> None:
        self._database = database
        self._events_each = events // WRITERS
        self._period_s = period_s
        self._seed = seed
        self._written = threading.Event()
        self._drained = threading.Event()
        self._failures: list[BaseException] = []
        self._lock = threading.Lock()
        self._may_read = threading.Event()
        self._may_read.set()
        self._readers = 0
        self.committed: list[str] = []
        self.received: dict[str, list[str]] = {name: [] for name in (*CONSUMERS, "group")}
        self.switches = 0
        self.reclaims = 0

    def run(self) -> None:
        with self._database.connect() as session:
            session.execute("select pgq.create_queue(%s)", (LOG,))
            session.execute(
                """update pgq.queue
                set queue_rotation_period = make_interval(secs => %s), queue_ticker_max_count = 200""",
                (self._period_s,),
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
                    for name in ("shared", *CONSUMERS)
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
        # In a group the members' batches count, as the main consumer's position is ahead of them.
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
            self._may_read.set()

    def _write(self, session: psycopg.Connection, number: int) -> None:
        chance = random.Random(f"{self._seed}/{number}")
        done = 0
        while done < self._events_each and not self._drained.is_set():
            names = [f"{number}-{done + n}" for n in range(chance.randint(1, 600))]
            if chance.random() < 0.05:
                # An old snapshot, with rotations before the insert.
                session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                session.execute("select from pgq.consumer")
                time.sleep(chance.random() * 3 * self._period_s)
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
                    # Stall between choosing the table and writing to it.
                    time.sleep(chance.random() * self._period_s)
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
            time.sleep(self._period_s / 20)

    def _rotate(self, session: psycopg.Connection) -> None:
        for attempt in itertools.count():
            if self._drained.wait(self._period_s / 5):
                return
            if attempt % 5 == 0:
                # Segments are truncated only while they are not read, so pause the consumers
                # briefly.
                with self._lock:
                    self._may_read.clear()
                wait_until(lambda: self._readers == 0, "the consumers to end their batches", 60)
            done = rows(session, "select action from sluice.rotate(%s)", LOG)
            session.commit()
            self._may_read.set()
            self.switches += done.count(("switched",))
            self.reclaims += done.count(("reclaimed",))

    def _straddle(self, session: psycopg.Connection) -> None:
        """Write, wait for many ticks and rotations, and commit."""
        number = 0
        while not self._written.is_set():
            number += 1
            name = f"late-{number}"
            session.execute("select pgq.insert_event(%s, 't', %s)", (LOG, name))
            self._written.wait(4 * self._period_s)
            session.commit()
            with self._lock:
                self.committed.append(name)

    def _consume(self, session: psycopg.Connection, name: str) -> None:
        chance = random.Random(self._seed)
        while not self._drained.is_set():
            if name == "slow" and chance.random() < 0.1:
                self._written.wait(2 * self._period_s)
            with self._reading():
                batch = value(session, "select pgq.next_batch(%s, %s)", LOG, name)
                self._finish(session, batch, "pgq.finish_batch", name)
            if batch is None:
                time.sleep(0.01)

    def _cooperate(self, session: psycopg.Connection, name: str) -> None:
        while not self._drained.is_set():
            with self._reading():
                batch = value(session, "select pgq_coop.next_batch(%s, 'group', %s)", LOG, name)
                self._finish(session, batch, "pgq_coop.finish_batch", "group")
            if batch is None:
                time.sleep(0.01)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        while True:
            self._may_read.wait()
            with self._lock:
                if self._may_read.is_set():
                    self._readers += 1
                    break
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1

    def _finish(self, session: psycopg.Connection, batch: object, finish: str, name: str) -> None:
        if batch is None:
            session.commit()
            return
        try:
            found = rows(session, "select ev_data from pgq.get_batch_events(%s)", batch)
        except psycopg.Error as error:
            if error.sqlstate != NO_SUCH_BATCH:
                raise
            session.rollback()  # another session has finished it
            return
        # Ignore the result, as many handlers do.
        session.execute(f"select {finish}(%s)", (batch,))
        session.commit()
        with self._lock:
            self.received[name] += [data for (data,) in found]


def differences(committed: list[str], received: list[str]) -> list[str]:
    """Return a few lost, duplicated and unknown events."""
    counts, expected = Counter(received), Counter(committed)
    if counts == expected:
        return []
    lost, extra = expected - counts, counts - expected
    return [
        *(f"lost {name}" for name in sorted(lost)[:5]),
        *(f"too often {name}" for name in sorted(extra)[:5]),
    ]


def judged(stress: Stress) -> dict[str, list[str]]:
    return {
        name: wrong
        for name, received in stress.received.items()
        if (wrong := differences(stress.committed, received))
    }


@pytest.mark.long
def test_half_a_million_events_come_exactly_once_to_each_consumer(database_18, seed):
    stress = Stress(database_18, 500_000, period_s=1.0, seed=seed)

    stress.run()

    assert judged(stress) == {}
    assert stress.switches > 10
    assert stress.reclaims > 0


def small_stress(database, seed) -> Stress:
    stress = Stress(database, 60_000, period_s=0.1, seed=seed)
    stress.run()
    return stress


def widen_the_gap_between_snapshot_and_tick(connection: psycopg.Connection) -> None:
    """Delay a ticker after it took its snapshot; with its lock this is harmless."""
    replace_in(
        connection,
        "pgq._take_tick(integer)",
        "nextval($2::regclass)",
        "(select nextval($2::regclass) from pg_sleep(random() * 0.02) as gap)",
    )


def tick_without_the_lock(connection: psycopg.Connection) -> None:
    widen_the_gap_between_snapshot_and_tick(connection)
    replace_in(
        connection,
        "pgq._tick_if_due(pgq.queue)",
        "if not pgq._lock_ticks(i_queue.queue_id, false) then",
        "if false then",
    )


def reclaim_without_probing(connection: psycopg.Connection) -> None:
    connection.execute(
        """create or replace function pgq._segment_use(
            i_queue_id integer, i_number integer, out consumers text[], out reason text
        ) language plpgsql as $$ begin end $$"""
    )


def read_two_segments(connection: psycopg.Connection) -> None:
    """Omit events from batches that are in neither the current table nor the previous one."""
    replace_in(
        connection,
        "pgq._batch_sql(integer,integer,pg_snapshot,pg_snapshot,text[],bigint)",
        "from (%s) as event where ",
        """from (%s) as event where exists (
            select
            from pgq.event_1 as e
            join pgq.queue as q on e.tableoid in (
                (''pgq.event_1_'' || q.queue_cur_table)::regclass,
                (''pgq.event_1_'' || mod(q.queue_cur_table + q.queue_ntables - 1, q.queue_ntables))::regclass
            )
            where e.ev_txid = event.ev_txid and e.ev_id = event.ev_id
        ) and """,
    )


def read_without_late_commits(connection: psycopg.Connection) -> None:
    replace_in(
        connection,
        "pgq._events_between_sql(integer,pg_snapshot,pg_snapshot,integer,integer)",
        "if i_slice = 1 then",
        "if false then",
    )


def open_batches_without_lock_and_key(connection: psycopg.Connection) -> None:
    replace_in(
        connection,
        "pgq.next_batch_custom(text,text,interval,integer,interval)",
        "for no key update of s;",
        ";",
    )
    for ledger in ("position_0", "position_1"):
        connection.execute(f"alter table pgq.{ledger} drop constraint {ledger}_pkey")
        connection.execute(f"create index on pgq.{ledger} (pos_subscriber, pos_move)")


def test_a_small_stress_finds_nothing_where_nothing_is_wrong(database_18, seed):
    with database_18.connect() as connection:
        widen_the_gap_between_snapshot_and_tick(connection)

    assert judged(small_stress(database_18, seed)) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (tick_without_the_lock, "too often"),
        (read_without_late_commits, "lost"),
        pytest.param(reclaim_without_probing, "lost", marks=pytest.mark.long),
        pytest.param(read_two_segments, "lost", marks=pytest.mark.long),
        pytest.param(open_batches_without_lock_and_key, "too often", marks=pytest.mark.long),
    ],
)
def test_a_small_stress_finds_each_planted_bug(database_18, seed, plant, found):
    with database_18.connect() as connection:
        plant(connection)

    wrong = judged(small_stress(database_18, seed))

    assert [line for lines in wrong.values() for line in lines if line.startswith(found)] != []
