"""Methods for limits, priorities and keys of queues, sync and async, on a pool and a connection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgsluice import BlockedMessages, Message, QueueLimits
from pgsluice.client.calls import limits
from pgsluice.errors import ArgumentError, QueueNotFoundError


def ids(messages):
    return [message.msg_id for message in messages]


def test_limits_are_set_listed_kept_and_dropped(clients, queue_name):
    queue = clients.queue
    queue.send_batch(queue_name, [1, 2, 3, 4])
    queue.set_queue_limits(queue_name, fleet_concurrency=2, rate=3, rate_s=90)

    claimed = queue.claim_messages(queue_name, 60, 9, worker="w1")

    assert ids(claimed) == [1, 2]
    assert all(type(message) is Message for message in claimed)
    (listed,) = [one for one in queue.list_queue_limits() if one.queue_name == queue_name]
    assert listed == QueueLimits(queue_name, 2, None, 3, 90.0, None, None, 2, 2, None)
    next_capacity = clients.call(limits.next_capacity(queue_name))
    assert next_capacity is not None
    assert next_capacity - datetime.now(UTC) < timedelta(seconds=5)
    assert queue.drop_queue_limits(queue_name) is True
    assert queue.drop_queue_limits(queue_name) is False
    assert clients.call(limits.next_capacity(queue_name)) is None
    assert ids(queue.claim_messages(queue_name, 60, 9)) == [3, 4]


def test_priorities_are_the_order_of_what_is_returned(clients, queue_name):
    queue = clients.queue
    queue.set_queue_limits(queue_name, priority_weights=[16, 4, 1])
    for level in (3, 1, 2):
        queue.send(queue_name, level, headers={"x-pgmq-priority": level})

    assert [message.message for message in queue.claim_messages(queue_name, 60, 9)] == [1, 2, 3]


def test_a_key_is_parked_listed_and_unparked(clients, queue_name):
    queue = clients.queue
    queue.set_queue_limits(queue_name, when_waiting="park")
    queue.send_batch(queue_name, [1, 2], headers=[{"x-pgmq-group": "k"}] * 2)
    (first,) = queue.claim_messages(queue_name, 60, 9)
    queue.release(queue_name, first.msg_id, first.read_ct, delay=600)

    assert queue.claim_messages(queue_name, 60, 9) == []

    (blocked,) = queue.list_blocked_messages(queue_name)
    assert type(blocked) is BlockedMessages
    assert (blocked.key, blocked.reason, blocked.msg_id, blocked.waiting) == ("k", "parked", 1, 1)
    assert queue.unpark_messages(queue_name, "k") is True
    assert queue.unpark_messages(queue_name, "k") is False
    assert ids(queue.claim_messages(queue_name, 60, 9)) == [1]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"fleet_concurrency": 0}, "fleet_concurrency is 0; use 1 to"),
        ({"key_concurrency": "2"}, "key_concurrency is '2'; use a whole number"),
        ({"rate": -1}, "rate is -1; use 1 to"),
        ({"rate": 1, "rate_s": 0}, "rate_s is 0; use more than 0 seconds"),
        ({"when_waiting": "wait"}, "when_waiting is 'wait'; use block, skip or park, or None"),
        ({"priority_weights": [1, 0.5]}, "a priority weight is 0.5; use a whole number"),
    ],
)
def test_argument_out_of_range_is_named_before_the_call(clients, queue_name, limits, message):
    with pytest.raises(ArgumentError, match=message):
        clients.queue.set_queue_limits(queue_name, **limits)


def test_a_queue_that_does_not_exist_is_named(clients):
    for call in (
        lambda: clients.queue.set_queue_limits("missing", rate=1),
        lambda: clients.queue.drop_queue_limits("missing"),
        lambda: clients.queue.list_blocked_messages("missing"),
        lambda: clients.queue.unpark_messages("missing", "k"),
        lambda: clients.queue.claim_messages("missing", 1),
    ):
        with pytest.raises(QueueNotFoundError, match="missing"):
            call()
