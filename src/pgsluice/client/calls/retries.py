"""Attempts, failures and retry policies: functions of schema `sluice` as calls.

The first claim of a message counts as an attempt unless it is released. A later claim counts once its attempt is
begun, or once it failed. So a message that always kills its process is dead-lettered too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import checked_ids, whole
from pgsluice.client.calls.call import Call, column, record, scalar, storable_text
from pgsluice.client.calls.claims import claims_of, read_messages, settle, time_of, times_of
from pgsluice.client.calls.clients import Operations, WorkQueue, method
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.group_records import ClaimedEvent
from pgsluice.client.records import ClaimOutcome, Message
from pgsluice.client.retry_records import (
    BegunAttempt,
    FailedMessage,
    FailingMessages,
    MessageAttempts,
    RetryDecision,
)
from pgsluice.errors import ArgumentError
from pgsluice.outcome import Reject, Retry


def begin_attempts(
    queue_name: str,
    messages: Sequence[Message],
    *,
    worker: str | None = None,
    max_attempts: int | None = None,
) -> Call[list[BegunAttempt]]:
    """Record the start of attempts; commit before the handlers start.

    Not needed for the first claim of a message (`read_ct` is 1), unless the policy allows only one attempt.
    Idempotent for a claim, so it can be repeated after a lost reply.

    Args:
        queue_name: An existing queue.
        messages: As returned by the read, in any order.
        worker: Name of the worker, stored with the message.
        max_attempts: 1 or more; None: from the queue's policy.

    Returns:
        The decision for each message, in the order given. Start the handlers of those with outcome `begun`.

    Raises:
        ArgumentError: `max_attempts` is out of range. Nothing was changed.

    Source: `sluice.begin_attempts`.
    """
    if max_attempts is not None:
        whole(max_attempts, "max_attempts", 1)
    sql: LiteralString = (
        "select * from sluice.begin_attempts("
        "%s::text, %s::bigint[], %s::integer[], %s::text, %s::integer, %s::timestamptz[])"
    )
    messages = read_messages(messages)
    parameters = (queue_name, *claims_of(messages), worker, max_attempts, times_of(messages))
    return Call(sql, parameters, record(BegunAttempt), queue_name)


def unfinished_attempts(queue_name: str, messages: Sequence[Message]) -> Call[list[int]]:
    """Return the redelivered messages whose last attempt was never settled.

    Such a message may have killed its process. A worker starts them one at a time, so that a crash affects no other
    message.

    Args:
        queue_name: An existing queue.
        messages: As returned by the read, those whose `read_ct` is 2 or more.

    Returns:
        Their msg_ids, in the order of the messages.

    Source: `sluice.unfinished_attempts`.
    """
    sql: LiteralString = "select * from sluice.unfinished_attempts(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, claims_of(messages)[0]), column, queue_name)


@method(Operations)
def count_retrying(queue_name: str) -> Call[int]:
    """Count the messages of a queue that failed and wait for a retry.

    Args:
        queue_name: An existing queue.

    Source: `sluice.count_retrying`.
    """
    return Call("select sluice.count_retrying(%s::text)", (queue_name,), scalar, queue_name)


@method(Operations)
def list_attempts(queue_name: str, msg_ids: Sequence[int]) -> Call[list[MessageAttempts]]:
    """Return the recorded attempts of messages of a queue or its dead letters, with the last error, by msg_id.

    Only messages with a failed, released or repeated attempt have a record.

    Args:
        queue_name: An existing queue.
        msg_ids: The messages.

    Source: `sluice.list_attempts`.
    """
    sql: LiteralString = "select * from sluice.list_attempts(%s::text, %s::bigint[])"
    return Call(
        sql, (queue_name, checked_ids(msg_ids, "msg_ids")), record(MessageAttempts), queue_name
    )


@method(Operations)
def list_failing(of_queue: str | None = None) -> Call[list[FailingMessages]]:
    """Return failed messages that are still retried, grouped by queue and error, most frequent error first.

    Args:
        of_queue: An existing queue; None: all.

    Raises:
        QueueNotFoundError: The queue does not exist.

    Source: `sluice.list_failing`.
    """
    sql: LiteralString = "select * from sluice.list_failing(%s::text)"
    return Call(sql, (of_queue,), record(FailingMessages), of_queue)


@method(WorkQueue)
def fail(
    queue_name: str,
    failures: Sequence[FailedMessage],
    *,
    worker: str | None = None,
    policy: dict[str, Any] | None = None,
) -> Call[list[ClaimOutcome]]:
    """Settle messages whose handlers failed: each is retried after a back-off or dead-lettered.

    Idempotent for a claim: a repetition after a lost reply changes nothing and returns the first result.

    Args:
        queue_name: An existing queue.
        failures: The failed messages and their errors, in any order. Characters that PostgreSQL cannot store are
            escaped.
        worker: Name of the worker, stored with the message.
        policy: Overrides of the queue's policy: `max_attempts`, `backoff`, `backoff_base` and `backoff_max`
            (seconds), `backoff_jitter`, `backoff_factor`.

    Returns:
        The outcome of each message, in the order given.

    Raises:
        ArgumentError: A delay is out of range, or the policy is invalid. Nothing was changed.

    Source: `sluice.fail`.
    """
    sql: LiteralString = "select * from sluice.fail(%s::text, %s::jsonb, %s::text, %s::jsonb)"
    parameters = (
        queue_name,
        json_parameter([_failure(failure) for failure in failures], "failures"),
        worker,
        json_parameter(policy, "policy"),
    )
    return Call(sql, parameters, record(ClaimOutcome), queue_name, is_report=True)


def fail_events(
    queue_name: str,
    group_name: str,
    claim_id: int,
    failures: Sequence[FailedMessage],
    *,
    worker: str | None = None,
    policy: dict[str, Any] | None = None,
) -> Call[list[ClaimOutcome]]:
    """Settle events of a claim whose handlers failed, as `fail` does messages; in the order given.

    Raises:
        LeaseLostError, ClaimNotFoundError: As for `acknowledge`. Nothing was changed.

    Source: `sluice.fail_events`.
    """
    sql: LiteralString = (
        "select * from sluice.fail_events("
        "%s::text, %s::text, %s::bigint, %s::jsonb, %s::text, %s::jsonb)"
    )
    parameters = (
        queue_name,
        group_name,
        claim_id,
        json_parameter([_failure(failure) for failure in failures], "failures"),
        worker,
        json_parameter(policy, "policy"),
    )
    return Call(sql, parameters, record(ClaimOutcome), is_report=True)


def decide_retry(
    attempt: int, outcome: Retry | Reject, policy: dict[str, Any]
) -> Call[RetryDecision]:
    """Decide if a failed attempt is retried under a policy, as `fail` does."""
    sql: LiteralString = "select * from sluice.decide_retry(%s::integer, %s::jsonb, %s::jsonb)"
    parameters = (
        attempt,
        json_parameter(_requested(outcome), "failure"),
        json_parameter(policy, "policy"),
    )
    return Call(sql, parameters, lambda rows: RetryDecision(*rows[0]), is_report=True)


@method(WorkQueue)
def lock_messages(queue_name: str, messages: Sequence[Message]) -> Call[list[ClaimOutcome]]:
    """Lock messages against reads until the end of the transaction, even after their visibility timeout.

    On a pool, where each call is a transaction of its own, this only checks which claims are current.

    Args:
        queue_name: An existing queue.
        messages: As returned by the read, in any order.

    Returns:
        The outcome of each message, in the order given; `done`: locked.

    Source: `sluice.lock_messages`.
    """
    sql: LiteralString = "select * from sluice.lock_messages(%s::text, %s::bigint[], %s::integer[], %s::timestamptz[])"
    return settle(sql, queue_name, messages)


def try_lock_messages(queue_name: str, messages: Sequence[Message]) -> Call[list[int]]:
    sql: LiteralString = "select * from sluice.try_lock_messages(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, claims_of(messages)[0]), column, queue_name)


def _requested(outcome: Retry | Reject) -> dict[str, Any]:
    return {
        "delay": outcome.delay_s if isinstance(outcome, Retry) else None,
        "reject": isinstance(outcome, Reject),
        "reason": storable_text(outcome.reason),
    }


def _failure(failure: FailedMessage) -> dict[str, Any]:
    texts = {
        name: storable_text(text)
        for name, text in (
            ("error_type", failure.error_type),
            ("error", failure.error),
            ("trace", failure.trace),
        )
    }
    message = failure.message
    if isinstance(message, ClaimedEvent):
        claim: dict[str, Any] = {"ev_id": message.ev_id}
    else:
        claim = {
            "msg_id": message.msg_id,
            "read_ct": message.read_ct,
            "enqueued_at": time_of(message),
        }
    return {
        **claim,
        **_requested(failure.outcome),
        "delay_min": failure.delay_min_s,
        **texts,
    }


def _pause(value: timedelta, name: str) -> timedelta:
    if not isinstance(value, timedelta) or value < timedelta():
        raise ArgumentError(f"{name} is {value!r}; use a timedelta of 0 or more")
    return value
