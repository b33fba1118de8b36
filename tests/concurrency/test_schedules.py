"""Concurrent and killed schedulers, pauses and changes: each slot is fired once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import datetime, timedelta

import psycopg
import pytest

from support import replace_in, rows, value, wait_for_lock, wait_until
from support.schedules import due_since, fire, fired_slots, schedule, state

STEP = timedelta(milliseconds=200)
PROCESSES = 3
KILLS = 20
SCHEDULER = """
import sys, threading
from psycopg_pool import ConnectionPool
from pgsluice import Scheduler
with ConnectionPool(sys.argv[1], min_size=1, max_size=1, open=True) as pool:
    print("ready", flush=True)
    Scheduler(pool).run(threading.Event())
"""


@pytest.fixture
def due(database):
    """Create a queue and a schedule whose slot of half an hour ago was not fired."""
    with database.connect() as connection:
        connection.execute("select pgmq.create('orders')")
        schedule(connection, every="1 hour")
        due_since(connection, "30 minutes")
        yield connection


def sent(connection):
    return value(connection, "select count(*) from pgmq.q_orders")


def test_of_two_at_once_one_fires_and_the_other_passes_by_without_waiting(database, due):
    with database.connect(autocommit=False) as first:
        assert len(fire(first)) == 1
        due.execute("set statement_timeout = '5s'")

        assert fire(due) == []

        first.commit()
    assert fire(due) == []
    assert (sent(due), len(fired_slots(due))) == (1, 1)


def test_schedule_lost_in_a_crash_is_fired_by_the_next_scheduler(database, due):
    slot = state(due, "next_slot")
    with database.connect(autocommit=False) as crashing:
        fire(crashing)
        due.execute("select pg_terminate_backend(%s)", (crashing.info.backend_pid,))
        wait_until(
            lambda: state(due, "last_slot") is not None or bool(fire(due)), "the slot to be fired"
        )

        with pytest.raises(psycopg.OperationalError):
            crashing.execute("select 1")
    assert (sent(due), fired_slots(due)) == (1, [slot])


def test_a_pause_waits_for_who_fires_and_then_nothing_is_fired(database, due):
    with database.connect(autocommit=False) as firing, database.connect() as pausing:
        fire(firing)
        thread = threading.Thread(
            target=pausing.execute, args=("select sluice.pause_schedule('nightly')",)
        )
        thread.start()
        wait_for_lock(due, pausing)
        firing.commit()
        thread.join(30)

    assert (sent(due), state(due, "next_slot")) == (1, None)
    assert fire(due) == []


def test_uncommitted_pause_blocks_no_scheduler_and_can_be_rolled_back(database, due):
    with database.connect(autocommit=False) as pausing:
        pausing.execute("select sluice.pause_schedule('nightly')")
        due.execute("set statement_timeout = '5s'")

        assert fire(due) == []

        pausing.rollback()
    assert len(fire(due)) == 1


def test_schedule_declared_concurrently_is_written_once(database):
    with database.connect() as connection:
        connection.execute("select pgmq.create('orders')")
    written: list[bool] = []
    gate = threading.Barrier(8)

    def declare():
        with database.connect() as session:
            gate.wait(30)
            written.append(schedule(session, cron="0 3 * * *", declared_by="app"))

    threads = [threading.Thread(target=declare) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert sorted(written) == [False] * 7 + [True]


def two_at_once(database, due):
    """Fire in two sessions, the first commits last; return the result of the second."""
    fired = []
    with database.connect(autocommit=False) as first, database.connect() as second:
        fire(first)
        thread = threading.Thread(target=lambda: fired.extend(fire(second)))
        thread.start()
        wait_until(lambda: not thread.is_alive() or is_waiting(due, second), "the second scheduler")
        first.commit()
        thread.join(30)
    return fired


def is_waiting(observer, session):
    query = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
    return value(observer, query, session.info.backend_pid) is True


def test_without_the_lock_the_row_of_the_slot_still_keeps_it_from_being_sent_twice(database, due):
    replace_in(due, "sluice.fire_schedules(integer)", "for update skip locked", "")
    replace_in(
        due,
        "sluice.fire_schedules(integer)",
        "SET lock_timeout TO '200ms'",
        "SET lock_timeout TO '30s'",
    )

    ((_, _, msg_id, error),) = two_at_once(database, due)

    assert (msg_id, "schedule_slot_pkey" in error) == (None, True)
    assert (sent(due), len(fired_slots(due))) == (1, 1)


def test_without_both_a_slot_is_sent_twice(database, due):
    replace_in(due, "sluice.fire_schedules(integer)", "for update skip locked", "")
    replace_in(
        due,
        "sluice.fire_schedules(integer)",
        "SET lock_timeout TO '200ms'",
        "SET lock_timeout TO '30s'",
    )
    due.execute("alter table sluice.schedule_slot drop constraint schedule_slot_pkey")

    two_at_once(database, due)

    assert sent(due) == 2, "the planted bug must send the slot twice"


@pytest.mark.slow
def test_three_schedulers_that_are_killed_at_random_fire_every_slot_once(database_18, seed):
    """Real processes, killed twenty times, up to all at once."""
    choose = random.Random(seed)
    with database_18.connect() as connection:
        connection.execute("select pgmq.create('orders')")
        for name in ("a", "b"):
            schedule(connection, name, every="200 milliseconds", catch_up="all")
        processes = [start(database_18.url) for _ in range(PROCESSES)]
        try:
            for process in processes:
                process.stdout.readline()
            for _ in range(KILLS):
                time.sleep(choose.uniform(0.1, 0.6))
                number = choose.randrange(PROCESSES)
                processes[number].kill()
                processes[number].communicate()
                processes[number] = start(database_18.url)
            processes[0].stdout.readline()
            end = value(connection, "select clock_timestamp()")
            wait_until(
                lambda: value(connection, "select min(next_slot) from sluice.schedule") > end,
                "the last slots",
            )
        finally:
            for process in processes:
                process.kill()
                process.communicate()
        begin = dict(rows(connection, "select name, starts_at from sluice.schedule"))
        slots: Counter[tuple[str, datetime]] = Counter()
        for name, slot in rows(
            connection,
            "select headers #>> '{x-pgmq-schedule,name}', (headers #>> '{x-pgmq-schedule,slot}')::timestamptz"
            " from pgmq.q_orders",
        ):
            slots[name, slot] += 1

        for name in ("a", "b"):
            last = max(slot for of, slot in slots if of == name)
            assert last > end - STEP
            wanted = [begin[name] + n * STEP for n in range((last - begin[name]) // STEP + 1)]
            assert {slot: slots[name, slot] for slot in wanted} == dict.fromkeys(wanted, 1)
            assert fired_slots(connection, name) == wanted
        assert sum(slots.values()) == value(connection, "select count(*) from sluice.schedule_slot")


def start(url):
    return subprocess.Popen(
        [sys.executable, "-c", SCHEDULER, url],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
