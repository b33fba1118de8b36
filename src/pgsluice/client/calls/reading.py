"""Reading, acknowledging and deferring messages: functions of schema `pgmq` as calls."""

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
    queue_name: str, vt: int = 30, qty: int = 1, *, conditional: dict[str, Any] | None = None
) -> Call[list[Message]]:
    """Read up to `qty` visible messages and hide them for `vt` seconds.

    Delivery is at least once: a message that is neither archived nor deleted is redelivered after its visibility
    timeout. Cancelling an async read after the server has committed it, on a pool or in autocommit mode, loses its
    result: the messages are hidden for `vt` seconds. In the caller's transaction a rollback makes them visible.

    Args:
        queue_name: An existing queue.
        vt: Visibility timeout in seconds, 0 or more; with 0, other readers can read the same messages. Set it above
            the time that handling takes.
        qty: The most to read, 1 or more.
        conditional: Only messages that contain this JSON object (`message @> conditional`).

    Returns:
        0 to `qty` messages, lowest `msg_id` first. Empty if none is visible; never waits.

    Raises:
        ArgumentError: `vt` or `qty` is out of range. Nothing was read.

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
    vt: int = 30,
    qty: int = 1,
    *,
    max_poll_seconds: int = 5,
    poll_interval_ms: int = 100,
    conditional: dict[str, Any] | None = None,
) -> Call[list[Message]]:
    """Read as `read` does, and wait in the server while no message is visible.

    The connection is occupied during the wait, and its open statement holds back the xmin horizon of VACUUM: keep
    the wait short. A REPEATABLE READ transaction does not see messages sent during the wait.

    Args:
        queue_name: An existing queue.
        vt: As for `read`.
        qty: As for `read`.
        max_poll_seconds: The longest wait in seconds, 1 or more.
        poll_interval_ms: Poll interval in milliseconds, 1 or more.
        conditional: As for `read`.

    Returns:
        1 to `qty` messages as soon as any is visible, lowest `msg_id` first; empty after `max_poll_seconds` without
        messages.

    Raises:
        ArgumentError: A number is out of range. Nothing was read.

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
    """Read up to `qty` visible messages and delete them immediately.

    Delivery is at most once: messages that the caller does not finish are lost, unless this runs in the caller's
    transaction and that is rolled back. An async call that is cancelled on a pool or in autocommit mode may have
    deleted messages that it does not return; pop within a transaction, or `read` and `delete`, to lose none.

    Returns:
        0 to `qty` messages, lowest `msg_id` first.

    Raises:
        ArgumentError: `qty` is out of range. Nothing was read.

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
    """Delete one message, even if another reader holds it: this cancels it (see `Handler.cancel`).

    Returns:
        False when the message is not in the queue.

    Source: PGMQ 1.13.0 `pgmq.delete`.
    """
    sql: LiteralString = "select pgmq.delete(%s::text, %s::bigint)"
    return Call(sql, (queue_name, one_id(msg_id)), scalar, queue_name)


@method(WorkQueue)
def delete_batch(queue_name: str, msg_ids: Sequence[int]) -> Call[list[int]]:
    """Delete messages, even if other readers hold them.

    Returns:
        The msg_ids found in the queue, lowest first, each once.

    Source: PGMQ 1.13.0 `pgmq.delete`.
    """
    sql: LiteralString = "select pgmq.delete(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, many_ids(msg_ids)), column, queue_name)


@method(WorkQueue)
def archive(queue_name: str, msg_id: int) -> Call[bool]:
    """Move one message into the queue's archive, even if another reader holds it.

    Returns:
        False when the message is not in the queue.

    Source: PGMQ 1.13.0 `pgmq.archive`.
    """
    sql: LiteralString = "select pgmq.archive(%s::text, %s::bigint)"
    return Call(sql, (queue_name, one_id(msg_id)), scalar, queue_name)


@method(WorkQueue)
def archive_batch(queue_name: str, msg_ids: Sequence[int]) -> Call[list[int]]:
    """Move messages into the queue's archive, even if other readers hold them.

    Returns:
        The msg_ids found in the queue, lowest first, each once.

    Source: PGMQ 1.13.0 `pgmq.archive`.
    """
    sql: LiteralString = "select pgmq.archive(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, many_ids(msg_ids)), column, queue_name)


@method(WorkQueue)
def set_vt(queue_name: str, msg_id: int, vt: int | datetime) -> Call[Message | None]:
    """Change the visibility timeout of one message, even if another reader holds it.

    Args:
        queue_name: An existing queue.
        msg_id: The message.
        vt: Seconds from now, 0 or more, or a time with a time zone.

    Returns:
        The updated message, or None if it is not in the queue.

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
    """Change the visibility timeout of messages, even if other readers hold them.

    Returns:
        The updated messages that were in the queue, lowest `msg_id` first, each once.

    Raises:
        ArgumentError: As for `set_vt`.

    Source: PGMQ 1.13.0 `pgmq.set_vt`.
    """
    sql: LiteralString = f"select * from pgmq.set_vt(%s::text, %s::bigint[], {int_or_time(vt)})"  # noqa: S608
    parameters = (queue_name, many_ids(msg_ids), point(vt, "vt"))
    return Call(sql, parameters, record(Message), queue_name)


def retry_now(queue_name: str, msg_id: int) -> Call[bool]:
    """Make a message visible that waits for a retry or a delay; return False if it is in flight or not in the queue.

    A message that becomes due and is claimed within this statement is delivered again.
    """
    sql: LiteralString = (
        "with found as materialized (select msg_id, state from sluice.get_messages(%s::text, array[%s::bigint]) "
        "where state in ('visible', 'retrying', 'delayed')), "
        "changed as materialized (select from pgmq.set_vt("
        "%s::text, array(select msg_id from found where state <> 'visible'), 0::integer)) "
        "select (select count(*) from found) > 0 and (select count(*) from changed) >= 0"
    )
    return Call(sql, (queue_name, one_id(msg_id), queue_name), scalar, queue_name)
