"""Sending with deduplication keys: functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, LiteralString

from pgsluice.client.calls import pgmq
from pgsluice.client.calls.arguments import int_or_time, one_per, text
from pgsluice.client.calls.call import Call, column, scalar
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.calls.settings import options_parameter
from pgsluice.client.calls.successors import AfterFailure, send_after
from pgsluice.client.unique import Unique, checked_unique
from pgsluice.errors import ArgumentError
from pgsluice.tracing.carrier import Sends


@method(WorkQueue)
def send(
    queue_name: str,
    message: Any,
    *,
    headers: Any = None,
    delay: int | datetime | None = None,
    deduplication_key: str | None = None,
    unique: Unique | None = None,
    after: Mapping[str, Sequence[int]] | None = None,
    after_failure: AfterFailure | None = None,
) -> Call[int]:
    """Send one message.

    If the connection is lost before the reply, it is unknown whether the message was stored. Send it again with the
    same key to store it once.

    Args:
        queue_name: An existing queue.
        message: A JSON value: None (stored as SQL null), bool, int, finite float, str, list or dict. Dataclasses,
            Pydantic models, enums, datetime, date, time, UUID and Decimal, also inside of it, are converted as a
            handler's `send` converts them.
        headers: A JSON object sent with the message, or None.
        delay: Seconds until the message becomes visible, 0 or more, or the time when it becomes visible (with a
            time zone). None: immediately.
        deduplication_key: 1 to 1,024 bytes. A message whose key is known is not stored: sent within the
            `deduplication_window` of the queue, even if the first message has left the queue, or as `unique` says.
            None: no deduplication.
        unique: Lifetime of the key and effect of a duplicate, for this message. None: those of the queue.
        after: msg_ids of messages to wait for, by queue: the message becomes visible when all of them have left
            their queues other than as dead letters. `Operations.enable_successors` must have been called for these
            queues. The transaction of this call locks the messages. Not together with a deduplication key. None: of
            no message.
        after_failure: If one of `after` is dead-lettered: `fail`, the default: dead-letter this message too, with
            the reason, and so on for those that wait for it; `continue`: wait for the others, then run it.

    Returns:
        The msg_id; for a duplicate, that of the first message with this key.

    Raises:
        PayloadError: The message is not JSON that PostgreSQL can store; the error names the path. Nothing was sent.
        ArgumentError: The delay is negative, not whole, or a time without a zone; the key is too long; or a
            dataclass or model has a type that cannot be converted. Nothing was sent.
        DeduplicationOffError: A key is given without `unique`, and the queue has no deduplication. Nothing was
            sent.
        RetryableError: In a transaction above READ COMMITTED, another transaction has sent the same key
            concurrently.
        ServerError: `enable_successors` was not called for a queue of `after`.
        PrivilegeError: The role may neither send to nor read a queue of `after`.

    Source: PGMQ 1.13.0 `pgmq.send`; with a key `sluice.send`, with `after` `sluice.send_after`.
    """
    if after is not None:
        if deduplication_key is not None or unique is not None:
            raise ArgumentError("after and deduplication are mutually exclusive; use one")
        return send_after(
            queue_name,
            message,
            after,
            headers=headers,
            delay=delay,
            after_failure=after_failure or "fail",
        )
    if after_failure is not None:
        raise ArgumentError("after_failure needs after; omit it")
    plain = pgmq.send(queue_name, message, headers, delay)
    if deduplication_key is None:
        _require_key(unique)
        return plain
    sql: LiteralString = (
        "select sluice.send(%s::text, %s::jsonb, %s::text, %s::jsonb, "
        f"{int_or_time(delay)}{_given(unique)})"
    )
    name, value, *more = plain.parameters
    key = text(deduplication_key, "deduplication_key")
    parameters = (name, value, key, *more, *_options(unique))
    return Call(sql, parameters, scalar, queue_name, sends=Sends("pgmq", queue_name, 3))


@method(WorkQueue)
def send_batch(
    queue_name: str,
    messages: Sequence[Any],
    *,
    headers: Sequence[Any] | None = None,
    delay: int | datetime | None = None,
    deduplication_keys: Sequence[str | None] | None = None,
    unique: Unique | None = None,
) -> Call[list[int]]:
    """Send messages in one statement: all or none.

    Args:
        queue_name: An existing queue.
        messages: One or more, each as for `send`.
        headers: One JSON object or None for each message, or None.
        delay: As for `send`, for all messages.
        deduplication_keys: One for each message, as for `send`, or None. Of equal keys, the first is stored.
        unique: As for `send`, for all messages with a key.

    Returns:
        The msg_ids, in the order of the messages; ascending without keys.

    Raises:
        PayloadError: As for `send`; the error names the position. Nothing was sent.
        ArgumentError: There are no messages, the number of headers or keys differs, or as for `send`. Nothing was
            sent.
        DeduplicationOffError: As for `send`.
        RetryableError: As for `send`.

    Source: PGMQ 1.13.0 `pgmq.send_batch`; with keys `sluice.send_batch`.
    """
    plain = pgmq.send_batch(queue_name, messages, headers, delay)
    if deduplication_keys is None:
        _require_key(unique)
        return plain
    sql: LiteralString = (
        "select sluice.send_batch("
        f"%s::text, %s::jsonb[], %s::text[], %s::jsonb[], {int_or_time(delay)}{_given(unique)})"
    )
    name, values, *more = plain.parameters
    keys = one_per(deduplication_keys, "deduplication_keys", "keys", len(values), per="message")
    for position, key in enumerate(keys):
        text(key, f"deduplication_keys[{position}]")
    parameters = (name, values, keys, *more, *_options(unique))
    sends = Sends("pgmq", queue_name, 3, len(values))
    return Call(sql, parameters, column, queue_name, sends=sends)


def _require_key(unique: Unique | None) -> None:
    if unique is not None:
        checked_unique(unique)
        raise ArgumentError("unique needs a deduplication key for each message; pass them too")


def _given(unique: Unique | None) -> LiteralString:
    return "" if unique is None else ", %s::jsonb"


def _options(unique: Unique | None) -> tuple[Any, ...]:
    return () if unique is None else (options_parameter(checked_unique(unique).options),)
