"""The functions of schema `sluice` that count attempts and keep retry policies, as calls; argument names are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import seconds, whole
from pgsluice.client.calls.call import Call, column, nothing, record, scalar, storable
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.records import ClaimOutcome, Message
from pgsluice.client.retry_records import (
    Backoff,
    BegunAttempt,
    FailedMessage,
    FailureOutcome,
    RetryPolicy,
)
from pgsluice.errors import ArgumentError


def set_retry_policy(
    queue_name: str,
    max_attempts: int,
    backoff: Backoff,
    backoff_base: timedelta,
    backoff_max: timedelta,
    backoff_jitter: bool,
) -> Call[None]:
    parameters = (
        queue_name,
        whole(max_attempts, "max_attempts", 1),
        backoff,
        _pause(backoff_base, "backoff_base"),
        _pause(backoff_max, "backoff_max"),
        backoff_jitter,
    )
    sql: LiteralString = (
        "select sluice.set_retry_policy("
        "%s::text, %s::integer, %s::text, %s::interval, %s::interval, %s::boolean)"
    )
    return Call(sql, parameters, nothing, queue_name)


def drop_retry_policy(queue_name: str) -> Call[bool]:
    return Call("select sluice.drop_retry_policy(%s::text)", (queue_name,), scalar, queue_name)


def list_retry_policies() -> Call[list[RetryPolicy]]:
    return Call("select * from sluice.list_retry_policies()", (), record(RetryPolicy))


def begin_attempts(
    queue_name: str, messages: Sequence[Message], worker: str | None, max_attempts: int | None
) -> Call[list[BegunAttempt]]:
    if max_attempts is not None:
        whole(max_attempts, "max_attempts", 1)
    sql: LiteralString = (
        "select * from sluice.begin_attempts("
        "%s::text, %s::bigint[], %s::integer[], %s::text, %s::integer)"
    )
    parameters = (queue_name, *_claims(messages), worker, max_attempts)
    return Call(sql, parameters, record(BegunAttempt), queue_name)


def unanswered_starts(queue_name: str, messages: Sequence[Message]) -> Call[list[int]]:
    sql: LiteralString = "select * from sluice.unanswered_starts(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, [message.msg_id for message in messages]), column, queue_name)


def fail(
    queue_name: str,
    failures: Sequence[FailedMessage],
    worker: str | None,
    policy: dict[str, Any] | None,
) -> Call[list[FailureOutcome]]:
    sql: LiteralString = "select * from sluice.fail(%s::text, %s::jsonb, %s::text, %s::jsonb)"
    parameters = (
        queue_name,
        json_parameter([_failure(failure) for failure in failures], "failures"),
        worker,
        json_parameter(policy, "policy"),
    )
    return Call(sql, parameters, record(FailureOutcome), queue_name)


def hand_back(
    queue_name: str, messages: Sequence[Message], delay_s: float
) -> Call[list[ClaimOutcome]]:
    seconds(delay_s, "delay_s")
    sql: LiteralString = (
        "select * from sluice.hand_back("
        "%s::text, %s::bigint[], %s::integer[], %s::double precision)"
    )
    parameters = (queue_name, *_claims(messages), delay_s)
    return Call(sql, parameters, record(ClaimOutcome), queue_name)


def lock_messages(queue_name: str, messages: Sequence[Message]) -> Call[list[ClaimOutcome]]:
    sql: LiteralString = "select * from sluice.lock_messages(%s::text, %s::bigint[], %s::integer[])"
    return Call(sql, (queue_name, *_claims(messages)), record(ClaimOutcome), queue_name)


def try_lock_messages(queue_name: str, messages: Sequence[Message]) -> Call[list[int]]:
    sql: LiteralString = "select * from sluice.try_lock_messages(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, _claims(messages)[0]), column, queue_name)


def _claims(messages: Sequence[Message]) -> tuple[list[int], list[int]]:
    return [message.msg_id for message in messages], [message.read_ct for message in messages]


def _failure(failure: FailedMessage) -> dict[str, Any]:
    seconds(failure.delay_s, "delay_s")
    texts = {
        name: text and storable(text)
        for name, text in (
            ("reason", failure.reason),
            ("error_type", failure.error_type),
            ("error", failure.error),
            ("trace", failure.trace),
        )
    }
    return {
        "msg_id": failure.message.msg_id,
        "read_ct": failure.message.read_ct,
        "delay": failure.delay_s,
        "reject": failure.reject,
        **texts,
    }


def _pause(value: timedelta, name: str) -> timedelta:
    if not isinstance(value, timedelta) or value < timedelta():
        raise ArgumentError(f"{name} is {value!r}; use a timedelta of 0 or more")
    return value
