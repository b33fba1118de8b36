"""The functions of schema `sluice` that settle a claim while it is current, as calls; argument names are theirs.

`msg_id` and `read_ct` together name a claim. It is current until somebody else claims the message, also when its
time is over. At the end of its range, 2,147,483,647, `read_ct` rises no more and cannot tell two claims apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import whole
from pgsluice.client.calls.call import Call, record, scalar
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.records import ClaimOutcome, Message


@method(WorkQueue, name="delete_claimed")
def delete(queue_name: str, messages: Sequence[Message]) -> Call[list[ClaimOutcome]]:
    """Delete claimed messages for good, those whose claim is still current.

    Args:
        queue_name: An existing queue.
        messages: As the claim returned them, in any order.

    Returns:
        The outcome of each, in their order. Nothing else was changed.

    Source: `sluice.delete`.
    """
    sql: LiteralString = "select * from sluice.delete(%s::text, %s::bigint[], %s::integer[])"
    return settle(sql, queue_name, messages)


@method(WorkQueue, name="archive_claimed")
def archive(queue_name: str, messages: Sequence[Message]) -> Call[list[ClaimOutcome]]:
    """Move claimed messages into the queue's archive, those whose claim is still current.

    Args:
        queue_name: An existing queue.
        messages: As for `delete_claimed`.

    Returns:
        As for `delete_claimed`.

    Source: `sluice.archive`.
    """
    sql: LiteralString = "select * from sluice.archive(%s::text, %s::bigint[], %s::integer[])"
    return settle(sql, queue_name, messages)


@method(WorkQueue, name="extend_claimed")
def extend(queue_name: str, messages: Sequence[Message], vt: int) -> Call[list[ClaimOutcome]]:
    """Hide claimed messages for `vt` seconds from now, those whose claim is still current.

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
    """Give claimed messages back, those whose claim is still current.

    Args:
        queue_name: An existing queue.
        messages: As for `delete_claimed`.
        delay: Seconds until they become visible, 0 or more.

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
    """Give a claimed message back, if the claim is still current.

    Args:
        queue_name: An existing queue.
        msg_id: The message.
        read_ct: As the claim returned it; together they name the claim.
        delay: Seconds until it becomes visible, 0 or more.

    Returns:
        False when somebody has claimed, archived or deleted it since. Then nothing was changed.

    Source: `sluice.release`.
    """
    sql: LiteralString = "select sluice.release(%s::text, %s::bigint, %s::integer, %s::integer)"
    return Call(sql, (queue_name, msg_id, read_ct, delay), scalar, queue_name)


@method(WorkQueue)
def reject(
    queue_name: str, msg_id: int, read_ct: int, reason: str, error: str | None = None
) -> Call[bool]:
    """Move a claimed message to the dead letters, if the claim is still current.

    Args:
        queue_name: An existing queue.
        msg_id: The message.
        read_ct: As the claim returned it; together they name the claim.
        reason: Why it is given up, in a word or two.
        error: The error, with its trace.

    Returns:
        False when somebody has claimed, archived or deleted it since. Then nothing was changed.

    Source: `sluice.reject`.
    """
    sql: LiteralString = (
        "select sluice.reject(%s::text, %s::bigint, %s::integer, %s::text, %s::text)"
    )
    return Call(sql, (queue_name, msg_id, read_ct, reason, error), scalar, queue_name)


def settle(
    sql: LiteralString, queue_name: str, messages: Sequence[Message], *more: Any
) -> Call[list[ClaimOutcome]]:
    """Call a function that settles claims and returns the outcome of each."""
    parameters = (queue_name, *claims_of(messages), *more)
    return Call(sql, parameters, record(ClaimOutcome), queue_name)


def claims_of(messages: Sequence[Message]) -> tuple[list[int], list[int]]:
    """Return what names the claims of messages: their msg_ids and read_cts."""
    return [message.msg_id for message in messages], [message.read_ct for message in messages]
