"""Methods for limits, priorities and keys of queues, sync and async, on a pool and a connection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgsluice import BlockedMessages, LimitUsage, Message
from pgsluice.client.calls import limits
from pgsluice.errors import QueueNotFoundError


def ids(messages):
    return [message.msg_id for message in messages]


def test_limits_are_kept_their_usage_is_listed_and_they_are_reset(clients, queue_name):
    queue = clients.queue
    queue.send_batch(queue_name, [1, 2, 3, 4])
    queue.set_queue_options(
        queue_name, fleet_concurrency=2, rate=3, rate_interval=timedelta(seconds=90)
    )

    claimed = clients.call(limits.claim_messages(queue_name, 60, 9, worker="w1"))

    assert ids(claimed) == [1, 2]
    assert all(type(message) is Message for message in claimed)
    usage = clients.operations.list_limit_usage()
    assert [one for one in usage if one.queue_name == queue_name] == [LimitUsage(queue_name, 2, 2)]
    next_capacity = clients.call(limits.next_capacity(queue_name))
    assert next_capacity is not None
    assert next_capacity - datetime.now(UTC) < timedelta(seconds=5)
    queue.set_queue_options(queue_name, fleet_concurrency=None, rate=None)
    usage = clients.operations.list_limit_usage()
    assert [one for one in usage if one.queue_name == queue_name] == []
    assert clients.call(limits.next_capacity(queue_name)) is None
    assert ids(clients.call(limits.claim_messages(queue_name, 60, 9))) == [3, 4]


def test_priorities_are_the_order_of_what_is_returned(clients, queue_name):
    queue = clients.queue
    queue.set_queue_options(queue_name, priority_weights=[16, 4, 1])
    for level in (3, 1, 2):
        queue.send(queue_name, level, headers={"x-pgmq-priority": level})

    assert [
        message.message for message in clients.call(limits.claim_messages(queue_name, 60, 9))
    ] == [1, 2, 3]


def test_a_key_is_parked_listed_and_unparked(clients, queue_name):
    queue = clients.queue
    queue.set_queue_options(queue_name, when_waiting="park")
    queue.send_batch(queue_name, [1, 2], headers=[{"x-pgmq-group": "k"}] * 2)
    (first,) = clients.call(limits.claim_messages(queue_name, 60, 9))
    queue.release(queue_name, first.msg_id, first.read_ct, delay=600)

    assert clients.call(limits.claim_messages(queue_name, 60, 9)) == []

    (blocked,) = clients.operations.list_blocked_messages(queue_name)
    assert type(blocked) is BlockedMessages
    assert (blocked.key, blocked.reason, blocked.msg_id, blocked.waiting) == ("k", "parked", 1, 1)
    assert clients.operations.unpark_messages(queue_name, "k") is True
    assert clients.operations.unpark_messages(queue_name, "k") is False
    assert ids(clients.call(limits.claim_messages(queue_name, 60, 9))) == [1]


def test_a_queue_that_does_not_exist_is_named(clients):
    for call in (
        lambda: clients.operations.list_blocked_messages("missing"),
        lambda: clients.operations.unpark_messages("missing", "k"),
        lambda: clients.call(limits.claim_messages("missing", 1)),
    ):
        with pytest.raises(QueueNotFoundError, match="missing"):
            call()
