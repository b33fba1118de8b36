"""The functions of schema `sluice` about dead events of share groups, as calls; argument names are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import after_id, known_ids, whole, zoned_time
from pgsluice.client.calls.call import Call, record, scalar
from pgsluice.client.calls.clients import ShareGroup, method
from pgsluice.client.log_records import DeadEvent, RedrivenEvent


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
    """Return a page of the group's dead events; those of a dropped group or log are still there.

    Args:
        after_dead_event_id: Only those with a higher id; None: from the first on.
        qty: The most to return, 1 or more.
        ev_type: Only events of this type.
        reason: Only those that were given up for this reason.
        ev_ids: Only events with these ids in the log.
        since: Only those that were given up at this time or later, with a time zone.
        until: Only those that were given up before this time, with a time zone.

    Returns:
        0 to `qty` dead events, lowest `dead_event_id` first; fewer than `qty`: there are no more.

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
    # xid8 is unknown to most drivers: its number is a bigint.
    sql: LiteralString = (
        "select dead_event_id, queue_name, group_name, claim_id, ev_id, ev_time, "
        "ev_txid::text::bigint, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4, "
        "redriven, attempts, deliveries, reason, error, dead_at "
        "from sluice.browse_dead_events(%s::text, %s::text, %s::bigint, %s::integer, "
        "%s::text, %s::text, %s::bigint[], %s::timestamptz, %s::timestamptz)"
    )
    return Call(sql, parameters, record(DeadEvent))


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
    """Return how many dead events of the group a filter matches.

    Args:
        ev_type: As for `browse_dead_events`, as are all others.

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
def redrive_events(
    queue_name: str,
    group_name: str,
    dead_event_ids: Sequence[int],
    *,
    target_queue_name: str | None = None,
) -> Call[list[RedrivenEvent]]:
    """Move dead events back to the group, as new events that it alone gets, or into a work queue.

    In the group their attempts begin anew, and `redriven` is one more. In a queue they are messages: an object with
    the fields of the event, and the header `x-pgmq-replayed-from` with `log`, `group`, `ev_id`, `dead_event_id`,
    `dead_at`, `reason` and `redriven`. Of two that redrive the same event one moves it.

    Args:
        dead_event_ids: Their ids, of any number: all are moved in one transaction.
        target_queue_name: The work queue to move them to; None: to the group.

    Returns:
        Those that were there, lowest first, each once, with their new ev_ids or msg_ids.

    Raises:
        GroupNotFoundError: The group was dropped; a queue can still have its dead events. Nothing was moved.
        LogStateError: The log is closed for events, or takes fewer of them from one transaction. Nothing was moved.
        QueueNotFoundError: The queue does not exist; it is named. Nothing was moved.
        ArgumentError: An id is out of range.

    Source: `sluice.redrive_events`.
    """
    sql: LiteralString = (
        "select * from sluice.redrive_events(%s::text, %s::text, %s::bigint[], %s::text)"
    )
    ids = known_ids(dead_event_ids, "dead_event_id")
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
    """Move the next dead events that a filter matches, as `redrive_events` does.

    Those that somebody else moves at this moment are skipped. Whoever repeats it until nothing is left sets
    `until`, or counts: an event that fails again at once is dead again, and there would be no end.

    Args:
        target_queue_name: The work queue to move them to; None: to the group.
        after_dead_event_id: Only those with a higher id; None: from the first on.
        qty: The most to move, 1 or more.
        ev_type: As for `browse_dead_events`, as are all others.

    Returns:
        What was moved, lowest `dead_event_id` first; the last is where the next call goes on.

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
    """Delete dead events for good: the oldest of those that are so old, or those with these ids.

    Args:
        older_than: How long ago they were given up, at least; 0 for all of them.
        dead_event_ids: Their ids; one of the two is to be given.
        qty: The most to delete, 1 or more: a long list takes several calls.

    Returns:
        How many were deleted; call it until that is 0.

    Raises:
        ArgumentError: Neither or both are given, or `qty` or an id is out of range.

    Source: `sluice.purge_dead_events`.
    """
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
        None if ev_ids is None else known_ids(ev_ids, "ev_id"),
        zoned_time(since, "since"),
        zoned_time(until, "until"),
    )
