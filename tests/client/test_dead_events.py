"""Dead events: methods of the share group, sync and async, on a pool and on a connection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgsluice import DeadEvent, NewEvent
from pgsluice.errors import (
    ArgumentError,
    GroupNotFoundError,
    LogStateError,
    QueueNotFoundError,
)


@pytest.fixture
def group(clients, log_name):
    """A group with four dead events, alternately of type a and b."""
    group = clients.share_group(log_name, "g")
    group.create()
    clients.log.insert_many(
        log_name, [NewEvent(kind, str(n)) for n, kind in enumerate("abab", start=1)]
    )
    (claim_id,) = {event.claim_id for event in group.claim(4)}
    assert group.reject(claim_id, reason="bad", error="trace") == 4
    return group


def ids(events):
    return [event.dead_event_id for event in events]


def test_they_are_browsed_by_pages_with_all_fields(group, log_name):
    first, second = group.browse_dead_events(qty=2)

    assert isinstance(first, DeadEvent)
    assert (first.queue_name, first.group_name) == (log_name, "g")
    assert (first.ev_id, first.ev_type, first.ev_data) == (1, "a", "1")
    assert (first.reason, first.error) == ("bad", "trace")
    assert (first.redriven, first.attempts, first.deliveries) == (0, 1, 1)
    assert isinstance(first.ev_txid, int)
    behind = group.browse_dead_events(after_dead_event_id=second.dead_event_id)
    assert [event.ev_id for event in behind] == [3, 4]
    listed = group.list_dead_event_ids(after_dead_event_id=first.dead_event_id, qty=2)
    assert listed == [second.dead_event_id, behind[0].dead_event_id]
    assert group.list_dead_event_ids(until=first.dead_at) == []


@pytest.mark.parametrize(
    ("matching", "wanted"),
    [
        ({}, [1, 2, 3, 4]),
        ({"ev_type": "b"}, [2, 4]),
        ({"reason": "other"}, []),
        ({"ev_ids": [3, 99]}, [3]),
        ({"since": datetime.now(UTC) + timedelta(days=1)}, []),
        ({"until": datetime.now(UTC) + timedelta(days=1)}, [1, 2, 3, 4]),
    ],
)
def test_filter_selects_dead_events_to_browse_count_and_redrive(group, matching, wanted):
    assert [event.ev_id for event in group.browse_dead_events(**matching)] == wanted
    assert group.count_dead_events(**matching) == len(wanted)
    assert len(group.redrive_events_matching(**matching)) == len(wanted)
    assert [event.ev_data for event in group.claim(10)] == [str(n) for n in wanted]


def test_redriven_events_are_redelivered_with_their_origin(group):
    dead = ids(group.browse_dead_events())

    redriven = group.redrive_events([dead[2], dead[0]])

    assert [(r.dead_event_id, r.msg_id) for r in redriven] == [(dead[0], None), (dead[2], None)]
    claimed = group.claim(10)
    assert [event.ev_id for event in claimed] == [r.ev_id for r in redriven]
    assert [(event.ev_data, event.redriven, event.attempt) for event in claimed] == [
        ("1", 1, 1), ("3", 1, 1),
    ]  # fmt: skip


def test_steps_go_on_behind_the_last(group):
    first = group.redrive_events_matching(qty=3)
    rest = group.redrive_events_matching(after_dead_event_id=first[-1].dead_event_id)

    assert (len(first), len(rest)) == (3, 1)


def test_they_go_into_a_work_queue(clients, group, queue_name):
    (redriven,) = group.redrive_events(ids(group.browse_dead_events(qty=1)), target_queue_name=queue_name)  # fmt: skip

    (message,) = clients.queue.read(queue_name, 30)
    assert (redriven.ev_id, redriven.msg_id) == (None, message.msg_id)
    assert message.message["ev_data"] == "1"
    assert message.headers["x-pgmq-replayed-from"]["redriven"] == 1


def test_dead_events_of_a_dropped_group_stay(clients, group, log_name, observer):
    dead = ids(group.browse_dead_events())
    with pytest.raises(QueueNotFoundError):
        group.redrive_events(dead, target_queue_name="missing")
    observer.execute(
        "update pgq.queue set queue_disable_insert = true where queue_name = %s", [log_name]
    )
    with pytest.raises(LogStateError):
        group.redrive_events(dead)
    group.drop()
    with pytest.raises(GroupNotFoundError):
        group.redrive_events_matching()

    assert group.count_dead_events() == 4


def test_they_are_purged_by_age_or_by_id(group):
    dead = ids(group.browse_dead_events())

    assert group.purge_dead_events(dead_event_ids=dead[:1]) == 1
    assert group.purge_dead_events(older_than=timedelta(hours=1)) == 0
    assert group.purge_dead_events(older_than=timedelta(), qty=2) == 2
    assert ids(group.browse_dead_events()) == dead[3:]
    with pytest.raises(ArgumentError, match="which dead events"):
        group.purge_dead_events()


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("browse_dead_events", {"qty": 0}),
        ("browse_dead_events", {"after_dead_event_id": "1"}),
        ("browse_dead_events", {"ev_ids": [True]}),
        ("count_dead_events", {"since": datetime(2100, 1, 1)}),  # noqa: DTZ001
        ("redrive_events", {"dead_event_ids": [2**63]}),
        ("redrive_events_matching", {"qty": 2**31}),
        ("purge_dead_events", {"older_than": timedelta(), "qty": 0}),
    ],
)
def test_sound_arguments_are_asked_for(group, method, arguments):
    with pytest.raises(ArgumentError):
        getattr(group, method)(**arguments)
