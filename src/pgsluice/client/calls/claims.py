"""The functions of schema `sluice` that settle a claim while it is current, as calls; argument names are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import whole
from pgsluice.client.calls.call import Call, record, scalar
from pgsluice.client.records import ClaimOutcome, Message


def delete(queue_name: str, messages: Sequence[Message]) -> Call[list[ClaimOutcome]]:
    sql: LiteralString = "select * from sluice.delete(%s::text, %s::bigint[], %s::integer[])"
    return _settle(sql, queue_name, messages)


def archive(queue_name: str, messages: Sequence[Message]) -> Call[list[ClaimOutcome]]:
    sql: LiteralString = "select * from sluice.archive(%s::text, %s::bigint[], %s::integer[])"
    return _settle(sql, queue_name, messages)


def extend(queue_name: str, messages: Sequence[Message], vt: int) -> Call[list[ClaimOutcome]]:
    sql: LiteralString = (
        "select * from sluice.extend(%s::text, %s::bigint[], %s::integer[], %s::integer)"
    )
    return _settle(sql, queue_name, messages, whole(vt, "vt", 0))


def release_batch(
    queue_name: str, messages: Sequence[Message], delay: int
) -> Call[list[ClaimOutcome]]:
    sql: LiteralString = (
        "select * from sluice.release(%s::text, %s::bigint[], %s::integer[], %s::integer)"
    )
    return _settle(sql, queue_name, messages, whole(delay, "delay", 0))


def release(queue_name: str, msg_id: int, read_ct: int, delay: int) -> Call[bool]:
    sql: LiteralString = "select sluice.release(%s::text, %s::bigint, %s::integer, %s::integer)"
    return Call(sql, (queue_name, msg_id, read_ct, delay), scalar, queue_name)


def reject(
    queue_name: str, msg_id: int, read_ct: int, reason: str, error: str | None
) -> Call[bool]:
    sql: LiteralString = (
        "select sluice.reject(%s::text, %s::bigint, %s::integer, %s::text, %s::text)"
    )
    return Call(sql, (queue_name, msg_id, read_ct, reason, error), scalar, queue_name)


def _settle(
    sql: LiteralString, queue_name: str, messages: Sequence[Message], *more: Any
) -> Call[list[ClaimOutcome]]:
    msg_ids = [message.msg_id for message in messages]
    read_cts = [message.read_ct for message in messages]
    return Call(sql, (queue_name, msg_ids, read_cts, *more), record(ClaimOutcome), queue_name)
