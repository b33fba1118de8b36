"""Methods that pause queues, sync and async, on a pool and a connection."""

from __future__ import annotations

import pytest

from pgsluice import PausedQueue
from pgsluice.errors import QueueNotFoundError


def test_a_queue_is_paused_listed_and_resumed(clients, queue_name):
    queue = clients.queue
    queue.send(queue_name, 1)

    assert queue.pause_queue(queue_name, reason="bank is down") is True
    assert queue.pause_queue(queue_name) is False

    assert queue.claim_messages(queue_name) == []
    (paused,) = [one for one in queue.list_paused_queues() if one.queue_name == queue_name]
    assert type(paused) is PausedQueue
    assert paused.reason == "bank is down"
    assert paused.paused_by.startswith("role ")
    assert queue.resume_queue(queue_name) is True
    assert queue.resume_queue(queue_name) is False
    assert len(queue.claim_messages(queue_name)) == 1


def test_a_queue_that_does_not_exist_is_named(clients):
    for call in (
        lambda: clients.queue.pause_queue("missing"),
        lambda: clients.queue.resume_queue("missing"),
    ):
        with pytest.raises(QueueNotFoundError, match="missing"):
            call()
