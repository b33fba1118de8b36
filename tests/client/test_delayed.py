"""Delayed events: methods of the event log, sync and async, on a pool and on a connection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgsluice import DelayedEvent
from pgsluice.errors import ArgumentError, LogNotFoundError, LogStateError, PayloadError


def test_an_event_waits_for_seconds_or_for_a_time_and_is_listed(clients, log_name):
    at = datetime.now(UTC) + timedelta(hours=1)
    assert clients.log.insert_delayed_event(log_name, "t", "at", at, ev_extra3="x") is None
    assert clients.log.insert_delayed_event(log_name, "t", None, 60) is None

    first, second = clients.log.list_delayed(log_name)

    assert isinstance(first, DelayedEvent)
    assert (first.ev_data, second.ev_data, second.ev_extra3, second.due_at) == (None, "at", "x", at)
    assert timedelta(seconds=59) < first.due_at - first.ev_time < timedelta(seconds=90)
    assert clients.log.count_delayed(log_name) == 2
    assert clients.log.list_delayed(
        log_name, qty=1, after_due_at=first.due_at, after_delayed_id=first.delayed_id
    ) == [second]


def test_delayed_event_already_due_gets_its_ev_id_immediately(clients, log_name):
    assert clients.log.insert_delayed_event(log_name, "t", "d", 0) == 1
    past = datetime.now(UTC) - timedelta(hours=1)
    assert clients.log.insert_delayed_event(log_name, "t", "d", past) == 2
    assert clients.log.count_delayed(log_name) == 0


@pytest.mark.parametrize("delay", [-1, 1.5, "1 hour", None, datetime(2100, 1, 1)])  # noqa: DTZ001
def test_a_delay_is_whole_seconds_or_a_time_with_a_zone(clients, log_name, delay):
    with pytest.raises(ArgumentError, match="delay is"):
        clients.log.insert_delayed_event(log_name, "t", "d", delay)


def test_invalid_delayed_event_is_refused(clients, log_name):
    with pytest.raises(PayloadError, match="ev_extra1"):
        clients.log.insert_delayed_event(log_name, "t", "d", 60, ev_extra1="\x00")


def test_a_log_that_is_missing_or_closed_is_an_error(clients, log_name, observer):
    with pytest.raises(LogNotFoundError):
        clients.log.insert_delayed_event("missing", "t", "d", 60)
    with pytest.raises(LogNotFoundError):
        clients.log.list_delayed("missing")
    with pytest.raises(LogNotFoundError):
        clients.log.count_delayed("missing")
    observer.execute(
        "update pgq.queue set queue_disable_insert = true where queue_name = %s", [log_name]
    )
    with pytest.raises(LogStateError):
        clients.log.insert_delayed_event(log_name, "t", "d", 60)


@pytest.mark.parametrize(
    "arguments", [{"qty": 0}, {"after_due_at": datetime(2100, 1, 1)}, {"after_delayed_id": "1"}]  # noqa: DTZ001
)  # fmt: skip
def test_a_page_is_asked_for_with_sound_arguments(clients, log_name, arguments):
    with pytest.raises(ArgumentError):
        clients.log.list_delayed(log_name, **arguments)
