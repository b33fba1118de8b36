"""The scheduler on a real server: firing times, failures, and schedules that an app declares."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from pgsluice import AsyncSchedules, NewEvent, Scheduler, ScheduleSpec
from pgsluice.connection import for_writing, resolve
from pgsluice.errors import ArgumentError, PrivilegeError
from pgsluice.worker import App
from pgsluice.worker.app.startup import start_up
from pgsluice.worker.upkeep.schedules import declare_schedules
from support import rows, value, wait_until
from support.listen import running
from support.schedules import schedule


@pytest.fixture(autouse=True)
def empty(observer):
    yield
    observer.execute("delete from sluice.schedule")


@pytest.mark.slow
def test_slots_are_fired_when_they_are_due_and_not_before(pool, observer, queue_name):
    schedule(observer, queue_name=queue_name, every="250 milliseconds", catch_up="all")
    fired = []
    with running(Scheduler(pool, poll_interval_s=30, report=fired.append)):
        wait_until(lambda: len(fired) >= 6, "six slots")

    late = [
        late
        for (late,) in rows(
            observer, "select fired_at - slot from sluice.schedule_slot order by slot limit 6"
        )
    ]
    assert min(late) >= timedelta(0)
    # The poll interval of 30 s does not matter, even on a busy machine.
    assert sorted(late)[3] < timedelta(seconds=1)
    assert [slot.msg_id for slot in fired[:6]] == [1, 2, 3, 4, 5, 6]


def test_schedule_created_while_running_is_seen_at_the_next_poll(pool, observer, queue_name):
    fired = []
    with running(Scheduler(pool, poll_interval_s=0.1, report=fired.append)):
        schedule(observer, queue_name=queue_name, every="100 milliseconds")
        wait_until(lambda: len(fired) >= 2, "two slots")


def test_a_slot_that_cannot_be_fired_is_said_and_stops_nothing(pool, observer, queue_name, caplog):
    observer.execute("select pgmq.create('gone')")
    schedule(observer, "bad", "gone", every="100 milliseconds")
    schedule(observer, "good", queue_name, every="100 milliseconds")
    observer.execute("select pgmq.drop_queue('gone')")
    fired = []

    with running(Scheduler(pool, report=fired.append)):
        wait_until(lambda: sum(slot.error is None for slot in fired) >= 3, "three slots")

    assert [slot.msg_id for slot in fired if slot.name == "bad"] == [None]
    # Use the messages, as Spark's loggers of earlier tests turn the text into JSON.
    text = "\n".join(caplog.messages)
    assert "schedule slot failed schedule=bad" in text
    assert 'relation "pgmq.q_gone" does not exist' in text


def test_it_survives_the_loss_of_its_connections(pool, observer, queue_name):
    schedule(observer, queue_name=queue_name, every="100 milliseconds", catch_up="all")
    fired = []
    with running(Scheduler(pool, report=fired.append)):
        wait_until(lambda: bool(fired), "a slot")
        observer.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        seen = len(fired)
        wait_until(lambda: len(fired) >= seen + 3, "three more")

    gaps = "select count(distinct slot), max(slot) - min(slot) from sluice.schedule_slot"
    ((count, span),) = rows(observer, gaps)
    assert count == span / timedelta(milliseconds=100) + 1


def test_locked_schedule_is_fired_after_its_lock_is_released(
    pool, observer, worker_url, queue_name
):
    schedule(observer, queue_name=queue_name, every="1 hour")
    observer.execute("update sluice.schedule set next_slot = now(), due_at = now()")
    fired = []
    with psycopg.connect(worker_url) as holder:
        holder.execute("select from sluice.schedule for update")
        with running(Scheduler(pool, report=fired.append)):
            looked = "select count(*) from pg_stat_activity where query like '%fire_schedules(%' and pid <> pg_backend_pid()"
            wait_until(lambda: value(observer, looked) > 0, "a check for due slots")
            assert fired == []
            holder.rollback()
            wait_until(lambda: len(fired) == 1, "the slot")


def test_run_once_fires_all_that_is_due(pool, observer, queue_name):
    schedule(observer, queue_name=queue_name, every="1 minute", catch_up="all")
    observer.execute(
        "update sluice.schedule set (starts_at, next_slot, due_at) = "
        "(starts_at - interval '31.5 minutes', starts_at - interval '31.5 minutes', now())"
    )

    assert len(Scheduler(pool).run_once()) in (31, 32)
    assert Scheduler(pool).run_once() == []


async def test_an_app_that_declares_no_schedule_any_more_pauses_its_last_one(
    worker_url, observer, queue_name, caplog
):
    """Its start read and wrote no schedules at all."""
    for name, app_name in [("own", "shop"), ("unnamed", "app")]:
        schedule(observer, name, queue_name, every="1 hour", declared_by=app_name)

    for app in (App(worker_url, name="shop"), App(worker_url)):
        app.handler(queue_name)(lambda payload: None)
        target = for_writing(resolve(worker_url))
        await start_up(app, app.handlers.values(), target, connections=5)

    assert rows(observer, "select name from sluice.schedule where paused_at is not null") == [
        ("own",)
    ]
    assert "schedule paused schedule=own app=shop" in caplog.text
    assert "schedule no longer declared schedule=unnamed app=app" in caplog.text


def test_permanent_error_stops_it(worker_url, observer):
    observer.execute("create role powerless login")
    try:
        with (
            ConnectionPool(worker_url, kwargs={"user": "powerless"}, min_size=1, open=True) as pool,
            pytest.raises(PrivilegeError),
        ):
            Scheduler(pool).run(threading.Event())
    finally:
        observer.execute("drop role powerless")


def test_poll_interval_is_more_than_nothing(pool):
    with pytest.raises(ArgumentError, match="poll_interval_s is 0"):
        Scheduler(pool, poll_interval_s=0)


def declare(url, *specs, app="shop"):
    async def run():
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            return await declare_schedules(AsyncSchedules(connection), app, specs)

    return asyncio.run(run())


def test_declared_schedules_are_written_and_undeclared_ones_are_paused_and_logged(
    worker_url, observer, queue_name, caplog
):
    observer.execute("select pgq.create_queue('changes')")
    end = datetime(2100, 1, 1, tzinfo=UTC)
    mail = ScheduleSpec(name="mail", queue_name=queue_name, message={"n": 1}, headers={"h": 1}, timing={"cron": "@daily", "time_zone": "Europe/Berlin", "ends_at": end})  # fmt: skip
    tick = ScheduleSpec(
        name="tick", queue_name="changes", event=NewEvent("t", "d"), timing={"every_s": 0.5}
    )
    schedule(observer, "by hand", queue_name, every="1 hour")

    assert declare(worker_url, tick, mail) == []
    before = rows(observer, "select xmin, s.* from sluice.schedule as s order by name")
    assert declare(worker_url, mail, tick) == []
    assert rows(observer, "select xmin, s.* from sluice.schedule as s order by name") == before
    assert rows(observer, "select name, target, cron, every, ends_at, declared_by from sluice.list_schedules()") == [
        ("by hand", "queue", None, timedelta(hours=1), None, None),
        ("mail", "queue", "@daily", None, end, "shop"),
        ("tick", "log", None, timedelta(seconds=0.5), None, "shop"),
    ]  # fmt: skip

    with caplog.at_level(logging.WARNING):
        assert declare(worker_url, tick) == ["mail"]
        assert declare(worker_url, app="other") == []
    assert 'schedule paused schedule=mail app=shop reason="no longer declared"' in caplog.text
    paused = "select name from sluice.schedule where paused_at is not null"
    assert rows(observer, paused) == [("mail",)]
    assert declare(worker_url, tick, mail) == []
    assert rows(observer, paused) == []
    observer.execute("select pgq.drop_queue('changes')")
