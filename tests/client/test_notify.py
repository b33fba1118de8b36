"""Methods for insert notifications, sync and async, on a pool and on a connection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgsluice import NotifyThrottle
from pgsluice.errors import ArgumentError, QueueNotFoundError, ServerError
from support.notify import Listener


def throttle_of(clients, queue_name):
    found = [
        t for t in clients.operations.list_notify_insert_throttles() if t.queue_name == queue_name
    ]
    assert all(type(throttle) is NotifyThrottle for throttle in found)
    return found[0] if found else None


def test_a_queue_notifies_from_enabling_to_disabling(clients, queue_name, observer):
    channel = f"pgmq.q_{queue_name}.INSERT"
    listener = Listener(observer, channel)
    assert throttle_of(clients, queue_name) is None

    assert clients.operations.enable_notify_insert(queue_name) is None
    never = throttle_of(clients, queue_name)
    assert (never.throttle_interval_ms, never.last_notified_at.timestamp()) == (250, 0)

    clients.queue.send(queue_name, 1)
    assert listener.heard() == [channel]
    notified = throttle_of(clients, queue_name)
    assert abs(datetime.now(UTC) - notified.last_notified_at) < timedelta(seconds=30)

    assert clients.operations.update_notify_insert(queue_name, throttle_interval_ms=60000) is None
    clients.queue.send_batch(queue_name, [1, 2])
    clients.queue.send(queue_name, 3)
    assert listener.heard() == [channel]
    assert throttle_of(clients, queue_name).throttle_interval_ms == 60000

    assert clients.operations.disable_notify_insert(queue_name) is None
    assert clients.operations.disable_notify_insert(queue_name) is None
    clients.queue.send(queue_name, 4)
    assert listener.heard() == []
    assert throttle_of(clients, queue_name) is None


def test_missing_object_is_named(clients, queue_name):
    with pytest.raises(QueueNotFoundError, match="queue 'nope' does not exist"):
        clients.operations.enable_notify_insert("nope")
    with pytest.raises(QueueNotFoundError, match="queue 'nope' does not exist"):
        clients.operations.update_notify_insert("nope", throttle_interval_ms=1)
    with pytest.raises(ArgumentError, match="does not have notify_insert enabled"):
        clients.operations.update_notify_insert(queue_name, throttle_interval_ms=1)
    with pytest.raises(ServerError, match="names are case-sensitive"):
        clients.operations.enable_notify_insert(queue_name.upper())
    assert clients.operations.disable_notify_insert("nope") is None


@pytest.mark.parametrize("interval", [-1, 2**31, 0.5, True, None, "250", timedelta(seconds=1)])
def test_an_interval_that_cannot_be_is_refused_before_anything_is_sent(
    clients, queue_name, interval
):
    with pytest.raises(ArgumentError, match="throttle_interval_ms is "):
        clients.operations.enable_notify_insert(queue_name, throttle_interval_ms=interval)
    with pytest.raises(ArgumentError, match="throttle_interval_ms is "):
        clients.operations.update_notify_insert(queue_name, throttle_interval_ms=interval)
