"""Methods that explain, sync and async, on a pool and a connection."""

from __future__ import annotations

import pytest

from pgsluice import ExplainedFact
from pgsluice.errors import (
    ArgumentError,
    ConsumerNotFoundError,
    QueueNotFoundError,
    ScheduleNotFoundError,
)


def test_message_and_queue_are_explained_as_records(clients, queue_name):
    msg_id = clients.queue.send(queue_name, 1, delay=600)

    facts = clients.operations.explain_message(queue_name, msg_id)

    assert all(type(fact) is ExplainedFact for fact in facts)
    assert facts[0].detail["state"] == "delayed"
    assert [fact.cause for fact in facts if fact.section == "reason"] == ["delay"]
    assert facts[-1].at is not None
    (state, *_) = clients.operations.explain_queue(queue_name)
    assert state.fact == (
        f"Queue {queue_name} has 1 message: 0 visible, 0 in flight, 0 waiting for a retry or the delay of a release, 1 delayed"
    )


def test_invalid_id_and_missing_queue_are_named(clients, queue_name):
    with pytest.raises(ArgumentError, match="msg_id is 'x'"):
        clients.operations.explain_message(queue_name, "x")
    for call in (
        lambda: clients.operations.explain_message("missing", 1),
        lambda: clients.operations.explain_queue("missing"),
    ):
        with pytest.raises(QueueNotFoundError, match="missing"):
            call()


def test_log_event_consumer_group_and_keys_are_explained(clients, queue_name, log_name):
    log = clients.log
    log.register_consumer(log_name, "c")
    shared = clients.share_group(log_name, "g")
    shared.create(start="earliest")
    log.insert_event(log_name, "t", "d")

    assert log.explain_log(log_name)[0].detail["newest_ev_id"] == 1
    assert log.explain_event(log_name, 1)[0].detail["state"] == "before a tick"
    assert log.explain_event(log_name, 2)[0].detail["state"] == "unknown"
    assert log.explain_consumer(log_name, "c")[0].detail["state"] == "idle"
    assert shared.explain()[0].detail["lag_events"] == 1
    assert shared.explain_key("k")[0].detail["state"] == "unordered"
    assert clients.operations.explain_key(queue_name, "k")[0].detail["state"] == "unordered"
    with pytest.raises(ConsumerNotFoundError, match="has no consumer 'x'"):
        log.explain_consumer(log_name, "x")


def test_schedule_is_explained(clients, queue_name):
    clients.schedules.schedule(queue_name, queue_name, {}, every_s=3600)

    assert clients.schedules.explain_schedule(queue_name)[0].detail["state"] == "waiting"
    with pytest.raises(ScheduleNotFoundError, match="'missing' does not exist"):
        clients.schedules.explain_schedule("missing")
