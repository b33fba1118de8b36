"""The functions of schema `sluice` about dead events of share groups, as calls; argument names are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import after_id, known_ids, whole, zoned_time
from pgsluice.client.calls.call import Call, record, scalar
from pgsluice.client.log_records import DeadEvent, RedrivenEvent

# Of what type, for what reason, which ev_ids, since and until when they are dead; None is no condition.
Filter = tuple[str | None, str | None, Sequence[int] | None, datetime | None, datetime | None]


def browse_dead_events(
    queue_name: str, group_name: str, after_dead_event_id: int | None, qty: int, matching: Filter
) -> Call[list[DeadEvent]]:
    parameters = (
        queue_name,
        group_name,
        after_id(after_dead_event_id, "after_dead_event_id"),
        whole(qty, "qty", 1),
        *_filter(matching),
    )
    # xid8 is unknown to most drivers: its number is a bigint.
    sql: LiteralString = (
        "select dead_event_id, queue_name, group_name, claim_id, ev_id, ev_time, "
        "ev_txid::text::bigint, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4, "
        "redriven, attempts, deliveries, reason, error, dead_at "
        "from sluice.browse_dead_events(%s::text, %s::text, %s::bigint, %s::integer, "
        "%s::text, %s::text, %s::bigint[], %s::timestamptz, %s::timestamptz)"
    )
    return Call(sql, parameters, record(DeadEvent))


def count_dead_events(queue_name: str, group_name: str, matching: Filter) -> Call[int]:
    sql: LiteralString = (
        "select sluice.count_dead_events(%s::text, %s::text, "
        "%s::text, %s::text, %s::bigint[], %s::timestamptz, %s::timestamptz)"
    )
    return Call(sql, (queue_name, group_name, *_filter(matching)), scalar)


def redrive_events(
    queue_name: str, group_name: str, dead_event_ids: Sequence[int], target_queue_name: str | None
) -> Call[list[RedrivenEvent]]:
    sql: LiteralString = (
        "select * from sluice.redrive_events(%s::text, %s::text, %s::bigint[], %s::text)"
    )
    ids = known_ids(dead_event_ids, "dead_event_id")
    return Call(sql, (queue_name, group_name, ids, target_queue_name), record(RedrivenEvent))


def redrive_events_matching(
    queue_name: str,
    group_name: str,
    target_queue_name: str | None,
    after_dead_event_id: int | None,
    qty: int,
    matching: Filter,
) -> Call[list[RedrivenEvent]]:
    parameters = (
        queue_name,
        group_name,
        target_queue_name,
        after_id(after_dead_event_id, "after_dead_event_id"),
        whole(qty, "qty", 1),
        *_filter(matching),
    )
    sql: LiteralString = (
        "select * from sluice.redrive_events_matching(%s::text, %s::text, %s::text, %s::bigint, "
        "%s::integer, %s::text, %s::text, %s::bigint[], %s::timestamptz, %s::timestamptz)"
    )
    return Call(sql, parameters, record(RedrivenEvent))


def purge_dead_events(
    queue_name: str,
    group_name: str,
    older_than: timedelta | None,
    dead_event_ids: Sequence[int] | None,
    qty: int,
) -> Call[int]:
    parameters = (
        queue_name,
        group_name,
        older_than,
        None if dead_event_ids is None else known_ids(dead_event_ids, "dead_event_id"),
        whole(qty, "qty", 1),
    )
    sql: LiteralString = (
        "select sluice.purge_dead_events("
        "%s::text, %s::text, %s::interval, %s::bigint[], %s::integer)"
    )
    return Call(sql, parameters, scalar)


def _filter(matching: Filter) -> tuple[Any, ...]:
    ev_type, reason, ev_ids, since, until = matching
    return (
        ev_type,
        reason,
        None if ev_ids is None else known_ids(ev_ids, "ev_id"),
        zoned_time(since, "since"),
        zoned_time(until, "until"),
    )
