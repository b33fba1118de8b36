"""Dead events of share groups: browsing, redriving and purging; functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import after_id, checked_ids, whole, zoned_time
from pgsluice.client.calls.call import Call, column, record, scalar
from pgsluice.client.calls.clients import ShareGroup, method
from pgsluice.client.log_records import DeadEvent, ListedDeadEvent, RedrivenEvent


@method(ShareGroup)
def browse_dead_events(
    queue_name: str,
    group_name: str,
    *,
    after_dead_event_id: int | None = None,
    qty: int = 100,
    ev_type: str | None = None,
    reason: str | None = None,
    ev_ids: Sequence[int] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Call[list[DeadEvent]]:
    """Return a page of the group's dead events; they outlive their group and log.

    Args:
        after_dead_event_id: Only dead events with a higher id; None: start at the first.
        qty: The most to return, 1 or more.
        ev_type: Only events of this type.
        reason: Only dead events with this reason.
        ev_ids: Only events with these ids in the log.
        since: Only events dead-lettered at this time or later, with a time zone.
        until: Only events dead-lettered before this time, with a time zone.

    Returns:
        0 to `qty` dead events, lowest `dead_event_id` first; fewer than `qty`: this is the last page.

    Raises:
        ArgumentError: `qty` or an id is out of range, or a time has no zone.

    Source: `sluice.browse_dead_events`.
    """
    parameters = (
        queue_name,
        group_name,
        after_id(after_dead_event_id, "after_dead_event_id"),
        whole(qty, "qty", 1),
        *_filter(ev_type, reason, ev_ids, since, until),
    )
    # Most drivers do not know xid8: cast it to bigint.
    sql: LiteralString = (
        "select dead_event_id, queue_name, group_name, claim_id, ev_id, ev_time, "
        "ev_txid::text::bigint, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4, "
        "redriven, attempts, deliveries, reason, error, dead_at "
        "from sluice.browse_dead_events(%s::text, %s::text, %s::bigint, %s::integer, "
        "%s::text, %s::text, %s::bigint[], %s::timestamptz, %s::timestamptz)"
    )
    return Call(sql, parameters, record(DeadEvent))


def list_dead_events(
    queue_name: str, group_name: str, after_dead_event_id: int | None, qty: int
) -> Call[list[ListedDeadEvent]]:
    """Return a page of the group's dead events without their data, which can be large; errors are cut."""
    return Call(
        "select d.dead_event_id, d.ev_id, left(d.ev_type, 200), d.redriven, d.attempts, d.deliveries, "
        "d.reason, left(d.error, 1000), d.dead_at "
        "from sluice.browse_dead_events(%s::text, %s::text, %s::bigint, %s::integer) as d",
        (queue_name, group_name, after_dead_event_id, qty),
        record(ListedDeadEvent),
    )


