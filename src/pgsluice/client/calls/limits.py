"""The functions of schema `sluice` about limits and order in work queues, as calls; argument names are theirs.

They hold for `claim_messages`. The readers of PGMQ do not keep to them, but what these have in flight is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, LiteralString

from pgsluice.client.calls.arguments import claim_parameters, seconds, whole
from pgsluice.client.calls.call import Call, claim, nothing, record, scalar
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.limit_records import BlockedMessages, QueueLimits, WhenWaiting
from pgsluice.client.records import Message
from pgsluice.errors import ArgumentError

_WHEN_WAITING = ("block", "skip", "park")


@method(WorkQueue)
def claim_messages(
    queue_name: str, vt: int, qty: int = 1, *, worker: str | None = None
) -> Call[list[Message]]:
    """Claim visible messages, as far as the limits of the queue allow, and hide them for `vt` seconds.

    Args:
        queue_name: An existing queue; without limits this is `read`.
        vt: Seconds, 0 or more.
        qty: The most to claim, 1 or more.
        worker: Who claims; it changes nothing.

    Returns:
        0 to `qty` messages: lowest `msg_id` first, or with priorities the most urgent level first.

    Raises:
        ArgumentError: `vt` or `qty` is out of range.
        RetryableError: Somebody else has claimed from this queue in a transaction that stays open; the message
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


@method(WorkQueue)
def next_room(queue_name: str) -> Call[datetime | None]:
    """Return when to claim again from a queue whose limits leave visible messages where they are.

    Returns:
        Of a rate, when it has room again; of concurrency, a moment from now, as nobody tells when a place becomes
        free. None: the limits are not what keeps messages.

    Source: `sluice.next_room`.
    """
    return Call("select sluice.next_room(%s::text)", (queue_name,), scalar, queue_name)


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
    """Let claims from a queue keep to these limits and this order, and to no others.

    Indexes are built for what is new; whoever sends or claims waits meanwhile. A queue has either priorities or
    limits of its keys.

    Args:
        queue_name: An existing queue.
        fleet_concurrency: So many may be in flight at once, in all processes, 1 or more; None: any number.
        key_concurrency: So many of one key may be in flight at once, 1 or more; None: any number. The key of a
            message is its header `x-pgmq-group`; one without it has no such limit.
        rate: So many may be claimed in any `rate_s` seconds, 1 or more; None: any number.
        rate_s: Seconds, more than 0.
        when_waiting: `block`, `skip` or `park`: messages of a key are claimed one after the other, and while one
            of it waits to be retried, nothing of the key is claimed, or the next ones are, or nothing is until
            `unpark_messages`. None: keys have no order.
        priority_weights: One for each of 2 to 9 levels, the most urgent first: how often it gets its turn while
            several have messages, 0 or more. The level of a message is its header `x-pgmq-priority`, from 1 on,
            else the middle one.

    Raises:
        ArgumentError: One is out of range. Nothing was changed.
        QueueNotFoundError: There is no such queue.
        ServerError: They contradict each other. Nothing was changed.

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
    """Let claims from a queue have no limits and no order, and forget which keys were parked.

    Returns:
        False when it had none.

    Raises:
        QueueNotFoundError: There is no such queue.

    Source: `sluice.drop_queue_limits`.
    """
    return Call("select sluice.drop_queue_limits(%s::text)", (queue_name,), scalar, queue_name)


@method(WorkQueue)
def list_queue_limits() -> Call[list[QueueLimits]]:
    """Return the limits of every queue that has some, by name, and how much of them is used.

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
    """Return the keys of a queue whose visible messages wait, and for what, longest first.

    Raises:
        QueueNotFoundError: There is no such queue.

    Source: `sluice.list_blocked_messages`.
    """
    sql: LiteralString = "select * from sluice.list_blocked_messages(%s::text)"
    return Call(sql, (queue_name,), record(BlockedMessages), queue_name)


@method(WorkQueue)
def unpark_messages(queue_name: str, key: str) -> Call[bool]:
    """Let messages of a parked key be claimed again, in their order and from the one that waited on.

    Returns:
        False when it is not parked.

    Raises:
        QueueNotFoundError: There is no such queue.

    Source: `sluice.unpark_messages`.
    """
    sql: LiteralString = "select sluice.unpark_messages(%s::text, %s::text)"
    return Call(sql, (queue_name, key), scalar, queue_name)


def _limit(value: int | None, name: str) -> int | None:
    return None if value is None else whole(value, name, 1)


def _interval(rate_s: float) -> timedelta | None:
    length = seconds(rate_s, "rate_s")
    if not length:
        raise ArgumentError(f"rate_s is {rate_s!r}; use more than 0 seconds")
    return length
