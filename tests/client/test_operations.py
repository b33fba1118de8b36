"""Methods that pause queues and list workers, sync and async, on a pool and a connection."""

from __future__ import annotations

import pytest

from pgsluice import OperatorAction, PurgedMessages, QueueExtent, WorkerProcess
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import limits
from pgsluice.client.calls.operations import WorkerIdentity, end_worker, report_worker
from pgsluice.errors import ArgumentError, QueueNotFoundError


def test_a_queue_is_paused_listed_and_resumed(clients, queue_name):
    queue = clients.queue
    queue.send(queue_name, 1)

    pause = {"paused": True, "pause_reason": "bank is down"}
    assert queue.set_queue_options(queue_name, **pause) == "changed"
    assert queue.set_queue_options(queue_name, paused=True) == "unchanged"

    assert clients.call(limits.claim_messages(queue_name)) == []
    (paused,) = [one for one in queue.list_queue_options() if one.queue_name == queue_name]
    assert paused.paused_at is not None
    assert paused.pause_reason == "bank is down"
    assert paused.paused_by.startswith("role ")
    assert queue.set_queue_options(queue_name, paused=False) == "changed"
    assert queue.set_queue_options(queue_name, paused=False) == "unchanged"
    assert len(clients.call(limits.claim_messages(queue_name))) == 1


def test_a_worker_is_reported_listed_and_ended(clients, observer, queue_name):
    worker = WorkerIdentity(queue_name, "shop", "host", 7, "1.0", ["queue a", "queue b"], None)
    call = {"handler": "pack", "queue": "a", "msg_id": 1, "running_s": 1.5}
    Runner(observer).run(
        report_worker(worker, 60.0, [call], {"pack": {"done": 1}}, observer.info.backend_pid)
    )

    (listed,) = [one for one in clients.operations.list_workers() if one.worker_id == queue_name]

    assert type(listed) is WorkerProcess
    assert (listed.sources, listed.concurrency) == (["queue a", "queue b"], None)
    assert (listed.is_live, listed.has_session) == (True, True)
    assert listed.counts == {"pack": {"done": 1}}
    assert listed.running[0]["msg_id"] == 1
    assert (listed.reported_at - listed.started_at).total_seconds() == 60
    Runner(observer).run(end_worker(queue_name))
    assert all(one.worker_id != queue_name for one in clients.operations.list_workers())


def test_option_that_is_reset_is_recorded(clients, queue_name):
    clients.queue.set_queue_options(queue_name, max_attempts=3, rate=5)
    clients.queue.set_queue_options(queue_name, max_attempts=4, rate=None)

    newest, oldest = clients.operations.list_actions(queue_name)

    assert oldest.filter == {"max_attempts": 3, "rate": 5}
    assert newest.filter == {"max_attempts": 4, "rate": None}


def test_actions_of_a_queue_are_listed_page_by_page(clients, queue_name):
    queue = clients.queue
    queue.set_queue_options(queue_name, paused=True, pause_reason="bank is down")
    queue.set_queue_options(queue_name, paused=False)

    newest, oldest = clients.operations.list_actions(queue_name)

    assert type(newest) is OperatorAction
    assert (newest.action, newest.filter, newest.note) == (
        "set_queue_options", {"paused": False}, None,
    )  # fmt: skip
    assert (oldest.action, oldest.filter, oldest.note) == (
        "set_queue_options", {"paused": True}, "bank is down",
    )  # fmt: skip
    assert clients.operations.list_actions(queue_name, before_action_id=newest.action_id) == [
        oldest
    ]
    assert clients.operations.list_actions(queue_name, qty=1) == [newest]
    with pytest.raises(ArgumentError, match="qty is 0"):
        clients.operations.list_actions(qty=0)


def test_action_of_another_tool_is_recorded(clients, queue_name):
    clients.operations.note_action(
        "send", queue_name=queue_name, of_filter={"msg_id": 7}, message_count=1, note="by hand"
    )

    (action,) = clients.operations.list_actions(queue_name)
    assert (action.action, action.filter, action.message_count, action.note) == (
        *("send", {"msg_id": 7}, 1, "by hand"),
    )


def test_messages_are_purged_up_to_a_msg_id(clients, queue_name):
    queue = clients.queue
    queue.send_batch(queue_name, [1, 2, 3])

    extent = clients.operations.queue_extent(queue_name)
    assert extent == QueueExtent(3, 3)
    queue.send(queue_name, 4)
    assert clients.operations.queue_extent(queue_name, upto_msg_id=3) == extent
    assert clients.operations.purge_messages(queue_name, 3, qty=2) == PurgedMessages(2, 2)
    assert clients.operations.purge_messages(queue_name, 3, after_msg_id=2) == PurgedMessages(1, 3)
    assert clients.operations.purge_messages(queue_name, 3, after_msg_id=3) == PurgedMessages(
        0, None
    )
    assert [each.message for each in queue.browse(queue_name)] == [4]
    with pytest.raises(ArgumentError, match="upto_msg_id"):
        clients.operations.purge_messages(queue_name, 2**63)
    with pytest.raises(QueueNotFoundError, match="missing"):
        clients.operations.queue_extent("missing")