@method(ShareGroup)
def count_dead_events(
    queue_name: str,
    group_name: str,
    *,
    ev_type: str | None = None,
    reason: str | None = None,
    ev_ids: Sequence[int] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Call[int]:
    """Count the group's dead events that match a filter.

    Args:
        ev_type: As for `browse_dead_events`, as are the other filters.

    Raises:
        ArgumentError: As for `browse_dead_events`.

    Source: `sluice.count_dead_events`.
    """
    sql: LiteralString = (
        "select sluice.count_dead_events(%s::text, %s::text, "
        "%s::text, %s::text, %s::bigint[], %s::timestamptz, %s::timestamptz)"
    )
    return Call(
        sql, (queue_name, group_name, *_filter(ev_type, reason, ev_ids, since, until)), scalar
    )


@method(ShareGroup)
def list_dead_event_ids(
    queue_name: str,
    group_name: str,
    *,
    after_dead_event_id: int | None = None,
    qty: int = 1000,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Call[list[int]]:
    """Return the ids of the group's dead events, to redrive or purge them page by page.

    Args:
        after_dead_event_id: Only dead events with a higher id; None: start at the first.
        qty: The most to return, 1 or more.
        since: As for `browse_dead_events`.
        until: As for `browse_dead_events`.

    Returns:
        0 to `qty` ids, lowest first.

    Raises:
        ArgumentError: `qty` or an id is out of range, or a time has no zone.

    Source: `sluice.list_dead_event_ids`.
    """
    parameters = (
        queue_name,
        group_name,
        after_id(after_dead_event_id, "after_dead_event_id"),
        whole(qty, "qty", 1),
        zoned_time(since, "since"),
        zoned_time(until, "until"),
    )
    sql: LiteralString = (
        "select * from sluice.list_dead_event_ids(%s::text, %s::text, %s::bigint, %s::integer, "
        "%s::timestamptz, %s::timestamptz)"
    )
    return Call(sql, parameters, column)


@method(ShareGroup)
def redrive_events(
    queue_name: str,
    group_name: str,
    dead_event_ids: Sequence[int],
    *,
    target_queue_name: str | None = None,
) -> Call[list[RedrivenEvent]]:
    """Redrive dead events: move them back to this group as new events, or to a work queue as messages.

    Only this group receives the new events. Their attempts start at 0, and `redriven` increases by 1. In a work
    queue, a message is an object with the fields of the event, and its header `x-pgmq-replayed-from` has `log`,
    `group`, `ev_id`, `dead_event_id`, `dead_at`, `reason` and `redriven`. Concurrent calls move each event once.

    Args:
        dead_event_ids: Ids of the dead events; all are moved in one transaction.
        target_queue_name: The work queue to move them to; None: the group.

    Returns:
        The dead events found with their new ev_ids or msg_ids, each once, lowest `dead_event_id` first.

    Raises:
        GroupNotFoundError: The group was dropped; its dead events can still be moved to a work queue. Nothing was
            moved.
        LogStateError: The log accepts no events, or not this many in one transaction. Nothing was moved.
        QueueNotFoundError: The queue does not exist; the error names it. Nothing was moved.
        ArgumentError: An id is out of range.

    Source: `sluice.redrive_events`.
    """
    sql: LiteralString = (
        "select * from sluice.redrive_events(%s::text, %s::text, %s::bigint[], %s::text)"
    )
    ids = checked_ids(dead_event_ids, "dead_event_id")
    return Call(sql, (queue_name, group_name, ids, target_queue_name), record(RedrivenEvent))


@method(ShareGroup)
def redrive_events_matching(
    queue_name: str,
    group_name: str,
    *,
    target_queue_name: str | None = None,
    after_dead_event_id: int | None = None,
    qty: int = 1000,
    ev_type: str | None = None,
    reason: str | None = None,
    ev_ids: Sequence[int] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Call[list[RedrivenEvent]]:
    """Redrive the next dead events that match a filter, as `redrive_events` does.

    Skips events that another transaction is moving. In a loop, set `until` or limit the number of calls: an event
    that fails again immediately is dead-lettered again, and the loop would not terminate.

    Args:
        target_queue_name: The work queue to move them to; None: the group.
        after_dead_event_id: Only dead events with a higher id; None: start at the first.
        qty: The most to move, 1 or more.
        ev_type: As for `browse_dead_events`, as are the other filters.

    Returns:
        The events moved, lowest `dead_event_id` first; pass the last as `after_dead_event_id` of the next call.

    Raises:
        GroupNotFoundError: As for `redrive_events`.
        LogStateError: As for `redrive_events`.
        QueueNotFoundError: As for `redrive_events`.
        ArgumentError: As for `browse_dead_events`.

    Source: `sluice.redrive_events_matching`.
    """
    parameters = (
        queue_name,
        group_name,
        target_queue_name,
        after_id(after_dead_event_id, "after_dead_event_id"),
        whole(qty, "qty", 1),
        *_filter(ev_type, reason, ev_ids, since, until),
    )
    sql: LiteralString = (
        "select * from sluice.redrive_events_matching(%s::text, %s::text, %s::text, %s::bigint, "
        "%s::integer, %s::text, %s::text, %s::bigint[], %s::timestamptz, %s::timestamptz)"
    )
    return Call(sql, parameters, record(RedrivenEvent))


@method(ShareGroup)
def purge_dead_events(
    queue_name: str,
    group_name: str,
    *,
    older_than: timedelta | None = None,
    dead_event_ids: Sequence[int] | None = None,
    qty: int = 10000,
) -> Call[int]:
    """Delete dead events by age, oldest first, or by id.

    Args:
        older_than: Minimum time since dead-lettering; 0 selects all.
        dead_event_ids: Ids of the dead events. Give either this or `older_than`.
        qty: The most to delete, 1 or more; a longer list takes several calls.

    Returns:
        The number of deleted events; call it again until this is 0.

    Raises:
        ArgumentError: Neither or both selections are given, or `qty` or an id is out of range.

    Source: `sluice.purge_dead_events`.
    """
    parameters = (
        queue_name,
        group_name,
        older_than,
        None if dead_event_ids is None else checked_ids(dead_event_ids, "dead_event_id"),
        whole(qty, "qty", 1),
    )
    sql: LiteralString = (
        "select sluice.purge_dead_events("
        "%s::text, %s::text, %s::interval, %s::bigint[], %s::integer)"
    )
    return Call(sql, parameters, scalar)


def _filter(
    ev_type: str | None,
    reason: str | None,
    ev_ids: Sequence[int] | None,
    since: datetime | None,
    until: datetime | None,
) -> tuple[Any, ...]:
    return (
        ev_type,
        reason,
        None if ev_ids is None else checked_ids(ev_ids, "ev_id"),
        zoned_time(since, "since"),
        zoned_time(until, "until"),
    )
