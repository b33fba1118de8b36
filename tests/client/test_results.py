"""Kept results by the clients, sync and async."""

from __future__ import annotations

import pytest

from pgsluice.errors import QueueNotFoundError
from support import value


def test_get_result_returns_the_state_and_the_result(clients, queue_name, observer):
    msg_id = clients.queue.send(queue_name, 1)
    waiting = clients.operations.get_result(queue_name, msg_id)
    assert (waiting.state, waiting.expires_at, waiting.is_final) == ("waiting", None, False)

    clients.queue.read(queue_name, 30)
    finish = "select outcome from sluice.finish(%s, %s, '{1}', '[[1]]', '1 hour')"
    assert value(observer, finish, queue_name, [msg_id]) == "done"

    done = clients.operations.get_result(queue_name, msg_id)
    assert (done.state, done.result, done.is_final) == ("done", [1], True)
    assert done.expires_at is not None


def test_get_result_of_a_queue_that_does_not_exist_names_it(clients):
    with pytest.raises(QueueNotFoundError, match="nothing"):
        clients.operations.get_result("nothing", 1)
