"""Fenced settling of messages: functions of schema `sluice` as calls.

`msg_id` and `read_ct` are the fencing token of a claim. The claim is current until another reader reads the message,
even after its visibility timeout has expired. `read_ct` stops at 2,147,483,647 and cannot fence beyond that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import whole
from pgsluice.client.calls.call import Call, record, scalar
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.records import ClaimOutcome, Message
from pgsluice.errors import ServerError


@method(WorkQueue, name="delete_claimed")
def delete(queue_name: str, messages: Sequence[Message]) -> Call[list[ClaimOutcome]]:
    """Delete messages whose claim is still current.

    Args:
        queue_name: An existing queue.
        messages: As returned by the read, in any order.

    Returns:
        The outcome of each message, in the order given. Messages with a stale claim are not changed.

    Source: `sluice.delete`.
    """
    sql: LiteralString = "select * from sluice.delete(%s::text, %s::bigint[], %s::integer[])"
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
    sql: LiteralString = "select * from sluice.archive(%s::text, %s::bigint[], %s::integer[])"
    return settle(sql, queue_name, messages)


def settle_done(
    queue_name: str, messages: Sequence[Message], *, keep: bool
) -> Call[dict[int, ClaimOutcome]]:
    """Archive or delete claimed messages; return only the outcomes other than `done`, by position in `messages`.

    A row per message would cost a worker more than the rest of the acknowledgement.
    """
    function: LiteralString = "sluice.archive" if keep else "sluice.delete"
    others: LiteralString = (
        "select count(*), array_agg(ordinality - 1) filter (where outcome is distinct from 'done'), "
        "array_agg(outcome) filter (where outcome is distinct from 'done') from "
    )
    arguments: LiteralString = "(%s::text, %s::bigint[], %s::integer[]) with ordinality as settled"
    sql: LiteralString = others + function + arguments

    def read(rows: Sequence[tuple[Any, ...]]) -> dict[int, ClaimOutcome]:
        ((qty, positions, outcomes),) = rows
        if qty != len(messages):
            raise ServerError(f"{function} returned {qty} outcomes for {len(messages)} messages")
        return {
            position: ClaimOutcome(messages[position].msg_id, outcome)
            for position, outcome in zip(positions or (), outcomes or (), strict=True)
        }

    # As text: psycopg takes five times as long to convert lists of integers.
    msg_ids = "{" + ",".join([str(message.msg_id) for message in messages]) + "}"
    read_cts = "{" + ",".join([str(message.read_ct) for message in messages]) + "}"
    return Call(sql, (queue_name, msg_ids, read_cts), read, queue_name)


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
        "select * from sluice.extend(%s::text, %s::bigint[], %s::integer[], %s::integer)"
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
    sql: LiteralString = (
        "select * from sluice.release(%s::text, %s::bigint[], %s::integer[], %s::integer)"
    )
    return settle(sql, queue_name, messages, whole(delay, "delay", 0))


@method(WorkQueue)
def release(queue_name: str, msg_id: int, read_ct: int, *, delay: int = 0) -> Call[bool]:
    """Return a message to the queue if its claim is still current.

    Args:
        queue_name: An existing queue.
        msg_id: The message.
        read_ct: As returned by the read; `msg_id` and `read_ct` are the fencing token.
        delay: Seconds until the message becomes visible, 0 or more.

    Returns:
        False when the message was read again, archived or deleted since. Then nothing was changed.

    Source: `sluice.release`.
    """
    sql: LiteralString = "select sluice.release(%s::text, %s::bigint, %s::integer, %s::integer)"
    return Call(sql, (queue_name, msg_id, read_ct, delay), scalar, queue_name)


@method(WorkQueue)
def reject(
    queue_name: str, msg_id: int, read_ct: int, reason: str, error: str | None = None
) -> Call[bool]:
    """Dead-letter a message if its claim is still current.

    Args:
        queue_name: An existing queue.
        msg_id: The message.
        read_ct: As returned by the read; `msg_id` and `read_ct` are the fencing token.
        reason: Reason in a word or two.
        error: The error with its traceback, or None.

    Returns:
        False when the message was read again, archived or deleted since. Then nothing was changed.

    Source: `sluice.reject`.
    """
    sql: LiteralString = (
        "select sluice.reject(%s::text, %s::bigint, %s::integer, %s::text, %s::text)"
    )
    return Call(sql, (queue_name, msg_id, read_ct, reason, error), scalar, queue_name)


def settle(
    sql: LiteralString, queue_name: str, messages: Sequence[Message], *more: Any
) -> Call[list[ClaimOutcome]]:
    """Return the call of a function that settles messages and returns the outcome of each."""
    parameters = (queue_name, *claims_of(messages), *more)
    return Call(sql, parameters, record(ClaimOutcome), queue_name)


def claims_of(messages: Sequence[Message]) -> tuple[list[int], list[int]]:
    """Return the fencing tokens of messages: their msg_ids and read_cts."""
    return [message.msg_id for message in messages], [message.read_ct for message in messages]
