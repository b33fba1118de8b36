"""Share groups under load while the clock is stepped: no event is lost, and the log rotates."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from support import rows, value, wait_until
from support.clock import DAY_S, Clock
from support.log import consume_all
from support.servers import Database
from support.share_groups import (
    LOG,
    acknowledge,
    claim,
    create_group,
    info,
    make_log,
    open_claims,
    renew,
    rotate,
)

RUN_S = 8.0
STEPS_S = (DAY_S, -DAY_S, 3600.0, -3600.0, 30.0, -30.0, 1.0, -1.0)
GROUPS = ("plain", "keyed")


class Run:
    """A run of producers, consumers of two groups, maintenance and clock steps."""

    def __init__(self, database: Database, clock: Clock, seed: int) -> None:
        self.database = database
        self.clock = clock
        self.seed = seed
        self.over = threading.Event()
        self.accepted: dict[str, Counter[str]] = {group: Counter() for group in GROUPS}
        self.sent = 0
        self.delayed: set[str] = set()

    @contextmanager
    def session(self) -> Iterator[psycopg.Connection]:
        with self.database.connect() as session:
            yield session

    def produce(self, dice: random.Random) -> None:
        with self.session() as session:
            while not self.over.is_set():
                self.sent += 1
                data, key = str(self.sent), dice.choice("abcdefgh")
                if dice.random() < 0.8:
                    session.execute(
                        "select pgq.insert_event(%s, 't', %s, %s, null, null, null)",
                        (LOG, data, key),
                    )
                else:
                    self.delayed.add(data)
                    session.execute(
                        """select sluice.insert_event(
                            %s, 't', %s, delay => make_interval(secs => %s), ev_extra1 => %s)""",
                        (LOG, data, dice.uniform(0.01, 2), key),
                    )
                time.sleep(
                    dice.uniform(0, 0.02)
                )  # the rate of a producer, not a wait for a condition

    def consume(self, dice: random.Random, group: str) -> None:
        with self.session() as session:
            while not self.over.is_set():
                try:
                    events = claim(session, dice.randint(1, 5), "1 s", group=group)
                except psycopg.DatabaseError as error:
                    if error.sqlstate != "SG005":
                        raise
                    continue  # lock_timeout is measured by the stepped clock
                if not events:
                    self.over.wait(0.02)
                    continue
                claim_id = events[0].claim_id
                fate = dice.random()
                try:
                    if fate < 0.1:
                        renew(session, claim_id, "2 s", group=group)
                    if fate < 0.2:
                        continue  # as if the process had died
                    if fate < 0.3:
                        acknowledge(session, claim_id, "retry", delay="500 ms", group=group)
                    elif fate < 0.4:
                        acknowledge(session, claim_id, "release", group=group)
                    else:
                        acknowledge(session, claim_id, group=group)
                        self.accepted[group].update(event.ev_data for event in events)
                except psycopg.DatabaseError as error:
                    if (
                        error.sqlstate != "SG002"
                    ):  # the lease expired and its events were redelivered
                        raise

    def maintain(self, dice: random.Random) -> None:
        with self.session() as session:
            while not self.over.is_set():
                rows(session, "select pgq.ticker()")
                rows(session, "select pgq.maint_retry_events()")
                rotate(session)
                self.over.wait(dice.uniform(0, 0.2))

    def step(self, dice: random.Random) -> None:
        while not self.over.wait(dice.uniform(0.05, 0.6)):
            step = dice.choice(STEPS_S)
            if abs(self.clock.offset_s + step) <= DAY_S:
                self.clock.shift(step)

    def play(self) -> None:
        works: list[Callable[[random.Random], None]] = [self.produce, self.maintain, self.step]
        for group in GROUPS:
            works += [lambda dice, group=group: self.consume(dice, group)] * 3
        with ThreadPoolExecutor(len(works)) as threads:
            done = [
                threads.submit(self._run, work, random.Random(f"{self.seed} {number}"))
                for number, work in enumerate(works)
            ]
            self.over.wait(RUN_S)
            self.over.set()
            for future in done:
                future.result()

    def _run(self, work: Callable[[random.Random], None], dice: random.Random) -> None:
        try:
            work(dice)
        finally:
            self.over.set()

    def drain(self) -> None:
        """Correct the clock and accept the remaining events within the usual time.

        Events delayed while the clock was ahead are due later by as much, at most a day.
        """
        self._drain("every event that was not delayed", 0, self.delayed)
        self._drain("every event", DAY_S, set())
        self.clock.set(0)

    def _drain(self, what: str, offset_s: float, but: set[str]) -> None:
        everything = {str(number) for number in range(1, self.sent + 1)}
        self.clock.set(offset_s)
        with self.session() as session:

            def is_drained() -> bool:
                rows(session, "select pgq.ticker()")
                rows(session, "select pgq.maint_retry_events()")
                for group in GROUPS:
                    while events := claim(session, 100, "1 s", group=group):
                        acknowledge(session, events[0].claim_id, group=group)
                        self.accepted[group].update(event.ev_data for event in events)
                rotate(session)
                return all(
                    everything - but <= set(self.accepted[group])
                    and open_claims(session, group) == {}
                    for group in GROUPS
                )

            try:
                wait_until(is_drained, f"{what} to be acknowledged", 30)
            finally:
                for group in GROUPS:
                    missing = sorted(everything - set(self.accepted[group]), key=int)
                    print(f"{group}: {self.sent} sent, missing {missing}")


@pytest.mark.slow
def test_every_event_is_acknowledged_and_the_log_not_pinned_while_the_clock_steps(
    clock_database: Database, clock: Clock, seed: int
) -> None:
    with clock_database.connect() as session:
        make_log(session)
        session.execute("select pgq.register_consumer(%s, 'lake')", (LOG,))
        for group in GROUPS:
            create_group(
                session,
                group,
                key="ev_extra1" if group == "keyed" else None,
                max_attempts=1000,
                max_deliveries=1000,
            )
        run = Run(clock_database, clock, seed)
        run.play()
        run.drain()

        assert run.sent > 50
        assert value(session, "select count(*) from sluice.dead_letter") == 0
        assert value(session, "select sluice.count_delayed(%s)", LOG) == 0
        for group in GROUPS:
            assert info(session, group).lag_events == 0
        consume_all(session)

        # A segment is truncated once no consumer needs it; the clock was ahead by a day at most.
        def is_reclaimed() -> bool:
            rows(session, "select pgq.ticker()")
            consume_all(session)
            for group in GROUPS:
                claim(session, group=group)
            return "kept" not in {action for action, _ in rotate(session).values()}

        wait_until(is_reclaimed, "every old segment to be reclaimed", 30)
