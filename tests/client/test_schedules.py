"""Schedules: each method, sync and async, on a pool and on a connection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgsluice import FiredSlot, Schedule
from pgsluice.errors import (
    ArgumentError,
    LogNotFoundError,
    PayloadError,
    QueueNotFoundError,
    ScheduleNotFoundError,
)

PAST = datetime(2020, 1, 1, tzinfo=UTC)


def test_each_method_does_what_its_function_does(clients, observer, queue_name, log_name):
    schedules = clients.schedules
    name = f"of {queue_name} {log_name}"
    assert schedules.schedule(name, queue_name, {"n": 1}, headers={"h": 1}, cron="0 3 * * *", time_zone="Europe/Berlin", jitter_s=60) is True  # fmt: skip
    assert schedules.schedule(name, queue_name, {"n": 1}, headers={"h": 1}, cron="0 3 * * *", time_zone="Europe/Berlin", jitter_s=60) is False  # fmt: skip

    (made,) = [made for made in schedules.list_schedules() if made.name == name]
    assert isinstance(made, Schedule)
    assert (made.target, made.queue_name, made.message, made.headers) == ("queue", queue_name, {"n": 1}, {"h": 1})  # fmt: skip
    assert (made.cron, made.every, made.time_zone) == ("0 3 * * *", None, "Europe/Berlin")
    assert (made.catch_up, made.catch_up_within, made.jitter) == ("one", timedelta(days=7), timedelta(minutes=1))  # fmt: skip
    assert made.next_slot <= made.due_at == schedules.next_schedule_at()
    assert schedules.pause_schedule(name) is True
    assert schedules.pause_schedule(name) is False
    assert schedules.run_schedule(name) == 1
    assert schedules.resume_schedule(name) is True
    assert schedules.fire_schedules() == []
    assert schedules.unschedule(name) is True
    assert schedules.unschedule(name) is False


def test_due_schedule_is_fired(clients, observer, queue_name, log_name):
    schedules = clients.schedules
    schedules.schedule(queue_name, queue_name, 1, every_s=3600, starts_at=PAST)
    schedules.schedule_event(log_name, log_name, "t", "d", ev_extra1="x", every_s=3600, starts_at=PAST)  # fmt: skip
    observer.execute("update sluice.schedule set next_slot = starts_at, due_at = starts_at")

    fired = schedules.fire_schedules(schedules_max=10)

    assert all(isinstance(slot, FiredSlot) and slot.error is None for slot in fired)
    assert {slot.name for slot in fired} == {queue_name, log_name}
    assert all(timedelta(0) <= datetime.now(UTC) - slot.slot < timedelta(hours=1) for slot in fired)
    (made,) = [made for made in schedules.list_schedules() if made.name == log_name]
    assert (made.message, made.event) == (None, {"ev_type": "t", "ev_data": "d", "ev_extra1": "x"})
    assert made.last_slot in [slot.slot for slot in fired]
    for name in (queue_name, log_name):
        schedules.unschedule(name)
    assert schedules.next_schedule_at() is None


def test_missing_schedule_and_invalid_argument_are_named(clients, observer, queue_name, log_name):
    schedules = clients.schedules
    for method in (schedules.pause_schedule, schedules.resume_schedule, schedules.run_schedule):
        with pytest.raises(ScheduleNotFoundError, match="schedule 'none' does not exist"):
            method("none")
    with pytest.raises(QueueNotFoundError, match="queue 'none' does not exist"):
        schedules.schedule("s", "none", 1, every_s=1)
    with pytest.raises(LogNotFoundError, match="event log 'none' does not exist"):
        schedules.schedule_event("s", "none", "t", "d", every_s=1)
    with pytest.raises(ArgumentError, match="'61' is not a valid minute.*In the cron.*0 to 59"):
        schedules.schedule("s", queue_name, 1, cron="61 * * * *")
    with pytest.raises(ArgumentError, match="unknown option 'crn'; use cron, every_s"):
        schedules.schedule("s", queue_name, 1, crn="@daily")
    with pytest.raises(ArgumentError, match="starts_at is a datetime without a time zone"):
        schedules.schedule("s", queue_name, 1, every_s=1, starts_at=datetime(2030, 1, 1))  # noqa: DTZ001
    with pytest.raises(ArgumentError, match="schedules_max is 0"):
        schedules.fire_schedules(schedules_max=0)
    with pytest.raises(PayloadError, match="message"):
        schedules.schedule("s", queue_name, {1, 2}, every_s=1)
    with pytest.raises(PayloadError, match="ev_type"):
        schedules.schedule_event("s", log_name, 1, "d", every_s=1)


def test_run_names_a_queue_that_is_gone(clients, observer, queue_name):
    clients.schedules.schedule(queue_name, queue_name, 1, every_s=3600)
    observer.execute("select pgmq.drop_queue(%s)", (queue_name,))

    with pytest.raises(QueueNotFoundError, match=queue_name):
        clients.schedules.run_schedule(queue_name)
    clients.schedules.unschedule(queue_name)
