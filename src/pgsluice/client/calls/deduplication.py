"""Sending with a key, and setting how long a key is known, as calls; argument names are those of schema `sluice`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString

from pgsluice.client.calls import pgmq
from pgsluice.client.calls.call import Call, column, nothing, scalar
from pgsluice.errors import ArgumentError


def set_deduplication(queue_name: str, window: timedelta | None) -> Call[None]:
    if window is not None and window <= timedelta(0):
        raise ArgumentError(
            f"window is {window!r}; use a positive timedelta, or None to forget all keys"
        )
    sql: LiteralString = "select sluice.set_deduplication(%s::text, %s::interval)"
    return Call(sql, (queue_name, window), nothing, queue_name)


def send(
    queue_name: str,
    msg: Any,
    headers: Any = None,
    delay: int | datetime | None = None,
    deduplication_key: str | None = None,
) -> Call[int]:
    plain = pgmq.send(queue_name, msg, headers, delay)
    if deduplication_key is None:
        return plain
    sql: LiteralString
    if isinstance(delay, datetime):
        sql = "select sluice.send(%s::text, %s::jsonb, %s::text, %s::jsonb, %s::timestamptz)"
    else:
        sql = "select sluice.send(%s::text, %s::jsonb, %s::text, %s::jsonb, %s::integer)"
    name, message, *more = plain.parameters
    return Call(sql, (name, message, deduplication_key, *more), scalar, queue_name)


def send_batch(
    queue_name: str,
    msgs: Sequence[Any],
    headers: Sequence[Any] | None = None,
    delay: int | datetime | None = None,
    deduplication_keys: Sequence[str | None] | None = None,
) -> Call[list[int]]:
    plain = pgmq.send_batch(queue_name, msgs, headers, delay)
    if deduplication_keys is None:
        return plain
    if len(deduplication_keys) != len(msgs):
        raise ArgumentError(
            f"there are {len(deduplication_keys)} deduplication keys for {len(msgs)} messages; give one for each, "
            "None for none"
        )
    sql: LiteralString
    if isinstance(delay, datetime):
        sql = (
            "select sluice.send_batch("
            "%s::text, %s::jsonb[], %s::text[], %s::jsonb[], %s::timestamptz)"
        )
    else:
        sql = (
            "select sluice.send_batch(%s::text, %s::jsonb[], %s::text[], %s::jsonb[], %s::integer)"
        )
    name, messages, *more = plain.parameters
    return Call(sql, (name, messages, list(deduplication_keys), *more), column, queue_name)
