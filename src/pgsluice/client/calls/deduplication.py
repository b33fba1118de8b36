"""Sending with a key, and setting how long a key is known, as calls; argument names are those of schema `sluice`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString

from pgsluice.client.calls import pgmq
from pgsluice.client.calls.arguments import int_or_time
from pgsluice.client.calls.call import Call, column, nothing, scalar
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.errors import ArgumentError


@method(WorkQueue)
def set_deduplication(queue_name: str, window: timedelta | None) -> Call[None]:
    """Let a queue know the deduplication keys of what is sent.

    Args:
        queue_name: An existing queue.
        window: How long a key is known, from its sending on; that of keys sent before stays. None: the queue takes
            no keys any more, and forgets those it knew.

    Raises:
        ArgumentError: The window is not positive.

    Source: `sluice.set_deduplication`.
    """
    if window is not None and window <= timedelta(0):
        raise ArgumentError(
            f"window is {window!r}; use a positive timedelta, or None to forget all keys"
        )
    sql: LiteralString = "select sluice.set_deduplication(%s::text, %s::interval)"
    return Call(sql, (queue_name, window), nothing, queue_name)


@method(WorkQueue)
def send(
    queue_name: str,
    message: Any,
    *,
    headers: Any = None,
    delay: int | datetime | None = None,
    deduplication_key: str | None = None,
) -> Call[int]:
    """Append one message.

    Where the reply of the server is lost, the message may have been stored or not. Sent again with the same key, it
    is stored once.

    Args:
        queue_name: An existing queue.
        message: A JSON value: None (stored as SQL null), bool, int, finite float, str, list or dict.
        headers: A JSON object beside it, or None.
        delay: Seconds until it becomes visible, 0 or more, or the time when it does (with a time zone). None: at
            once.
        deduplication_key: 1 to 1,024 bytes: a message whose key was sent within the window of `set_deduplication`
            is not stored, whether the first one is still in the queue or not. None: stored in any case.

    Returns:
        Its msg_id, or that of the message that was first sent with its key.

    Raises:
        PayloadError: The message is not JSON that PostgreSQL can store; the place is named. Nothing was sent.
        ArgumentError: The delay is negative, not whole, or a time without a zone, or the key is too long. Nothing
            was sent.
        DeduplicationOffError: There is a key, and the queue has no window. Nothing was sent.
        RetryableError: In a transaction above READ COMMITTED, another one has sent the key at the same time.

    Source: PGMQ 1.13.0 `pgmq.send`; with a key `sluice.send`.
    """
    plain = pgmq.send(queue_name, message, headers, delay)
    if deduplication_key is None:
        return plain
    sql: LiteralString = (
        f"select sluice.send(%s::text, %s::jsonb, %s::text, %s::jsonb, {int_or_time(delay)})"
    )
    name, value, *more = plain.parameters
    return Call(sql, (name, value, deduplication_key, *more), scalar, queue_name)


@method(WorkQueue)
def send_batch(
    queue_name: str,
    messages: Sequence[Any],
    *,
    headers: Sequence[Any] | None = None,
    delay: int | datetime | None = None,
    deduplication_keys: Sequence[str | None] | None = None,
) -> Call[list[int]]:
    """Append messages in one statement: all or none.

    Args:
        queue_name: An existing queue.
        messages: One or more, each as for `send`.
        headers: One for each message, or None.
        delay: As for `send`, for all of them.
        deduplication_keys: One for each message, each as for `send`, or None. Of equal keys the first is stored.

    Returns:
        Their msg_ids, in the order of the messages; rising without keys.

    Raises:
        PayloadError: As for `send`; the position is named. Nothing was sent.
        ArgumentError: There are no messages, another number of headers or keys, or as for `send`. Nothing was sent.
        DeduplicationOffError: As for `send`.
        RetryableError: As for `send`.

    Source: PGMQ 1.13.0 `pgmq.send_batch`; with keys `sluice.send_batch`.
    """
    plain = pgmq.send_batch(queue_name, messages, headers, delay)
    if deduplication_keys is None:
        return plain
    if len(deduplication_keys) != len(messages):
        raise ArgumentError(
            f"there are {len(deduplication_keys)} deduplication keys for {len(messages)} messages; give one for each, "
            "None for none"
        )
    sql: LiteralString = (
        "select sluice.send_batch("
        f"%s::text, %s::jsonb[], %s::text[], %s::jsonb[], {int_or_time(delay)})"
    )
    name, values, *more = plain.parameters
    return Call(sql, (name, values, list(deduplication_keys), *more), column, queue_name)
