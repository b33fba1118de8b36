"""Outcomes of current claims: delete, archive, extend, release, reject; claims of streams."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pgsluice import ClaimOutcome, FailedMessage, QueueStream, WorkQueue
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import claims, limits, retries
from pgsluice.errors import ArgumentError, QueueNotFoundError, ServerError
from support import rows

METHODS = {
    "delete_claimed": {},
    "archive_claimed": {},
    "extend_claimed": {"vt": 60},
    "release_claimed": {"delay": 60},
}


@pytest.mark.parametrize(("method", "options"), METHODS.items(), ids=METHODS)
def test_each_claim_has_its_outcome_in_the_order_of_the_messages(
    clients, queue_name, method, options
):
    clients.queue.send_batch(queue_name, list("abc"))
    messages = clients.queue.read(queue_name, 60, 3)
    clients.queue.set_vt(queue_name, 2, 0)
    clients.queue.read(queue_name, 60)
    clients.queue.delete(queue_name, 1)

    outcomes = getattr(clients.queue, method)(queue_name, messages[::-1], **options)

    assert outcomes == [
        ClaimOutcome(3, "done"),
        ClaimOutcome(2, "stale"),
        ClaimOutcome(1, "gone"),
    ]


@pytest.mark.parametrize(("method", "options"), METHODS.items(), ids=METHODS)
def test_no_messages_are_no_error_and_a_missing_queue_is_named(
    clients, queue_name, method, options
):
    assert getattr(clients.queue, method)(queue_name, [], **options) == []
    with pytest.raises(QueueNotFoundError, match="'nope' does not exist"):
        getattr(clients.queue, method)("nope", [], **options)


def test_claimed_messages_are_deleted_archived_hidden_or_released(clients, queue_name, observer):
    clients.queue.send_batch(queue_name, list("abcd"))
    deleted, archived, kept, given_back = clients.queue.read(queue_name, 5, 4)

    clients.queue.delete_claimed(queue_name, [deleted])
    clients.queue.archive_claimed(queue_name, [archived])
    clients.queue.extend_claimed(queue_name, [kept], 600)
    clients.queue.release_claimed(queue_name, [given_back])

    assert rows(observer, f"select msg_id from pgmq.a_{queue_name}") == [(2,)]
    left = f"select msg_id, vt > now() + interval '500 s' from pgmq.q_{queue_name} order by 1"
    assert rows(observer, left) == [(3, True), (4, False)]
    assert [m.msg_id for m in clients.queue.read(queue_name, 5, 4)] == [4]


# Only the worker calls them.
OF_WORKERS = {
    "begin_attempts": retries.begin_attempts,
    "release_unstarted": claims.release_unstarted,
}
# Each method that takes messages as returned by a read, and the outcome of one that is not in the queue.
OF_MESSAGES = {
    **{name: (options, "gone") for name, options in METHODS.items()},
    "lock_messages": ({}, "gone"),
    "release_unstarted": ({}, "gone"),
    "begin_attempts": ({"max_attempts": 1}, "lost"),
    "fail": ({}, "gone"),
}


def created_again(clients, queue_name, qty):
    """Return messages of a queue that was dropped; another reader has claimed those of its successor."""
    claimed = []
    for vt in (60, 600):
        clients.queue.drop_queue(queue_name)
        clients.queue.create(queue_name)
        clients.queue.send_batch(queue_name, [str(number) for number in range(qty)])
        claimed.append(clients.queue.read(queue_name, vt, qty))
    old, new = claimed
    assert [(m.msg_id, m.read_ct) for m in new] == [(m.msg_id, m.read_ct) for m in old]
    return old, new


@pytest.mark.parametrize("method", OF_MESSAGES)
def test_messages_of_a_dropped_queue_do_not_settle_those_of_its_successor(
    clients, queue_name, observer, method
):
    options, missing = OF_MESSAGES[method]

    def settle(*args, **options):
        if method in OF_WORKERS:
            return clients.call(OF_WORKERS[method](*args, **options))
        return getattr(clients.queue, method)(*args, **options)

    for qty in (1, 3):
        old, new = created_again(clients, queue_name, qty)
        queued = f"select msg_id, read_ct, vt, message from pgmq.q_{queue_name} order by 1"
        before = rows(observer, queued)
        if method == "fail":
            old, new = [[FailedMessage(message) for message in each] for each in (old, new)]

        assert [each.outcome for each in settle(queue_name, old, **options)] == [missing] * qty
        assert rows(observer, queued) == before

        mixed = [old[0], *new]
        outcomes = [each.outcome for each in settle(queue_name, mixed, **options)]
        assert (outcomes[0], missing in outcomes[1:]) == (missing, False)


def test_a_message_of_a_dropped_queue_is_not_released_or_rejected_in_its_successor(
    clients, queue_name, observer
):
    (old,), (new,) = created_again(clients, queue_name, 1)
    queue, claim = clients.queue, (queue_name, old.msg_id, old.read_ct)
    before = rows(observer, f"select * from pgmq.q_{queue_name}")

    assert queue.release(*claim, enqueued_at=old.enqueued_at) is False
    assert queue.reject(*claim, "bad", enqueued_at=old.enqueued_at) is False
    assert rows(observer, f"select * from pgmq.q_{queue_name}") == before
    assert queue.release(*claim, enqueued_at=new.enqueued_at) is True
    assert queue.reject(*claim, "bad", enqueued_at=new.enqueued_at) is True


def test_a_claim_is_current_in_any_time_zone_and_form_of_its_time(observer, queue_name):
    queue = WorkQueue(observer)
    observer.execute("set timezone to 'Asia/Kathmandu'")
    queue.send_batch(queue_name, list("abcdef"))
    messages = queue.read(queue_name, 60, 6)
    assert {message.enqueued_at.utcoffset() for message in messages} == {
        timedelta(hours=5, minutes=45)
    }
    zones = [UTC, timezone(timedelta(hours=-3, minutes=-30)), timezone(timedelta(seconds=4))]
    sent = messages[0].enqueued_at
    times = [sent, *(sent.astimezone(zone) for zone in zones), sent.replace(tzinfo=None), None]
    given = [replace(m, enqueued_at=t) for m, t in zip(messages, times, strict=True)]

    extended = queue.extend_claimed(queue_name, given, 60)
    singly = [queue.delete_claimed(queue_name, [message]) for message in given]

    assert extended == [ClaimOutcome(msg_id, "done") for msg_id in range(1, 7)]
    assert singly == [[outcome] for outcome in extended]


@pytest.mark.parametrize("qty", [1, 2])
def test_a_message_with_another_time_is_gone(clients, queue_name, qty):
    clients.queue.send_batch(queue_name, list("ab"))
    messages = clients.queue.read(queue_name, 60, qty)
    times = [time.replace(tzinfo=UTC) for time in (datetime.max, datetime.min)]  # noqa: DTZ901
    times.append(messages[0].enqueued_at)
    times[2] += timedelta(microseconds=1)

    for method, options in METHODS.items():
        for time in times:
            others = [replace(message, enqueued_at=time) for message in messages]
            outcomes = getattr(clients.queue, method)(queue_name, others, **options)
            assert [each.outcome for each in outcomes] == ["gone"] * qty, (method, time)


def test_times_out_of_range_are_refused_before_anything_is_sent(clients, queue_name):
    for call in (
        lambda: clients.queue.extend_claimed(queue_name, [], -1),
        lambda: clients.queue.release_claimed(queue_name, [], delay=2**31),
    ):
        with pytest.raises(ArgumentError):
            call()


def test_a_claim_can_be_rejected_while_it_is_current(clients, queue_name, observer):
    clients.queue.send_batch(queue_name, ["bad", "good"], headers=[{"h": 1}, None])
    first, second = clients.queue.read(queue_name, 60, 2)

    assert clients.queue.reject(queue_name, first.msg_id, first.read_ct, "broken", "trace") is True
    assert clients.queue.reject(queue_name, first.msg_id, first.read_ct, "broken") is False
    stale = second.read_ct - 1
    assert clients.queue.reject(queue_name, second.msg_id, stale, "broken") is False

    dead = rows(
        observer,
        "select msg_id, read_ct, message, headers, reason, error from sluice.dead_letter where queue_name = %s",
        queue_name,
    )
    assert dead == [(1, 1, "bad", {"h": 1}, "broken", "trace")]
    assert rows(observer, f"select msg_id from pgmq.q_{queue_name}") == [(2,)]


def test_current_claim_can_be_released(clients, queue_name):
    clients.queue.send(queue_name, "x")
    (claim,) = clients.queue.read(queue_name, 60)

    assert clients.queue.release(queue_name, claim.msg_id, claim.read_ct - 1) is False
    assert clients.queue.read(queue_name, 60) == []
    assert clients.queue.release(queue_name, claim.msg_id, claim.read_ct) is True
    (again,) = clients.queue.read(queue_name, 60)
    assert again.read_ct == 2
    assert clients.queue.release(queue_name, again.msg_id, again.read_ct, delay=60) is True
    assert clients.queue.read(queue_name, 60) == []


def test_stream_is_listed_and_its_claims_are_released(observer, clients, queue_name):
    clients.queue.send(queue_name, "x")
    start = "select stream_id from sluice.queue_stream_start(%s, %s)"
    ((stream,),) = rows(observer, start, queue_name, queue_name)
    observer.execute("select sluice.queue_stream_claim(%s, 0, 9)", [stream])

    (shown,) = (s for s in clients.operations.list_queue_streams() if s.queue_name == queue_name)

    assert type(shown) is QueueStream
    assert (shown.stream_name, shown.settled_seq, shown.claimed_messages) == (queue_name, 0, 1)
    assert clients.queue.read(queue_name, 60) == []
    assert clients.operations.queue_stream_drop(queue_name) == 1
    assert clients.operations.queue_stream_drop(queue_name) is None
    assert [message.message for message in clients.queue.read(queue_name, 60)] == ["x"]


@pytest.mark.parametrize(
    ("method", "arguments"), [("reject", [1, 1, "reason"]), ("release", [1, 1])]
)
def test_a_queue_that_does_not_exist_is_named(clients, method, arguments):
    with pytest.raises(QueueNotFoundError, match="create it with create"):
        getattr(clients.queue, method)("nope", *arguments)


def test_settling_done_messages_returns_only_the_other_outcomes(observer, queue_name):
    queue, runner = WorkQueue(observer), Runner(observer)
    queue.send_batch(queue_name, list("abcd"))
    messages = runner.run(limits.claim_for_worker(queue_name, 60, 4, "w"))
    queue.set_vt(queue_name, 2, 0)
    queue.read(queue_name, 60)
    queue.delete(queue_name, 1)

    others = runner.run(claims.settle_done(queue_name, messages[:3], keep=True))

    assert others == {0: ClaimOutcome(1, "gone"), 1: ClaimOutcome(2, "stale")}
    assert rows(observer, f"select msg_id from pgmq.a_{queue_name}") == [(3,)]
    assert runner.run(claims.settle_done(queue_name, messages[3:], keep=False)) == {}
    assert rows(observer, f"select msg_id from pgmq.a_{queue_name}") == [(3,)]
    assert rows(observer, f"select msg_id from pgmq.q_{queue_name}") == [(2,)]


def test_a_missing_outcome_is_never_taken_for_done(queue_name):
    message = limits.ClaimedMessage(1, 1, None, "a", None)
    call = claims.settle_done(queue_name, [message, message._replace(msg_id=2)], keep=True)

    assert call.read_rows([(2, None, None)]) == {}
    with pytest.raises(ServerError, match="1 outcomes for 2 messages"):
        call.read_rows([(1, None, None)])


def test_claim_for_worker_has_the_columns_of_a_read(observer, queue_name):
    WorkQueue(observer).send(queue_name, {"n": 1}, headers={"h": 1})
    WorkQueue(observer).send(queue_name, "b")

    first, second = Runner(observer).run(limits.claim_for_worker(queue_name, 60, 4, "w"))

    assert (first.msg_id, first.read_ct, first.message, first.headers) == (1, 1, {"n": 1}, {"h": 1})
    assert (second.msg_id, second.read_ct, second.message, second.headers) == (2, 1, "b", None)
    found = rows(
        observer, f"select enqueued_at, vt > now() + interval '50 s' from pgmq.q_{queue_name}"
    )
    assert found == [(first.enqueued_at, True), (second.enqueued_at, True)]
