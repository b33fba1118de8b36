"""Rate limits, concurrency limits, key order and priorities of work queues: functions of schema `sluice` as calls.

`claim_messages` applies them. PGMQ's read functions ignore them, but their messages in flight count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString, NamedTuple

from pgsluice.client.calls.arguments import claim_parameters, seconds, whole
from pgsluice.client.calls.call import Call, Result, claim, nothing, record, scalar
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.limit_records import BlockedMessages, QueueLimits, WhenWaiting
from pgsluice.client.records import Message
from pgsluice.errors import ArgumentError

_WHEN_WAITING = ("block", "skip", "park")


class ClaimedMessage(NamedTuple):
    """The columns of a claimed message that a worker needs: half of the cost of a `Message`."""

    msg_id: int
    read_ct: int
    enqueued_at: datetime
    message: Any
    headers: Any


@method(WorkQueue)
def claim_messages(
    queue_name: str, vt: int = 30, qty: int = 1, *, worker: str | None = None
) -> Call[list[Message]]:
    """Read visible messages within the limits of the queue, and hide them for `vt` seconds.

    Args:
        queue_name: An existing queue. Without limits, this is the same as `read`.
        vt: Visibility timeout in seconds, 0 or more.
        qty: The most to read, 1 or more.
        worker: Name of the reader; without effect.

    Returns:
        0 to `qty` messages, lowest `msg_id` first; with priorities, the most urgent level first.

    Raises:
        ArgumentError: `vt` or `qty` is out of range.
        RetryableError: Another session has read from this queue in a transaction that is still open; the error
            names the session.
        ServerError: The transaction is not READ COMMITTED, and the queue has limits.

    Source: `sluice.claim_messages`.
    """
    return claim(
        "sluice.claim_messages(%s::text, %s::integer, %s::integer, %s::text)",
        (*claim_parameters(queue_name, vt, qty), worker),
        queue_name,
        keeps_order=True,
    )


def queue_identity(queue_name: str) -> Call[int | None]:
    return Call(
        "select sluice.queue_identity(%s::text, null::oid)", (queue_name,), scalar, queue_name
    )


def fenced(call: Call[Result], identity: int | None) -> Call[Result]:
    """Return the call of a function that settles messages, refused for a queue that was dropped and created again.

    The identity is compared when the function has returned, while the transaction holds its locks on the queue's table,
    so the queue cannot be replaced in between; the error undoes what the function did.
    """
    if identity is None:
        return call
    # No input of callers: LiteralString accepts only texts of our source.
    sql: LiteralString = (
        "select settled.*, (select sluice.queue_identity(%s::text, %s::oid)) from ("  # noqa: S608
        + call.sql
        + ") as settled"
    )

    def read(rows: Sequence[tuple[Any, ...]]) -> Result:
        return call.read_rows([row[:-1] for row in rows])

    return replace(
        call, sql=sql, parameters=(call.queue_name, identity, *call.parameters), read_rows=read
    )


def claim_for_worker(
    queue_name: str, vt: int, qty: int, worker: str, identity: int | None = None
) -> Call[list[ClaimedMessage]]:
    sql: LiteralString = (
        "select message.msg_id, message.read_ct, message.enqueued_at, message.message, message.headers "
        "from pg_catalog.set_config('synchronous_commit', 'off', true), "
        "sluice.queue_identity(%s::text, %s::oid), "
        "sluice.claim_messages(%s::text, %s::integer, %s::integer, %s::text) "
        "with ordinality as message order by message.ordinality"
    )
    parameters = (queue_name, identity, *claim_parameters(queue_name, vt, qty), worker)
    return Call(sql, parameters, _claimed, queue_name)


def next_capacity(queue_name: str) -> Call[datetime | None]:
    """Return the time at which to read again from a queue whose limits hold back visible messages.

    Returns:
        For a rate limit, the time at which it allows the next message; for a concurrency limit, a moment from now,
        because no event announces a free slot. None: no limit holds back messages.

    Source: `sluice.next_capacity`.
    """
    return Call("select sluice.next_capacity(%s::text)", (queue_name,), scalar, queue_name)


@method(WorkQueue)
def set_queue_limits(
    queue_name: str,
    *,
    fleet_concurrency: int | None = None,
    key_concurrency: int | None = None,
    rate: int | None = None,
    rate_s: float = 1.0,
    when_waiting: WhenWaiting | None = None,
    priority_weights: Sequence[int] | None = None,
) -> Call[None]:
    """Set the limits and the order of a queue, replacing all previous ones.

    New limits may need an index; producers and readers wait while it is built. A queue has either priorities or key
    limits.

    Args:
        queue_name: An existing queue.
        fleet_concurrency: Maximum messages in flight over all processes, 1 or more; None: no limit.
        key_concurrency: Maximum messages of one key in flight, 1 or more; None: no limit. The key of a message is
            its header `x-pgmq-group`; messages without it are not limited.
        rate: Rate limit: maximum messages read in any `rate_s` seconds, 1 or more; None: no limit. A message
            that is read and released without being handled counts.
        rate_s: Period of the rate limit in seconds, more than 0.
        when_waiting: Order by key: messages of a key are read one at a time. While a message of the key awaits its
            retry, `block` holds back the key, `skip` reads its next messages, and `park` holds back the key until
            `unpark_messages`. None: no order by key.
        priority_weights: Weights of 2 to 9 priority levels, the most urgent first: the relative share of reads
            while several levels have messages, 0 or more. The level of a message is its header `x-pgmq-priority`, 1
            being the most urgent; without it, the middle level.

    Raises:
        ArgumentError: A value is out of range. Nothing was changed.
        QueueNotFoundError: The queue does not exist.
        ServerError: The limits contradict each other. Nothing was changed.

    Source: `sluice.set_queue_limits`.
    """
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


@method(WorkQueue)
def drop_queue_limits(queue_name: str) -> Call[bool]:
    """Drop the limits and the order of a queue, and its list of parked keys.

    Returns:
        False when the queue had none.

    Raises:
        QueueNotFoundError: The queue does not exist.

    Source: `sluice.drop_queue_limits`.
    """
    return Call("select sluice.drop_queue_limits(%s::text)", (queue_name,), scalar, queue_name)


@method(WorkQueue)
def list_queue_limits() -> Call[list[QueueLimits]]:
    """Return the limits and current usage of every queue with limits, by name.

    Source: `sluice.list_queue_limits`.
    """
    sql: LiteralString = (
        "select queue_name, fleet_concurrency, key_concurrency, rate, "
        "extract(epoch from rate_interval)::float8, when_waiting, priority_weights, in_flight, started, "
        "declared_by "
        "from sluice.list_queue_limits()"
    )
    return Call(sql, (), record(QueueLimits))


@method(WorkQueue)
def list_blocked_messages(queue_name: str) -> Call[list[BlockedMessages]]:
    """Return the blocked keys of a queue with the reason, longest blocked first.

    Raises:
        QueueNotFoundError: The queue does not exist.

    Source: `sluice.list_blocked_messages`.
    """
    sql: LiteralString = "select * from sluice.list_blocked_messages(%s::text)"
    return Call(sql, (queue_name,), record(BlockedMessages), queue_name)


@method(WorkQueue)
def unpark_messages(queue_name: str, key: str) -> Call[bool]:
    """Unpark a key: its messages can be read again in order, starting with the one that awaited its retry.

    Returns:
        False when the key is not parked.

    Raises:
        QueueNotFoundError: The queue does not exist.

    Source: `sluice.unpark_messages`.
    """
    sql: LiteralString = "select sluice.unpark_messages(%s::text, %s::text)"
    return Call(sql, (queue_name, key), scalar, queue_name)


def _claimed(rows: Sequence[tuple[Any, ...]]) -> list[ClaimedMessage]:
    return [ClaimedMessage._make(row) for row in rows]


def _limit(value: int | None, name: str) -> int | None:
    return None if value is None else whole(value, name, 1)


def _interval(rate_s: float) -> timedelta | None:
    length = seconds(rate_s, "rate_s")
    if not length:
        raise ArgumentError(f"rate_s is {rate_s!r}; use more than 0 seconds")
    return length
