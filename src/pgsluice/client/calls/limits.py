"""The functions of schema `sluice` about limits and order in work queues, as calls; argument names are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, LiteralString

from pgsluice.client.calls.arguments import seconds, whole
from pgsluice.client.calls.call import Call, nothing, record, scalar
from pgsluice.client.limit_records import BlockedMessages, QueueLimits, WhenWaiting
from pgsluice.client.records import Message
from pgsluice.errors import ArgumentError

_WHEN_WAITING = ("block", "skip", "park")


def claim_messages(queue_name: str, vt: int, qty: int, worker: str | None) -> Call[list[Message]]:
    return Call(
        "select * from sluice.claim_messages(%s::text, %s::integer, %s::integer, %s::text)",
        (queue_name, whole(vt, "vt", 0), whole(qty, "qty", 1), worker),
        record(Message),
        queue_name,
        own_transaction_sql="select message.msg_id, message.read_ct, message.enqueued_at, "
        "message.last_read_at, message.vt, message.message, message.headers "
        "from pg_catalog.set_config('synchronous_commit', 'off', true), "
        "sluice.claim_messages(%s::text, %s::integer, %s::integer, %s::text) "
        "with ordinality as message "
        "order by message.ordinality",
    )


def next_room(queue_name: str) -> Call[datetime | None]:
    return Call("select sluice.next_room(%s::text)", (queue_name,), scalar, queue_name)


def set_queue_limits(
    queue_name: str,
    fleet_concurrency: int | None,
    key_concurrency: int | None,
    rate: int | None,
    rate_s: float,
    when_waiting: WhenWaiting | None,
    priority_weights: Sequence[int] | None,
) -> Call[None]:
    if when_waiting is not None and when_waiting not in _WHEN_WAITING:
        raise ArgumentError(f"when_waiting is {when_waiting!r}; use block, skip or park, or None")
    parameters = (
        queue_name,
        _limit(fleet_concurrency, "fleet_concurrency"),
        _limit(key_concurrency, "key_concurrency"),
        _limit(rate, "rate"),
        _interval(rate_s),
        when_waiting,
        None
        if priority_weights is None
        else [whole(weight, "a priority weight", 0) for weight in priority_weights],
    )
    sql: LiteralString = (
        "select sluice.set_queue_limits(%s::text, %s::integer, %s::integer, %s::integer, "
        "%s::interval, %s::text, %s::integer[])"
    )
    return Call(sql, parameters, nothing, queue_name)


def declare_queue_limits(
    queue_name: str,
    declared_by: str,
    fleet_concurrency: int | None,
    key_concurrency: int | None,
    rate: int | None,
    rate_s: float,
    when_waiting: WhenWaiting | None,
) -> Call[Literal["changed", "unchanged", "operator"]]:
    parameters = (
        queue_name,
        declared_by,
        _limit(fleet_concurrency, "fleet_concurrency"),
        _limit(key_concurrency, "key_concurrency"),
        _limit(rate, "rate"),
        _interval(rate_s),
        when_waiting,
    )
    sql: LiteralString = (
        "select sluice.declare_queue_limits(%s::text, %s::text, %s::integer, %s::integer, "
        "%s::integer, %s::interval, %s::text)"
    )
    return Call(sql, parameters, scalar, queue_name)


def drop_queue_limits(queue_name: str) -> Call[bool]:
    return Call("select sluice.drop_queue_limits(%s::text)", (queue_name,), scalar, queue_name)


def list_queue_limits() -> Call[list[QueueLimits]]:
    sql: LiteralString = (
        "select queue_name, fleet_concurrency, key_concurrency, rate, "
        "extract(epoch from rate_interval)::float8, when_waiting, priority_weights, in_flight, started, "
        "declared_by "
        "from sluice.list_queue_limits()"
    )
    return Call(sql, (), record(QueueLimits))


def list_blocked_messages(queue_name: str) -> Call[list[BlockedMessages]]:
    sql: LiteralString = "select * from sluice.list_blocked_messages(%s::text)"
    return Call(sql, (queue_name,), record(BlockedMessages), queue_name)


def unpark_messages(queue_name: str, key: str) -> Call[bool]:
    sql: LiteralString = "select sluice.unpark_messages(%s::text, %s::text)"
    return Call(sql, (queue_name, key), scalar, queue_name)


def _limit(value: int | None, name: str) -> int | None:
    return None if value is None else whole(value, name, 1)


def _interval(rate_s: float) -> timedelta | None:
    length = seconds(rate_s, "rate_s")
    if not length:
        raise ArgumentError(f"rate_s is {rate_s!r}; use more than 0 seconds")
    return length
