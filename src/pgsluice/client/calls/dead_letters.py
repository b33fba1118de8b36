"""Dead letters of work queues: browsing, redriving and purging; functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import (
    after_id,
    checked_ids,
    conditions,
    whole,
    zoned_time,
)
from pgsluice.client.calls.call import Call, column, record, scalar
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.records import (
    DeadLetter,
    Redriven,
)


@method(WorkQueue)
def browse_dead_letters(
    queue_name: str,
    *,
    after_dead_letter_id: int | None = None,
    qty: int = 100,
    conditional: dict[str, Any] | None = None,
    conditional_headers: dict[str, Any] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    reason: str | None = None,
    error_type: str | None = None,
) -> Call[list[DeadLetter]]:
    """Return a page of a queue's dead letters; they outlive their queue.

    Args:
        queue_name: The queue of the messages; it may have been dropped.
        after_dead_letter_id: Only dead letters with a higher id; None: start at the first.
        qty: The most to return, 1 or more.
        conditional: As for `browse`.
        conditional_headers: As for `browse`.
        since: Only messages dead-lettered at this time or later, with a time zone.
        until: Only messages dead-lettered before this time, with a time zone.
        reason: Only messages with this reason.
        error_type: Only messages whose last error was of this type.

    Returns:
        0 to `qty` dead letters, lowest `dead_letter_id` first; fewer than `qty`: this is the last page.

    Raises:
        ArgumentError: As for `browse`.
        PayloadError: As for `browse`.

    Source: `sluice.browse_dead_letters`.
    """
    parameters = (
        queue_name,
        after_id(after_dead_letter_id, "after_dead_letter_id"),
        whole(qty, "qty", 1),
        *conditions(conditional, conditional_headers, since, until),
        reason,
        error_type,
    )
    sql: LiteralString = (
        "select dead_letter_id, queue_name, msg_id, read_ct, enqueued_at, last_read_at, message, "
        "headers, reason, error, dead_at, attempts, first_failed_at, error_type, trace, worker "
        "from sluice.browse_dead_letters(%s::text, %s::bigint, %s::integer, "
        "%s::jsonb, %s::jsonb, %s::timestamptz, %s::timestamptz, %s::text, %s::text)"
    )
    return Call(sql, parameters, record(DeadLetter))


@method(WorkQueue)
def count_dead_letters(
    queue_name: str,
    *,
    conditional: dict[str, Any] | None = None,
    conditional_headers: dict[str, Any] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    reason: str | None = None,
    error_type: str | None = None,
) -> Call[int]:
    """Count a queue's dead letters that match a filter.

    Args:
        queue_name: As for `browse_dead_letters`.
        conditional: As for `browse`.
        conditional_headers: As for `browse`.
        since: As for `browse_dead_letters`.
        until: As for `browse_dead_letters`.
        reason: As for `browse_dead_letters`.
        error_type: As for `browse_dead_letters`.

    Raises:
        ArgumentError: As for `browse`.
        PayloadError: As for `browse`.

    Source: `sluice.count_dead_letters`.
    """
    parameters = (
        queue_name,
        *conditions(conditional, conditional_headers, since, until),
        reason,
        error_type,
    )
    sql: LiteralString = (
        "select sluice.count_dead_letters("
        "%s::text, %s::jsonb, %s::jsonb, %s::timestamptz, %s::timestamptz, %s::text, %s::text)"
    )
    return Call(sql, parameters, scalar)


@method(WorkQueue)
def list_dead_letter_ids(
    queue_name: str,
    *,
    after_dead_letter_id: int | None = None,
    qty: int = 1000,
    since: datetime | None = None,
    until: datetime | None = None,
    reason: str | None = None,
    error_type: str | None = None,
    error: str | None = None,
) -> Call[list[int]]:
    """Return the ids of a queue's dead letters that match a filter, to redrive or purge them page by page.

    Args:
        queue_name: As for `browse_dead_letters`, as are the arguments not listed here.
        after_dead_letter_id: Only dead letters with a higher id; None: start at the first.
        qty: The most to return, 1 or more.
        since: Only messages dead-lettered at this time or later, with a time zone.
        until: Only messages dead-lettered before this time, with a time zone.
        reason: Only messages with this reason.
        error_type: Only messages whose last error was of this type.
        error: Only messages with this last error, or with this pattern of it: its first line with # for numbers and
            UUIDs. Empty: only those without an error.

    Returns:
        0 to `qty` ids, lowest first.

    Raises:
        ArgumentError: `qty` or an id is out of range, or a time has no zone.

    Source: `sluice.list_dead_letter_ids`.
    """
    parameters = (
        queue_name,
        after_id(after_dead_letter_id, "after_dead_letter_id"),
        whole(qty, "qty", 1),
        zoned_time(since, "since"),
        zoned_time(until, "until"),
        reason,
        error_type,
        error,
    )
    sql: LiteralString = (
        "select * from sluice.list_dead_letter_ids(%s::text, %s::bigint, %s::integer, "
        "%s::timestamptz, %s::timestamptz, %s::text, %s::text, %s::text)"
    )
    return Call(sql, parameters, column)


@method(WorkQueue)
def redrive(
    queue_name: str, dead_letter_ids: Sequence[int], *, target_queue_name: str | None = None
) -> Call[list[Redriven]]:
    """Redrive dead letters: move them back to their queue, as new messages that are visible immediately.

    The new messages keep the headers and get `x-pgmq-replayed-from`: an object with `queue`, `msg_id`,
    `dead_letter_id`, `dead_at` and `reason`, and with `headers` if the original headers were not an object.
    Concurrent calls move each dead letter once.

    Args:
        queue_name: The queue of the messages.
        dead_letter_ids: Ids of the dead letters; all are moved in one transaction.
        target_queue_name: The queue to move them to; None: the same queue.

    Returns:
        The dead letters found with their new msg_ids, each once, lowest `dead_letter_id` first.

    Raises:
        QueueNotFoundError: The target queue does not exist; the error names it. Nothing was moved.

    Source: `sluice.redrive`.
    """
    parameters = (queue_name, checked_ids(dead_letter_ids, "dead_letter_id"), target_queue_name)
    sql: LiteralString = "select * from sluice.redrive(%s::text, %s::bigint[], %s::text)"
    return Call(sql, parameters, record(Redriven))


@method(WorkQueue)
def redrive_matching(
    queue_name: str,
    *,
    target_queue_name: str | None = None,
    after_dead_letter_id: int | None = None,
    qty: int = 1000,
    conditional: dict[str, Any] | None = None,
    conditional_headers: dict[str, Any] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    reason: str | None = None,
    error_type: str | None = None,
) -> Call[list[Redriven]]:
    """Redrive the next dead letters that match a filter, as `redrive` does.

    Skips dead letters that another transaction is moving. In a loop, set `until` or limit the number of calls: a
    message that fails again immediately is dead-lettered again, and the loop would not terminate.

    Args:
        queue_name: The queue of the messages.
        target_queue_name: The queue to move them to; None: the same queue.
        after_dead_letter_id: Only dead letters with a higher id; None: start at the first.
        qty: The most to move, 1 or more.
        conditional: As for `browse`.
        conditional_headers: As for `browse`.
        since: As for `browse_dead_letters`.
        until: As for `browse_dead_letters`.
        reason: As for `browse_dead_letters`.
        error_type: As for `browse_dead_letters`.

    Returns:
        The dead letters moved, lowest `dead_letter_id` first; pass the last as `after_dead_letter_id` of the next
        call.

    Raises:
        QueueNotFoundError: The target queue does not exist; the error names it. Nothing was moved.
        ArgumentError: As for `browse`.
        PayloadError: As for `browse`.

    Source: `sluice.redrive_matching`.
    """
    parameters = (
        queue_name,
        target_queue_name,
        after_id(after_dead_letter_id, "after_dead_letter_id"),
        whole(qty, "qty", 1),
        *conditions(conditional, conditional_headers, since, until),
        reason,
        error_type,
    )
    sql: LiteralString = (
        "select * from sluice.redrive_matching(%s::text, %s::text, %s::bigint, %s::integer, "
        "%s::jsonb, %s::jsonb, %s::timestamptz, %s::timestamptz, %s::text, %s::text)"
    )
    return Call(sql, parameters, record(Redriven))


@method(WorkQueue)
def purge_dead_letters(
    queue_name: str,
    *,
    older_than: timedelta | None = None,
    dead_letter_ids: Sequence[int] | None = None,
    qty: int = 10000,
) -> Call[int]:
    """Delete dead letters of a queue by age, oldest first, or by id; call it, and commit, until it returns 0.

    Args:
        queue_name: The queue of the messages; it may have been dropped.
        older_than: Minimum time since dead-lettering; 0 selects all.
        dead_letter_ids: Ids of the dead letters. Give either this or `older_than`.
        qty: The most to delete, 1 or more.

    Returns:
        The number of deleted dead letters.

    Raises:
        ArgumentError: Neither or both selections are given, or `qty` is out of range. Nothing was deleted.

    Source: `sluice.purge_dead_letters`.
    """
    ids = None if dead_letter_ids is None else checked_ids(dead_letter_ids, "dead_letter_id")
    sql: LiteralString = (
        "select sluice.purge_dead_letters(%s::text, %s::interval, %s::bigint[], %s::integer)"
    )
    return Call(sql, (queue_name, older_than, ids, whole(qty, "qty", 1)), scalar)
