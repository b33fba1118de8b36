"""Schedules and deduplication keys over an outage: restarted schedulers, workers and servers."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from pgsluice import App, Scheduler, SyncContext, WorkQueue
from pgsluice.testing import drain
from support import rows, value, wait_until
from support.crash import server_to_crash
from support.listen import running
from support.schedules import due_since, schedule


class Gate:
    """A scheduler that starts at the same moment as another one."""

    def __init__(self, scheduler: Scheduler, barrier: threading.Barrier) -> None:
        self._scheduler = scheduler
        self._barrier = barrier

    def run(self, stop: threading.Event) -> None:
        self._barrier.wait(30)
        self._scheduler.run(stop)


def run_two(url: str, observer: psycopg.Connection) -> None:
    """Run two schedulers that start at the same moment until no slot is due."""
    barrier = threading.Barrier(2)
    with ExitStack() as stack:
        for _ in range(2):
            pool = stack.enter_context(ConnectionPool(url, min_size=1, max_size=1, open=True))
            pool.wait()
            stack.enter_context(running(Gate(Scheduler(pool), barrier)))
        due = "select count(*) from sluice.schedule where due_at <= clock_timestamp()"
        wait_until(lambda: value(observer, due) == 0, "all due slots to be fired")


def sent_slots(observer: psycopg.Connection, queue_name: str, name: str) -> list[datetime]:
    """Return the slots of a schedule's messages in order, including duplicates."""
    query = (
        "select (headers #>> '{x-pgmq-schedule,slot}')::timestamptz as slot"
        f" from pgmq.q_{queue_name} where headers #>> '{{x-pgmq-schedule,name}}' = %s order by slot"
    )
    return [slot for (slot,) in rows(observer, query, name)]


@pytest.fixture
def no_schedules(observer):
    observer.execute("delete from sluice.schedule")
    yield
    observer.execute("delete from sluice.schedule")


def test_two_schedulers_that_start_at_once_catch_up_each_slot_once(
    worker_url, observer, queue_name, no_schedules
):
    for catch_up in ("all", "one", "none"):
        schedule(
            observer, catch_up, queue_name, every="10 minutes", catch_up=catch_up, catch_up_within="40 hours"
        )  # fmt: skip
        due_since(observer, "30 hours 7 minutes", catch_up)

    run_two(worker_url, observer)

    slots = sent_slots(observer, queue_name, "all")
    assert len(slots) == len(set(slots))
    assert slots == [slots[0] + n * timedelta(minutes=10) for n in range(len(slots))]
    assert len(slots) in (181, 182)
    assert len(sent_slots(observer, queue_name, "one")) == 1
    last = sent_slots(observer, queue_name, "one")[0]
    assert value(observer, "select now() - %s < '11 minutes'", last)
    assert sent_slots(observer, queue_name, "none") == []


@pytest.mark.parametrize(
    ("days", "wanted"),
    [
        # 02:30 does not exist on 29 March: the slot is at 03:00, the first time after the gap.
        (
            ("2026-03-27", "2026-03-31"),
            ["27T01:30", "28T01:30", "29T01:00", "30T00:30"],
        ),
        # 02:30 occurs twice on 25 October: the slot is the first.
        (
            ("2026-10-23", "2026-10-27"),
            ["23T00:30", "24T00:30", "25T00:30", "26T01:30"],
        ),
    ],
    ids=["clocks are set forward", "clocks are set back"],
)
def test_two_schedulers_catch_up_over_a_change_of_the_clocks(
    worker_url, observer, queue_name, no_schedules, days, wanted
):
    begin, end = days
    schedule(
        observer, "daily", queue_name, cron="30 2 * * *", time_zone="Europe/Berlin", catch_up="all",
        catch_up_within="100 years",
    )  # fmt: skip
    observer.execute(
        "update sluice.schedule as s set starts_at = b.at, ends_at = %s::timestamp at time zone 'Europe/Berlin',"
        " next_slot = b.slot, due_at = b.slot"
        " from (select %s::timestamp at time zone 'Europe/Berlin',"
        "  (%s::timestamp + '02:30') at time zone 'Europe/Berlin') as b (at, slot)",
        [end, begin, begin],
    )

    run_two(worker_url, observer)

    slots = sent_slots(observer, queue_name, "daily")
    assert [f"{slot.astimezone(UTC):%dT%H:%M}" for slot in slots] == wanted


@pytest.fixture
def crashing_server(servers_folder):
    with server_to_crash(servers_folder) as server:
        with psycopg.connect(server.url()) as connection:
            connection.execute("create table effect (n bigint)")
            WorkQueue(connection).create("orders")
            WorkQueue(connection).set_queue_options(
                "orders", deduplication_window=timedelta(hours=1)
            )
        yield server


@pytest.mark.slow
def test_keys_hold_over_restarts_of_worker_and_server(crashing_server):
    url = crashing_server.url()

    def run_worker():
        """Run a worker as a new process, without state of earlier ones."""
        app = App(url)

        @app.handler("orders")
        def book(order: int, context: SyncContext) -> None:
            with context.transaction() as connection:
                if context.once(f"order {order}"):
                    connection.execute("insert into effect values (%s)", [order])

        done = drain(app)["book"].done
        app.close()
        return done

    def send(key, order):
        with psycopg.connect(url, autocommit=True) as connection:
            return value(
                connection, "select sluice.send('orders', to_jsonb(%s::int), %s)", order, key
            )

    def effects():
        with psycopg.connect(url, autocommit=True) as connection:
            return rows(connection, "select n from effect order by n")

    assert send("a", 1) == 1
    assert run_worker() == 1
    for restart in (crashing_server.stop, lambda: crashing_server.stop("immediate")):
        restart()
        crashing_server.start()
        # The key is still stored, although its message was archived and the server restarted or
        # crashed.
        assert send("a", 1) == 1
        assert run_worker() == 0
    # Another message for the same order: the inbox prevents a second effect.
    assert send("b", 1) == 2
    assert run_worker() == 1
    assert effects() == [(1,)]

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select sluice.maintain()")
        assert value(connection, "select count(*) from sluice.inbox") == 1
        connection.execute("update sluice.inbox set expires_at = now()")
        connection.execute("update sluice.deduplication_key set expires_at = now()")
    crashing_server.stop("immediate")
    crashing_server.start()
    with psycopg.connect(url, autocommit=True) as connection:
        tasks = {task for (task,) in rows(connection, "select task from sluice.maintain()")}
        assert "keys" in tasks
    # Both windows have expired: the message is sent and handled again.
    assert send("a", 1) > 2
    assert run_worker() == 1
    assert effects() == [(1,), (1,)]
