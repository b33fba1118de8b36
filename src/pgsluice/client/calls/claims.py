"""Fenced settling of messages: functions of schema `sluice` as calls.

`msg_id` and `read_ct` are the fencing token of a claim; `enqueued_at` distinguishes the message from one with the same
token in a queue that was dropped and created again. The claim is current until another reader reads the message, even
after its visibility timeout has expired. `read_ct` stops at 2,147,483,647 and cannot fence beyond that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import seconds, several, text, whole, zoned_time
from pgsluice.client.calls.call import Call, record, scalar, storable_text
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.records import ClaimOutcome, Message
from pgsluice.errors import ArgumentError, ServerError


@method(WorkQueue, name="delete_claimed")
def delete(queue_name: str, messages: Sequence[Message]) -> Call[list[ClaimOutcome]]:
    """Delete messages whose claim is still current.

    Args:
        queue_name: An existing queue.
        messages: As returned by the read, in any order. A message of a queue that was dropped and created again has
            the outcome `gone`, because its `enqueued_at` differs.

    Returns:
        The outcome of each message, in the order given. Messages with a stale claim are not changed.

    Source: `sluice.delete`.
    """
    sql: LiteralString = (
        "select * from sluice.delete(%s::text, %s::bigint[], %s::integer[], %s::timestamptz[])"
    )
    return settle(sql, queue_name, messages)


@method(WorkQueue, name="archive_claimed")
def archive(queue_name: str, messages: Sequence[Message]) -> Call[list[ClaimOutcome]]:
    """Move messages whose claim is still current into the queue's archive.

    Args:
        queue_name: An existing queue.
        messages: As for `delete_claimed`.

    Returns:
        As for `delete_claimed`.

    Source: `sluice.archive`.
    """
    sql: LiteralString = (
        "select * from sluice.archive(%s::text, %s::bigint[], %s::integer[], %s::timestamptz[])"
    )
    return settle(sql, queue_name, messages)


def settle_done(
    queue_name: str, messages: Sequence[Message], *, keep: bool
) -> Call[dict[int, ClaimOutcome]]:
    """Archive or delete claimed messages; return only the outcomes other than `done`, by position in `messages`.

    A row per message would cost a worker more than the rest of the acknowledgement. A worker compares the identity of
    the queue, and not enqueued_at.
    """
    function: LiteralString = "sluice.archive" if keep else "sluice.delete"
    arguments: LiteralString = "(%s::text, %s::bigint[], %s::integer[], null::timestamptz[])"
    return others_of_done(function + arguments, queue_name, messages)


def others_of_done(
    function: LiteralString, queue_name: str, messages: Sequence[Message], *more: Any
) -> Call[dict[int, ClaimOutcome]]:
    """Return the call of a function that finishes messages, with the outcomes other than `done`, by position."""
    others: LiteralString = (
        "select count(*), array_agg(ordinality - 1) filter (where outcome is distinct from 'done'), "
        "array_agg(outcome) filter (where outcome is distinct from 'done') from "
    )
    sql: LiteralString = others + function + " with ordinality as settled"

    def read(rows: Sequence[tuple[Any, ...]]) -> dict[int, ClaimOutcome]:
        ((qty, positions, outcomes),) = rows
        if qty != len(messages):
            raise ServerError(f"{function} returned {qty} outcomes for {len(messages)} messages")
        return {
            position: ClaimOutcome(messages[position].msg_id, outcome)
            for position, outcome in zip(positions or (), outcomes or (), strict=True)
        }

    return Call(sql, (queue_name, *claims_of(messages), *more), read, queue_name)


@method(WorkQueue, name="extend_claimed")
def extend(queue_name: str, messages: Sequence[Message], vt: int) -> Call[list[ClaimOutcome]]:
    """Set the visibility timeout of messages whose claim is still current to `vt` seconds from now.

    Args:
        queue_name: An existing queue.
        messages: As for `delete_claimed`.
        vt: Seconds, 0 or more.

    Returns:
        As for `delete_claimed`.

    Raises:
        ArgumentError: `vt` is out of range. Nothing was changed.

    Source: `sluice.extend`.
    """
    sql: LiteralString = (
        "select * from sluice.extend("
        "%s::text, %s::bigint[], %s::integer[], %s::integer, %s::timestamptz[])"
    )
    return settle(sql, queue_name, messages, whole(vt, "vt", 0))


@method(WorkQueue, name="release_claimed")
def release_batch(
    queue_name: str, messages: Sequence[Message], *, delay: int = 0
) -> Call[list[ClaimOutcome]]:
    """Return messages whose claim is still current to the queue.

    Args:
        queue_name: An existing queue.
        messages: As for `delete_claimed`.
        delay: Seconds until the messages become visible, 0 or more.

    Returns:
        As for `delete_claimed`.

    Raises:
        ArgumentError: `delay` is out of range. Nothing was changed.

    Source: `sluice.release`.
    """
    return _release(queue_name, messages, whole(delay, "delay", 0), is_attempt=True)


def release_unstarted(
    queue_name: str, messages: Sequence[Message], *, delay_s: float = 0.0
) -> Call[list[ClaimOutcome]]:
    """Return messages to the queue without counting an attempt.

    Args:
        queue_name: An existing queue.
        messages: As returned by the read, in any order.
        delay_s: Seconds until the messages become visible, 0 or more.

    Returns:
        The outcome of each message, in the order given. Messages with a stale claim are not changed.

    Raises:
        ArgumentError: `delay_s` is out of range. Nothing was changed.

    Source: `sluice.release`.
    """
    seconds(delay_s, "delay_s")
    return _release(queue_name, messages, delay_s, is_attempt=False)


def _release(
    queue_name: str, messages: Sequence[Message], delay_s: float, *, is_attempt: bool
) -> Call[list[ClaimOutcome]]:
    function: LiteralString = (
        "select * from sluice.release("
        "%s::text, %s::bigint[], %s::integer[], %s::double precision, %s::timestamptz[], "
    )
    sql: LiteralString = function + ("true)" if is_attempt else "false)")
    return settle(sql, queue_name, messages, delay_s)


@method(WorkQueue)
def release(
    queue_name: str,
    msg_id: int,
    read_ct: int,
    *,
    delay: int = 0,
    enqueued_at: datetime | None = None,
) -> Call[bool]:
    """Return a message to the queue if its claim is still current.

    Args:
        queue_name: An existing queue.
        msg_id: The message.
        read_ct: As returned by the read; `msg_id` and `read_ct` are the fencing token.
        delay: Seconds until the message becomes visible, 0 or more.
        enqueued_at: As returned by the read; it differs in a queue that was dropped and created again. None: not
            compared.

    Returns:
        False when the message was read again, archived or deleted since. Then nothing was changed.

    Source: `sluice.release`.
    """
    sql: LiteralString = (
        "select sluice.release(%s::text, %s::bigint, %s::integer, %s::integer, %s::timestamptz)"
    )
    sent_at = zoned_time(enqueued_at, "enqueued_at")
    return Call(sql, (queue_name, msg_id, read_ct, delay, sent_at), scalar, queue_name)


@method(WorkQueue)
def reject(
    queue_name: str,
    msg_id: int,
    read_ct: int,
    reason: str,
    error: str | None = None,
    *,
    enqueued_at: datetime | None = None,
) -> Call[bool]:
    """Dead-letter a message if its claim is still current.

    Args:
        queue_name: An existing queue.
        msg_id: The message.
        read_ct: As returned by the read; `msg_id` and `read_ct` are the fencing token.
        reason: Reason in a word or two.
        error: The error with its traceback, or None. NULs and lone surrogates, also in `reason`, are escaped.
        enqueued_at: As for `release`.

    Returns:
        False when the message was read again, archived or deleted since. Then nothing was changed.

    Source: `sluice.reject`.
    """
    sql: LiteralString = (
        "select sluice.reject("
        "%s::text, %s::bigint, %s::integer, %s::text, %s::text, %s::timestamptz)"
    )
    texts = (storable_text(text(reason, "reason")), storable_text(text(error, "error")))
    sent_at = zoned_time(enqueued_at, "enqueued_at")
    parameters = (queue_name, msg_id, read_ct, *texts, sent_at)
    return Call(sql, parameters, scalar, queue_name, is_report=True)


def settle(
    sql: LiteralString, queue_name: str, messages: Sequence[Message], *more: Any
) -> Call[list[ClaimOutcome]]:
    """Return the call of a function that settles messages and returns the outcome of each."""
    messages = read_messages(messages)
    parameters = (queue_name, *claims_of(messages), *more, times_of(messages))
    return Call(sql, parameters, record(ClaimOutcome), queue_name)


def read_messages(messages: Iterable[Message]) -> list[Message]:
    """Return messages as a list, also those of a worker; refuse a single one, and what was not read from a queue."""
    found = several(messages, "messages", "messages")
    for position, message in enumerate(found):
        if not hasattr(message, "read_ct"):
            raise ArgumentError(
                f"messages[{position}] is of type {type(message).__name__}; pass messages as read() returned them"
            )
    return found


def claims_of(messages: Sequence[Message]) -> tuple[str, str]:
    """Return the fencing tokens of messages as arrays: their msg_ids and read_cts."""
    return (
        _array([str(message.msg_id) for message in messages]),
        _array([str(message.read_ct) for message in messages]),
    )


def times_of(messages: Sequence[Message]) -> str:
    """Return the enqueued_ats of messages as an array: those of a queue that was created again have others.

    None is not compared.
    """
    return _array([time_of(message) or "null" for message in messages])


def time_of(message: Message) -> str | None:
    """Return the enqueued_at of a message as text."""
    return None if message.enqueued_at is None else str(message.enqueued_at)


def _array(elements: Sequence[str]) -> str:
    # psycopg takes five times as long to convert a list, and refuses one that mixes times with and without a time zone.
    return "{" + ",".join(elements) + "}"
