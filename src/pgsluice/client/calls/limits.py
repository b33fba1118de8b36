"""Rate limits, concurrency limits, key order and priorities of work queues: functions of schema `sluice` as calls.

`claim_messages` applies them. PGMQ's read functions ignore them, but their messages in flight count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from pgsluice.client.calls.arguments import claim_parameters
from pgsluice.client.calls.call import Call, Result, claim, record, scalar
from pgsluice.client.calls.clients import Operations, method
from pgsluice.client.limit_records import BlockedMessages, LimitUsage
from pgsluice.client.records import Message


class ClaimedMessage(NamedTuple):
    """The columns of a claimed message that a worker needs: half of the cost of a `Message`."""

    msg_id: int
    read_ct: int
    enqueued_at: datetime
    message: Any
    headers: Any


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


@method(Operations)
def list_limit_usage() -> Call[list[LimitUsage]]:
    """Return the usage of the limits of every queue with a `fleet_concurrency` or a `rate`, by name.

    Source: `sluice.list_limit_usage`.
    """
    return Call("select * from sluice.list_limit_usage()", (), record(LimitUsage))


@method(Operations)
def list_blocked_messages(queue_name: str) -> Call[list[BlockedMessages]]:
    """Return the blocked keys of a queue with the reason, longest blocked first.

    Raises:
        QueueNotFoundError: The queue does not exist.

    Source: `sluice.list_blocked_keys`.
    """
    sql: LiteralString = "select * from sluice.list_blocked_keys(%s::text)"
    return Call(sql, (queue_name,), record(BlockedMessages), queue_name)


@method(Operations)
def unpark_messages(queue_name: str, key: str) -> Call[bool]:
    """Unpark a key: its messages can be read again in order, starting with the one that awaited its retry.

    Returns:
        False when the key is not parked.

    Raises:
        QueueNotFoundError: The queue does not exist.

    Source: `sluice.unpark_key`.
    """
    sql: LiteralString = "select sluice.unpark_key(%s::text, %s::text)"
    return Call(sql, (queue_name, key), scalar, queue_name)


def _claimed(rows: Sequence[tuple[Any, ...]]) -> list[ClaimedMessage]:
    return [ClaimedMessage._make(row) for row in rows]
