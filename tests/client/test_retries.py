"""Attempts, failures and retry policies of queues, sync and async."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pgsluice import (
    BegunAttempt,
    ClaimOutcome,
    FailedMessage,
    FailingMessages,
    MessageAttempts,
    Reject,
    Retry,
)
from pgsluice.client.calls import claims, retries
from pgsluice.errors import ArgumentError, QueueNotFoundError
from support import rows


def test_message_is_attempted_retried_and_dead_lettered_with_its_error(clients, queue_name):
    clients.queue.send(queue_name, "a")
    for _ in range(2):
        (message,) = clients.queue.read(queue_name, 0)
    begun = clients.call(retries.begin_attempts(queue_name, [message], worker="w", max_attempts=3))
    assert begun == [BegunAttempt(1, 2, "begun")]

    failed = FailedMessage(
        message, Retry(0.0), error_type="KeyError", error="k\x00\ud83d", trace="t"
    )
    assert clients.queue.fail(queue_name, [failed], worker="w", policy={"max_attempts": 3}) == [
        ClaimOutcome(1, "retry", 2, 0.0)
    ]

    assert clients.operations.count_retrying(queue_name) == 1
    (message,) = clients.queue.read(queue_name, 60)
    assert clients.operations.count_retrying(queue_name) == 0
    rejected = replace(failed, message=message, outcome=Reject("bad shape"))
    assert clients.queue.fail(queue_name, [rejected], worker="v") == [ClaimOutcome(1, "dead", 3)]
    (letter,) = clients.dead_letters(queue_name).browse()
    assert (letter.attempts, letter.error_type, letter.error, letter.trace, letter.worker) == (
        3, "KeyError", "k\\x00\\ud83d", "t", "v",
    )  # fmt: skip
    assert letter.first_failed_at < letter.dead_at


def test_messages_are_released_uncounted_and_locked(clients, queue_name):
    clients.queue.send_batch(queue_name, ["a", "b"])
    messages = clients.queue.read(queue_name, 60, 2)

    locked = clients.queue.lock_messages(queue_name, messages[::-1])
    assert locked == [ClaimOutcome(2, "done"), ClaimOutcome(1, "done")]
    assert clients.call(claims.release_unstarted(queue_name, messages)) == [
        ClaimOutcome(1, "done"), ClaimOutcome(2, "done"),
    ]  # fmt: skip

    assert [m.read_ct for m in clients.queue.read(queue_name, 60, 2)] == [2, 2]


def test_policy_out_of_range_is_refused_and_missing_queue_is_named(clients, queue_name, observer):
    clients.queue.send(queue_name, "a")
    messages = clients.queue.read(queue_name, 60)
    before = rows(observer, f"select * from pgmq.q_{queue_name}")

    for call in (
        lambda: clients.call(claims.release_unstarted(queue_name, messages, delay_s=-1)),
        lambda: clients.queue.fail(queue_name, [FailedMessage(messages[0], Retry(-1.0))]),
        lambda: clients.queue.fail(queue_name, [], policy={"max_attempts": 0}),
        lambda: clients.queue.fail(queue_name, [], policy={"tries": 5}),
        lambda: clients.call(retries.begin_attempts(queue_name, messages, max_attempts=0)),
        lambda: clients.queue.set_queue_options(queue_name, max_attempts=0),
        lambda: clients.queue.set_queue_options(queue_name, backoff="fast"),
        lambda: clients.queue.set_queue_options(queue_name, backoff_factor=0.5),
        lambda: clients.queue.set_queue_options(queue_name, backoff_base=timedelta(seconds=-1)),
    ):
        with pytest.raises(ArgumentError):
            call()
    for call in (
        lambda: clients.call(retries.begin_attempts("nope", messages)),
        lambda: clients.queue.fail("nope", [FailedMessage(messages[0])]),
        lambda: clients.call(claims.release_unstarted("nope", messages)),
        lambda: clients.queue.lock_messages("nope", messages),
    ):
        with pytest.raises(QueueNotFoundError, match="'nope' does not exist"):
            call()

    assert rows(observer, f"select * from pgmq.q_{queue_name}") == before


def test_failing_messages_are_listed_with_their_attempts(clients, queue_name):
    clients.queue.send(queue_name, "a")
    (message,) = clients.queue.read(queue_name, 60)
    failed = FailedMessage(message, Retry(60.0), "KeyError", "no key 7", "t")
    clients.queue.fail(queue_name, [failed], worker="w")

    (attempts,) = clients.operations.list_attempts(queue_name, [1, 2])
    assert type(attempts) is MessageAttempts
    assert (attempts.attempts, attempts.state, attempts.error, attempts.worker) == (
        1, "failed", "no key 7", "w",
    )  # fmt: skip
    (group,) = clients.operations.list_failing(queue_name)
    assert type(group) is FailingMessages
    assert (group.error, group.messages, group.example_msg_id) == ("no key #", 1, 1)
    assert group.next_retry_at == attempts.next_retry_at
    assert group in clients.operations.list_failing()
    with pytest.raises(QueueNotFoundError, match="missing"):
        clients.operations.list_failing("missing")
