"""Members of share groups that handle different event types, in parallel sessions beside a queue."""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from typing import Any, Self

import psycopg
import pytest

from pgsluice.client import ShareGroup
from support import replace_in, rows, value, wait_until

LOG, QUEUE, GROUP = "orders", "jobs", "desk"
TYPES = ("paid", "shipped", "new", "odd")
KEYS = ("a", "b", "c", None)
ODD_KEYS = ("d", None)  # the other types have this key too
DEADLINE_S = 300.0
# The types that a member handles, and whether it handles all that no handler is declared for.
MEMBERS = {"paid": (["paid"], False), "both": (["paid", "shipped"], False), "new": (["new"], False)}


class Run:
    """Sessions that send, claim and maintain at random, until every event is accepted or only undeclared ones wait."""

    def __init__(self, url: str, seed: int, events: int) -> None:
        self.url, self.seed, self.events = url, seed, events
        self.accepted: list[tuple[int, str]] = []  # ev_id and member, in the order of the accepts
        self.queued: Counter[int] = Counter()
        self.errors: list[BaseException] = []
        self.ended = threading.Event()

    def __enter__(self) -> Self:
        jobs: list[tuple[Any, ...]] = [(self.send,), (self.consume_queue,), (self.maintain,)]
        jobs += [(self.claim, name, number) for name in MEMBERS for number in range(2)]
        self.threads = [threading.Thread(target=self.guarded, args=job) for job in jobs]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def guarded(self, job: Any, *arguments: Any) -> None:
        try:
            with psycopg.connect(self.url, autocommit=True) as connection:
                job(
                    connection, random.Random(f"{self.seed} {job.__name__} {arguments}"), *arguments
                )
        except BaseException as error:  # the main thread raises it
            self.errors.append(error)

    def send(self, connection: Any, source: random.Random) -> None:
        for number in range(self.events):
            event_type = source.choice(TYPES)
            key = source.choice(ODD_KEYS if event_type == "odd" else (*KEYS, "d"))
            connection.execute(
                "select pgq.insert_event(%s, %s, '1', %s, null, null, null), pgmq.send(%s, to_jsonb(%s::integer))",
                (LOG, event_type, key, QUEUE, number),
            )

    def consume_queue(self, connection: Any, source: random.Random) -> None:
        pop = "select message::integer from pgmq.pop(%s, 5)"
        while not self.ended.wait(0.005):
            self.queued.update(number for (number,) in rows(connection, pop, QUEUE))

    def maintain(self, connection: Any, source: random.Random) -> None:
        blocked = "select key from sluice.list_blocked_keys(%s, %s) where reason = 'parked'"
        while not self.ended.wait(0.05):
            connection.execute("update sluice.ledger set kept_bytes = 0")
            connection.execute("select sluice._maintain_ledgers(0)")
            connection.execute("select * from sluice.maintain_groups()")
            for (key,) in rows(connection, blocked, LOG, GROUP):
                connection.execute("select sluice.unpark_key(%s, %s, %s)", (LOG, GROUP, key))

    def claim(self, connection: Any, source: random.Random, name: str, number: int) -> None:
        group = ShareGroup(connection, LOG, GROUP)
        types, others = MEMBERS[name]
        while not self.ended.wait(source.random() * 0.02):
            events = group.claim(
                source.randint(1, 8), types=types, others=others, synchronous=False
            )
            back: set[str | None] = (
                set()
            )  # keys with an event returned; later events are returned too
            for event in events:
                if event.key is not None and event.key in back:
                    continue
                draw = source.random()
                if draw < 0.75 or event.attempt > 3:
                    self.accepted.append((event.ev_id, name))
                    group.accept(event)
                    continue
                back.add(event.key)
                if draw < 0.85:
                    group.release(event)
                else:
                    group.retry(event, delay_s=0.05 if draw < 0.95 else 0)


def run(database: Any, seed: int, when_waiting: str, events: int) -> tuple[Run, list[Any]]:
    """Return the run, and the events of the log as ev_id, type and key."""
    with database.connect() as connection:
        connection.execute("select pgmq.create(%s)", (QUEUE,))
        connection.execute("select pgq.create_queue(%s)", (LOG,))
        group = ShareGroup(connection, LOG, GROUP)
        group.create(
            start="earliest",
            key="ev_extra1",
            when_waiting=when_waiting,
            max_attempts=100,
            unhandled="leave",
        )
        connection.execute(
            "select sluice.declare_types(%s, %s, 'shop', array['a', 'b', 'c'], array['paid', 'shipped', 'new'])",
            (LOG, GROUP),
        )
        with Run(database.url, seed, events) as ran:

            def is_over() -> bool:
                if ran.errors:
                    raise ran.errors[0]
                if len(ran.queued) < events:
                    return False
                sent = rows(
                    connection, f"select ev_id, ev_type, ev_extra1 from {template} order by 1"
                )
                return {ev_id for ev_id, _ in ran.accepted} >= expected(sent)

            template = value(
                connection, "select queue_data_pfx from pgq.queue where queue_name = %s", LOG
            )
            wait_until(is_over, "the events of declared types", deadline_s=DEADLINE_S)
        if ran.errors:
            raise ran.errors[0]
        return ran, rows(connection, f"select ev_id, ev_type, ev_extra1 from {template} order by 1")


def expected(sent: list[Any]) -> set[int]:
    """Return the events to be accepted: undeclared ones wait, and with them the later events of their key."""
    held: set[str | None] = set()
    found = set()
    for ev_id, ev_type, key in sent:
        if ev_type == "odd":
            held.add(key)
        elif key is None or key not in held:
            found.add(ev_id)
    return found


def violations(ran: Run, sent: list[Any]) -> list[str]:
    """Return what went wrong: an event by another member or accepted twice, a key out of order, a message lost."""
    of = {ev_id: (ev_type, key) for ev_id, ev_type, key in sent}
    wrong = [
        f"{ev_id} of type {of[ev_id][0]} was claimed by {name}"
        for ev_id, name in ran.accepted
        if of[ev_id][0] not in MEMBERS[name][0]
    ]
    wrong += [
        f"{ev_id} twice"
        for ev_id, count in Counter(e for e, _ in ran.accepted).items()
        if count > 1
    ]
    by_key = defaultdict(list)
    for ev_id, _ in ran.accepted:
        by_key[of[ev_id][1]].append(ev_id)
    wrong += [f"key {key}: {ids}" for key, ids in by_key.items() if key and ids != sorted(ids)]
    wrong += [
        f"message {number} {count} times" for number, count in ran.queued.items() if count != 1
    ]
    return wrong + [
        f"{ev_id} was accepted" for ev_id, _ in ran.accepted if ev_id not in expected(sent)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("when_waiting", ["block", "park"])
def test_members_in_parallel_sessions_get_the_events_of_their_types_in_order(
    database_18, when_waiting, seed
):
    assert violations(*run(database_18, seed, when_waiting, 150)) == []


@pytest.mark.long
@pytest.mark.parametrize("when_waiting", ["block", "park"])
def test_members_in_parallel_sessions_for_long(database_18, when_waiting, seed):
    assert violations(*run(database_18, seed, when_waiting, 1500)) == []


@pytest.mark.slow
def test_a_claim_that_ignores_types_is_found(database_18, seed):
    with database_18.connect() as connection:
        replace_in(
            connection,
            "sluice.claim(text,text,integer,interval,boolean,text[],boolean)",
            "if types is not null and not (",
            "if false and not (",
        )

    with pytest.raises(AssertionError):
        assert violations(*run(database_18, seed, "block", 150)) == []
