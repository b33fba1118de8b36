"""The functions of schema `sluice` that count attempts and keep retry policies, as calls; argument names are theirs.

The first claim of a message counts as an attempt without a word, unless it is handed back. A later one counts when
it was begun, and when it failed. So a message that nobody ever answers for ends among the dead letters too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import seconds, whole
from pgsluice.client.calls.call import Call, column, nothing, record, scalar, storable
from pgsluice.client.calls.claims import claims_of, settle
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.records import ClaimOutcome, Message
from pgsluice.client.retry_records import (
    Backoff,
    BegunAttempt,
    FailedMessage,
    QueueRetryPolicy,
)
from pgsluice.errors import ArgumentError
from pgsluice.outcome import Reject, Retry


@method(WorkQueue)
def set_retry_policy(
    queue_name: str,
    *,
    max_attempts: int = 5,
    backoff: Backoff = "exponential",
    backoff_base: timedelta = timedelta(seconds=1),
    backoff_max: timedelta = timedelta(minutes=5),
    backoff_jitter: bool = True,
    backoff_factor: float = 2.0,
) -> Call[None]:
    """Say how often messages of a queue are tried, and how long the pauses are; it counts from the next failure on.

    Args:
        queue_name: An existing queue.
        max_attempts: Attempts after which a message goes to the dead letters, 1 or more. With 1 every start is
            noted; a policy that becomes 1 while workers run may still let one more attempt happen.
        backoff: How the pauses grow: `constant`; `linear`; `exponential`, by the factor.
        backoff_base: The pause after the first attempt, 0 or more.
        backoff_max: The longest pause, 0 or more.
        backoff_jitter: Whether each pause is between half of it and all of it, at random.
        backoff_factor: By how much each pause is longer than the one before, with exponential backoff; 1 or more.

    Raises:
        ArgumentError: It could not be followed. Nothing was changed.

    Source: `sluice.set_retry_policy`.
    """
    parameters = (
        queue_name,
        whole(max_attempts, "max_attempts", 1),
        backoff,
        _pause(backoff_base, "backoff_base"),
        _pause(backoff_max, "backoff_max"),
        backoff_jitter,
        backoff_factor,
    )
    sql: LiteralString = (
        "select sluice.set_retry_policy("
        "%s::text, %s::integer, %s::text, %s::interval, %s::interval, %s::boolean, "
        "%s::double precision)"
    )
    return Call(sql, parameters, nothing, queue_name)


@method(WorkQueue)
def drop_retry_policy(queue_name: str) -> Call[bool]:
    """Go back to the default retry policy of a queue.

    Returns:
        False when it had none of its own.

    Source: `sluice.drop_retry_policy`.
    """
    return Call("select sluice.drop_retry_policy(%s::text)", (queue_name,), scalar, queue_name)


@method(WorkQueue)
def list_retry_policies() -> Call[list[QueueRetryPolicy]]:
    """Return every queue, by name, with its retry policy.

    Source: `sluice.list_retry_policies`.
    """
    return Call("select * from sluice.list_retry_policies()", (), record(QueueRetryPolicy))


@method(WorkQueue)
def begin_attempts(
    queue_name: str,
    messages: Sequence[Message],
    *,
    worker: str | None = None,
    max_attempts: int | None = None,
) -> Call[list[BegunAttempt]]:
    """Note that the handlers of claimed messages start; commit before they do.

    The first claim of a message (`read_ct` is 1) needs no call, unless there is only one attempt. Said again of the
    same claim, as after a lost reply, it counts once.

    Args:
        queue_name: An existing queue.
        messages: As the claim returned them, in any order.
        worker: Who starts them; kept with the message.
        max_attempts: 1 or more; None: as the policy of the queue says.

    Returns:
        What is to become of each, in their order. Start those that are begun.

    Raises:
        ArgumentError: `max_attempts` is out of range. Nothing was changed.

    Source: `sluice.begin_attempts`.
    """
    if max_attempts is not None:
        whole(max_attempts, "max_attempts", 1)
    sql: LiteralString = (
        "select * from sluice.begin_attempts("
        "%s::text, %s::bigint[], %s::integer[], %s::text, %s::integer)"
    )
    parameters = (queue_name, *claims_of(messages), worker, max_attempts)
    return Call(sql, parameters, record(BegunAttempt), queue_name)


@method(WorkQueue)
def unanswered_starts(queue_name: str, messages: Sequence[Message]) -> Call[list[int]]:
    """Return which of these messages, claimed again, may have killed the process that started them last.

    Nobody heard of their last start again. A worker starts them one after the other, so that one that kills takes
    no others along.

    Args:
        queue_name: An existing queue.
        messages: As the claim returned them, those whose `read_ct` is 2 or more.

    Returns:
        Their `msg_id`s, in the order of the messages.

    Source: `sluice.unanswered_starts`.
    """
    sql: LiteralString = "select * from sluice.unanswered_starts(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, claims_of(messages)[0]), column, queue_name)


@method(WorkQueue)
def count_retrying(queue_name: str) -> Call[int]:
    """Return how many messages of a queue failed and wait for their next attempt.

    Args:
        queue_name: An existing queue.

    Source: `sluice.count_retrying`.
    """
    return Call("select sluice.count_retrying(%s::text)", (queue_name,), scalar, queue_name)


@method(WorkQueue)
def fail(
    queue_name: str,
    failures: Sequence[FailedMessage],
    *,
    worker: str | None = None,
    policy: dict[str, Any] | None = None,
) -> Call[list[ClaimOutcome]]:
    """Settle claimed messages whose handlers failed: each comes again after a pause, or is a dead letter.

    Said again, as after a lost reply, it changes nothing and returns what was done.

    Args:
        queue_name: An existing queue.
        failures: What failed, and why, in any order. What PostgreSQL cannot store of their texts is written out.
        worker: Who failed; kept with the message.
        policy: Fields in place of those of the queue's policy: `max_attempts`, `backoff`, `backoff_base` and
            `backoff_max` (seconds), `backoff_jitter`, `backoff_factor`.

    Returns:
        What became of each, in their order.

    Raises:
        ArgumentError: A delay is out of range, or the policy could not be followed. Nothing was changed.

    Source: `sluice.fail`.
    """
    sql: LiteralString = "select * from sluice.fail(%s::text, %s::jsonb, %s::text, %s::jsonb)"
    parameters = (
        queue_name,
        json_parameter([_failure(failure) for failure in failures], "failures"),
        worker,
        json_parameter(policy, "policy"),
    )
    return Call(sql, parameters, record(ClaimOutcome), queue_name)


@method(WorkQueue)
def hand_back(
    queue_name: str, messages: Sequence[Message], *, delay_s: float = 0.0
) -> Call[list[ClaimOutcome]]:
    """Give claimed messages back as if this claim had not been: it counts as no attempt.

    Args:
        queue_name: An existing queue.
        messages: As the claim returned them, in any order.
        delay_s: Seconds until they become visible, 0 or more.

    Returns:
        The outcome of each, in their order. Nothing else was changed.

    Raises:
        ArgumentError: `delay_s` is out of range. Nothing was changed.

    Source: `sluice.hand_back`.
    """
    seconds(delay_s, "delay_s")
    sql: LiteralString = (
        "select * from sluice.hand_back("
        "%s::text, %s::bigint[], %s::integer[], %s::double precision)"
    )
    return settle(sql, queue_name, messages, delay_s)


@method(WorkQueue)
def lock_messages(queue_name: str, messages: Sequence[Message]) -> Call[list[ClaimOutcome]]:
    """Lock claimed messages to the end of the transaction; nobody else claims them, also when their time is over.

    On a pool, where each call is a transaction of its own, it only tells which claims are current.

    Args:
        queue_name: An existing queue.
        messages: As the claim returned them, in any order.

    Returns:
        The outcome of each, in their order: `done`, it is locked.

    Source: `sluice.lock_messages`.
    """
    sql: LiteralString = "select * from sluice.lock_messages(%s::text, %s::bigint[], %s::integer[])"
    return settle(sql, queue_name, messages)


def try_lock_messages(queue_name: str, messages: Sequence[Message]) -> Call[list[int]]:
    sql: LiteralString = "select * from sluice.try_lock_messages(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, claims_of(messages)[0]), column, queue_name)


def _failure(failure: FailedMessage) -> dict[str, Any]:
    outcome = failure.outcome
    texts = {
        name: text and storable(text)
        for name, text in (
            ("reason", outcome.reason),
            ("error_type", failure.error_type),
            ("error", failure.error),
            ("trace", failure.trace),
        )
    }
    return {
        "msg_id": failure.message.msg_id,
        "read_ct": failure.message.read_ct,
        "delay": outcome.delay_s if isinstance(outcome, Retry) else None,
        "reject": isinstance(outcome, Reject),
        **texts,
    }


def _pause(value: timedelta, name: str) -> timedelta:
    if not isinstance(value, timedelta) or value < timedelta():
        raise ArgumentError(f"{name} is {value!r}; use a timedelta of 0 or more")
    return value
