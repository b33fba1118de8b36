"""The functions of schema `sluice` about what event logs keep, as calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import LiteralString

from pgsluice.client.calls.call import Call, nothing, record
from pgsluice.client.segment_records import ConsumerLag, LogPolicy, Segment


def list_segments(queue_name: str) -> Call[list[Segment]]:
    return Call("select * from sluice.list_segments(%s::text)", (queue_name,), record(Segment))


def list_consumers(queue_name: str | None) -> Call[list[ConsumerLag]]:
    sql: LiteralString = "select * from sluice.list_consumers(%s::text)"
    return Call(sql, (queue_name,), record(ConsumerLag))


def set_log_policy(
    queue_name: str,
    max_lag_bytes: int | None,
    max_lag_events: int | None,
    max_lag_time: timedelta | None,
    keepers: Sequence[str],
) -> Call[None]:
    sql: LiteralString = (
        "select sluice.set_log_policy(%s::text, %s::bigint, %s::bigint, %s::interval, %s::text[])"
    )
    limits = (max_lag_bytes, max_lag_events, max_lag_time)
    return Call(sql, (queue_name, *limits, list(keepers)), nothing)


def list_log_policies() -> Call[list[LogPolicy]]:
    return Call("select * from sluice.list_log_policies()", (), record(LogPolicy))


def after_restore(queue_name: str | None) -> Call[dict[str, int]]:
    sql: LiteralString = "select log_name, events from sluice.after_restore(%s::text)"
    return Call(sql, (queue_name,), dict)
