"""The functions of schema `pgq_coop` as calls."""

from __future__ import annotations

from datetime import timedelta
from typing import LiteralString

from pgsluice.client.calls.call import Call, scalar


def register_subconsumer(queue_name: str, consumer_name: str, subconsumer_name: str) -> Call[bool]:
    sql: LiteralString = "select pgq_coop.register_subconsumer(%s::text, %s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name, subconsumer_name), lambda rows: bool(scalar(rows)))


def unregister_subconsumer(
    queue_name: str, consumer_name: str, subconsumer_name: str, batch_handling: int
) -> Call[int]:
    sql: LiteralString = (
        "select pgq_coop.unregister_subconsumer(%s::text, %s::text, %s::text, %s::integer)"
    )
    return Call(sql, (queue_name, consumer_name, subconsumer_name, batch_handling), scalar)


def next_batch_custom(
    queue_name: str,
    consumer_name: str,
    subconsumer_name: str,
    min_lag: timedelta | None,
    min_count: int | None,
    min_interval: timedelta | None,
    dead_interval: timedelta | None,
) -> Call[int | None]:
    sql: LiteralString = (
        "select pgq_coop.next_batch_custom(%s::text, %s::text, %s::text, "
        "%s::interval, %s::integer, %s::interval, %s::interval)"
    )
    of = (queue_name, consumer_name, subconsumer_name)
    return Call(sql, (*of, min_lag, min_count, min_interval, dead_interval), scalar)


def next_batch(
    queue_name: str,
    consumer_name: str,
    subconsumer_name: str,
    dead_interval: timedelta | None,
) -> Call[int | None]:
    sql: LiteralString = "select pgq_coop.next_batch(%s::text, %s::text, %s::text, %s::interval)"
    return Call(sql, (queue_name, consumer_name, subconsumer_name, dead_interval), scalar)


def finish_batch(batch_id: int) -> Call[bool]:
    sql: LiteralString = "select pgq_coop.finish_batch(%s::bigint)"
    return Call(sql, (batch_id,), lambda rows: bool(scalar(rows)))
