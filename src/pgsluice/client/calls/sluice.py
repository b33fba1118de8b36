"""The functions of schema `sluice` as calls."""

from __future__ import annotations

from typing import LiteralString

from pgsluice.client.calls.call import Call, scalar


def reject(
    queue_name: str, msg_id: int, read_ct: int, reason: str, error: str | None
) -> Call[bool]:
    sql: LiteralString = (
        "select sluice.reject(%s::text, %s::bigint, %s::integer, %s::text, %s::text)"
    )
    return Call(sql, (queue_name, msg_id, read_ct, reason, error), scalar, queue_name)


def release(queue_name: str, msg_id: int, read_ct: int, delay: int) -> Call[bool]:
    sql: LiteralString = "select sluice.release(%s::text, %s::bigint, %s::integer, %s::integer)"
    return Call(sql, (queue_name, msg_id, read_ct, delay), scalar, queue_name)
