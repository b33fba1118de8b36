"""Methods to browse, retain and replay, sync and async, on a pool and a connection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgsluice import (
    Export,
    Replay,
    Replayed,
    ReplayStep,
    StoredMessage,
)
from pgsluice.errors import ArgumentError, PayloadError, QueueNotFoundError
from support import rows

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def filled(clients, queue_name):
    """A queue: 1 to 3 archived, 4 dead-lettered, 5 in flight, 6 delayed, 7 visible."""
    clients.queue.send_batch(
        queue_name,
        [{"n": n, "odd": n % 2 == 1} for n in range(1, 8)],
        headers=[{"h": n} for n in range(1, 8)],
    )
    clients.queue.archive_batch(queue_name, [1, 2, 3])
    clients.queue.read(queue_name, 600, 2)
    clients.queue.reject(queue_name, 4, 1, "bad", "trace")
    clients.queue.set_vt(queue_name, 6, 600)
    return queue_name


def ids(messages):
    return [message.msg_id for message in messages]


def test_a_look_claims_nothing(clients, filled):
    seen = clients.queue.browse(filled, qty=9)

    assert all(type(message) is StoredMessage for message in seen)
    assert [(m.msg_id, m.read_ct, m.state) for m in seen] == [
        (5, 1, "in flight"),
        (6, 0, "delayed"),
        (7, 0, "visible"),
    ]
    assert (seen[2].message, seen[2].headers) == ({"n": 7, "odd": True}, {"h": 7})
    assert ids(clients.queue.browse(filled, qty=1)) == [5]
    assert ids(clients.queue.browse(filled, after_msg_id=6)) == [7]
    assert ids(clients.queue.read(filled, 60, 9)) == [7]


def test_a_message_is_found_by_its_id_wherever_it_is(clients, filled):
    found = clients.queue.get_messages(filled, (1, 4, 5, 99))

    assert [(m.msg_id, m.state) for m in found] == [(1, "archived"), (4, "dead"), (5, "in flight")]
    assert (found[0].archived_at is None, found[1].vt) == (False, None)


def test_pages_follow_each_other_and_a_filter_keeps_what_it_matches(clients, filled):
    browse, count = clients.queue.browse, clients.queue.count_messages

    assert ids(browse(filled)) == [5, 6, 7]
    assert ids(browse(filled, "archive", qty=2)) == [1, 2]
    assert ids(browse(filled, "archive", qty=2, after_msg_id=2)) == [3]
    for condition, wanted in (
        ({}, [1, 2, 3]),
        ({"conditional": {"odd": True}}, [1, 3]),
        ({"conditional_headers": {"h": 2}}, [2]),
        ({"since": NOW - HOUR, "until": NOW + HOUR}, [1, 2, 3]),
        ({"since": NOW + HOUR}, []),
    ):
        assert ids(browse(filled, "archive", **condition)) == wanted
        assert count(filled, "archive", **condition) == len(wanted)
    assert count(filled) == 3


def test_archived_messages_are_sent_again(clients, filled):
    other = f"{filled}_other"
    clients.queue.create(other)

    assert clients.archive.replay(filled, [3, 1, 99]) == [Replayed(1, 8), Replayed(3, 9)]
    assert clients.archive.replay(filled, [2], target_queue_name=other) == [Replayed(2, 1)]

    (message,) = clients.queue.pop(other)
    assert (message.message, message.headers["h"]) == ({"n": 2, "odd": False}, 2)
    origin = message.headers["x-pgmq-replayed-from"]
    assert (origin["queue"], origin["msg_id"]) == (filled, 2)
    assert clients.queue.count_messages(filled, "archive") == 3


def test_a_replay_is_begun_continued_and_listed(clients, filled):
    other = f"{filled}_other"
    clients.queue.create(other)
    replay_id = clients.archive.start_replay(
        filled,
        target_queue_name=other,
        conditional={"odd": True},
        since=NOW - HOUR,
        until=NOW - timedelta(minutes=30),
    )
    assert clients.archive.continue_replay(replay_id) == ReplayStep(0, 0, True)

    replay_id = clients.archive.start_replay(
        filled, target_queue_name=other, conditional={"odd": True}
    )
    assert clients.archive.continue_replay(replay_id, qty=1) == ReplayStep(1, 1, False)
    (listed,) = [r for r in clients.archive.list_replays() if r.replay_id == replay_id]
    assert type(listed) is Replay
    assert (listed.queue_name, listed.target_queue_name) == (filled, other)
    assert (listed.conditional, listed.replayed, listed.finished_at) == ({"odd": True}, 1, None)
    assert clients.archive.continue_replay(replay_id) == ReplayStep(1, 2, True)
    assert [m.message["n"] for m in clients.queue.pop(other, 9)] == [1, 3]


def test_a_queue_that_does_not_exist_is_named(clients, queue_name):
    for call in (
        lambda: clients.queue.get_messages("nope", [1]),
        lambda: clients.queue.browse("nope", "archive"),
        lambda: clients.queue.count_messages("nope"),
        lambda: clients.archive.replay("nope", [1]),
        lambda: clients.archive.replay(queue_name, [1], target_queue_name="nope"),
        lambda: clients.archive.start_replay(queue_name, target_queue_name="nope"),
    ):
        with pytest.raises(QueueNotFoundError, match="queue 'nope' does not exist; create it"):
            call()
    with pytest.raises(ArgumentError, match=r"replay 0 does not exist; list the replays"):
        clients.archive.continue_replay(0)


def test_invalid_arguments_are_refused_before_the_call(clients, queue_name):
    for error, call in (
        (ArgumentError, lambda: clients.queue.browse(queue_name, qty=2**31)),
        (ArgumentError, lambda: clients.queue.browse(queue_name, "dead")),
        (ArgumentError, lambda: clients.queue.browse(queue_name, after_msg_id="1")),
        (ArgumentError, lambda: clients.queue.browse(queue_name, since=NOW.replace(tzinfo=None))),
        (PayloadError, lambda: clients.queue.browse(queue_name, conditional={"a": float("nan")})),
        (ArgumentError, lambda: clients.queue.get_messages(queue_name, [1.5])),
        (ArgumentError, lambda: clients.archive.replay(queue_name, [2**63])),
        (ArgumentError, lambda: clients.archive.continue_replay(1, qty=True)),
    ):
        with pytest.raises(error):
            call()


def test_in_the_callers_transaction_nothing_is_sent_again_before_it_commits(
    caller, queue_name, observer
):
    observer.execute("select pgmq.send(%s, '1'::jsonb)", [queue_name])
    observer.execute("select pgmq.archive(%s, 1)", [queue_name])
    caller.archive.replay(queue_name, [1])
    caller.archive.continue_replay(caller.archive.start_replay(queue_name))

    assert rows(observer, f"select msg_id from pgmq.q_{queue_name}") == []
    caller.source.commit()
    assert rows(observer, f"select msg_id from pgmq.q_{queue_name} order by 1") == [(2,), (3,)]


def test_exports_are_listed_and_dropped(observer, clients, filled):
    observer.execute("select sluice.create_export(%s, 'lake', '/lake', 'id')", [filled])

    (export,) = (e for e in clients.archive.list_exports() if e.queue_name == filled)

    assert type(export) is Export
    assert (export.export_name, export.lake, export.verified_at, export.kept) == (
        "lake",
        "/lake",
        None,
        0,
    )
    assert clients.archive.drop_export(filled, "lake")
    assert not clients.archive.drop_export(filled, "lake")
