"""The functions of schema `pgmq` that claim messages and settle them, as calls; argument names are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import (
    claim_parameters,
    int_or_time,
    many_ids,
    one_id,
    point,
    poll_parameters,
    whole,
)
from pgsluice.client.calls.call import Call, claim, column, one_or_none, record, scalar
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.records import Message


@method(WorkQueue)
def read(
    queue_name: str, vt: int, qty: int = 1, *, conditional: dict[str, Any] | None = None
) -> Call[list[Message]]:
    """Claim up to `qty` visible messages and hide them for `vt` seconds.

    Delivery is at least once: a message that is neither archived nor deleted becomes visible again.

    Args:
        queue_name: An existing queue.
        vt: Visibility timeout, seconds, 0 or more; with 0 another reader may take them too.
        qty: The most to claim, 1 or more.
        conditional: Only messages that contain this JSON object (`message @> conditional`).

    Returns:
        0 to `qty` messages, lowest `msg_id` first. Empty when none is visible; never waits.

    Raises:
        ArgumentError: `vt` or `qty` is out of range. Nothing was claimed.

    Source: PGMQ 1.13.0 `pgmq.read`; differences in sql/pgmq/README.md.
    """
    parameters = (
        *claim_parameters(queue_name, vt, qty),
        json_parameter(conditional, "conditional"),
    )
    return claim("pgmq.read(%s::text, %s::integer, %s::integer, %s::jsonb)", parameters, queue_name)


@method(WorkQueue)
def read_with_poll(
    queue_name: str,
    vt: int,
    qty: int = 1,
    *,
    max_poll_seconds: int = 5,
    poll_interval_ms: int = 100,
    conditional: dict[str, Any] | None = None,
) -> Call[list[Message]]:
    """Claim as `read` does, and wait in the server while nothing is visible.

    The connection is taken for the whole wait, and its open statement keeps VACUUM from cleaning up behind it: keep
    the waits short. In a REPEATABLE READ transaction it does not see what is sent meanwhile.

    Args:
        queue_name: An existing queue.
        vt: As for `read`.
        qty: As for `read`.
        max_poll_seconds: The longest wait, seconds, 1 or more.
        poll_interval_ms: The pause between two looks, milliseconds, 1 or more.
        conditional: As for `read`.

    Returns:
        1 to `qty` messages as soon as there are any, lowest `msg_id` first; empty when the time is over.

    Raises:
        ArgumentError: A number is out of range. Nothing was claimed.

    Source: PGMQ 1.13.0 `pgmq.read_with_poll`; differences in sql/pgmq/README.md.
    """
    parameters = (
        *poll_parameters(queue_name, vt, qty, max_poll_seconds, poll_interval_ms),
        json_parameter(conditional, "conditional"),
    )
    return claim(
        "pgmq.read_with_poll("
        "%s::text, %s::integer, %s::integer, %s::integer, %s::integer, %s::jsonb)",
        parameters,
        queue_name,
    )


@method(WorkQueue)
def pop(queue_name: str, qty: int = 1) -> Call[list[Message]]:
    """Take up to `qty` visible messages and delete them at once.

    At most once: what the caller does not finish is gone, unless this runs in its transaction and that rolls
    back.

    Returns:
        0 to `qty` messages, lowest `msg_id` first.

    Raises:
        ArgumentError: `qty` is out of range. Nothing was taken.

    Source: PGMQ 1.13.0 `pgmq.pop`.
    """
    return Call(
        "select * from pgmq.pop(%s::text, %s::integer)",
        (queue_name, whole(qty, "qty", 1)),
        record(Message),
        queue_name,
    )


@method(WorkQueue)
def delete(queue_name: str, msg_id: int) -> Call[bool]:
    """Delete one message for good, whoever holds it.

    Returns:
        False when it is not in the queue.

    Source: PGMQ 1.13.0 `pgmq.delete`.
    """
    sql: LiteralString = "select pgmq.delete(%s::text, %s::bigint)"
    return Call(sql, (queue_name, one_id(msg_id)), scalar, queue_name)


@method(WorkQueue)
def delete_batch(queue_name: str, msg_ids: Sequence[int]) -> Call[list[int]]:
    """Delete messages for good, whoever holds them.

    Returns:
        The msg_ids that were in the queue, lowest first, each once.

    Source: PGMQ 1.13.0 `pgmq.delete`.
    """
    sql: LiteralString = "select pgmq.delete(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, many_ids(msg_ids)), column, queue_name)


@method(WorkQueue)
def archive(queue_name: str, msg_id: int) -> Call[bool]:
    """Move one message into the queue's archive, whoever holds it.

    Returns:
        False when it is not in the queue.

    Source: PGMQ 1.13.0 `pgmq.archive`.
    """
    sql: LiteralString = "select pgmq.archive(%s::text, %s::bigint)"
    return Call(sql, (queue_name, one_id(msg_id)), scalar, queue_name)


@method(WorkQueue)
def archive_batch(queue_name: str, msg_ids: Sequence[int]) -> Call[list[int]]:
    """Move messages into the queue's archive, whoever holds them.

    Returns:
        The msg_ids that were in the queue, lowest first, each once.

    Source: PGMQ 1.13.0 `pgmq.archive`.
    """
    sql: LiteralString = "select pgmq.archive(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, many_ids(msg_ids)), column, queue_name)


@method(WorkQueue)
def set_vt(queue_name: str, msg_id: int, vt: int | datetime) -> Call[Message | None]:
    """Change when one message becomes visible, whoever holds it.

    Args:
        queue_name: An existing queue.
        msg_id: The message.
        vt: Seconds from now, 0 or more, or a time with a time zone.

    Returns:
        The message as it is now, or None when it is not in the queue.

    Raises:
        ArgumentError: `vt` is negative, not whole, or a time without a zone.

    Source: PGMQ 1.13.0 `pgmq.set_vt`.
    """
    sql: LiteralString = f"select * from pgmq.set_vt(%s::text, %s::bigint, {int_or_time(vt)})"  # noqa: S608
    return Call(
        sql,
        (queue_name, one_id(msg_id), point(vt, "vt")),
        one_or_none(Message),
        queue_name,
    )


@method(WorkQueue)
def set_vt_batch(
    queue_name: str, msg_ids: Sequence[int], vt: int | datetime
) -> Call[list[Message]]:
    """Change when messages become visible, whoever holds them.

    Returns:
        Those that were in the queue, as they are now, lowest `msg_id` first, each once.

    Raises:
        ArgumentError: As for `set_vt`.

    Source: PGMQ 1.13.0 `pgmq.set_vt`.
    """
    sql: LiteralString = f"select * from pgmq.set_vt(%s::text, %s::bigint[], {int_or_time(vt)})"  # noqa: S608
    parameters = (queue_name, many_ids(msg_ids), point(vt, "vt"))
    return Call(sql, parameters, record(Message), queue_name)
