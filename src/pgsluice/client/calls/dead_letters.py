"""The functions of schema `sluice` about dead letters of work queues, as calls; argument names are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import (
    after_id,
    conditions,
    known_ids,
    whole,
)
from pgsluice.client.calls.call import Call, record, scalar
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
    """Return a page of a queue's dead letters; those of a dropped queue are still there.

    Args:
        queue_name: The queue they were in; it need not exist any more.
        after_dead_letter_id: Only those with a higher id; None: from the first on.
        qty: The most to return, 1 or more.
        conditional: As for `browse`.
        conditional_headers: As for `browse`.
        since: Only messages that were given up at this time or later, with a time zone.
        until: Only messages that were given up before this time, with a time zone.
        reason: Only those with this reason.
        error_type: Only those whose last error was of this type.

    Returns:
        0 to `qty` dead letters, lowest `dead_letter_id` first; fewer than `qty`: there are no more.

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
    """Return how many dead letters of a queue a filter matches.

    Args:
        queue_name: As for `browse_dead_letters`, as are all others.
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
def redrive(
    queue_name: str, dead_letter_ids: Sequence[int], *, target_queue_name: str | None = None
) -> Call[list[Redriven]]:
    """Move dead letters back into their queue, as new messages that are visible at once.

    Their headers stay and get `x-pgmq-replayed-from`: an object with `queue`, `msg_id`, `dead_letter_id`, `dead_at`
    and `reason`, and with `headers` if these were no object. Of two that redrive the same letter one moves it.

    Args:
        queue_name: The queue they were in.
        dead_letter_ids: Their ids, of any number: all are moved in one transaction.
        target_queue_name: The queue to move them to; None: the same.

    Returns:
        Those that were there, lowest first, each once, with their new msg_ids.

    Raises:
        QueueNotFoundError: The queue to move to does not exist; it is named. Nothing was moved.

    Source: `sluice.redrive`.
    """
    parameters = (queue_name, known_ids(dead_letter_ids, "dead_letter_id"), target_queue_name)
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
    """Move the next dead letters that a filter matches, as `redrive` does.

    Those that somebody else moves at this moment are skipped. Whoever repeats it until nothing is left sets
    `until`, or counts: a message that fails again at once is a dead letter again, and there would be no end.

    Args:
        queue_name: The queue they were in.
        target_queue_name: The queue to move them to; None: the same.
        after_dead_letter_id: Only those with a higher id; None: from the first on.
        qty: The most to move, 1 or more.
        conditional: As for `browse`.
        conditional_headers: As for `browse`.
        since: As for `browse_dead_letters`.
        until: As for `browse_dead_letters`.
        reason: As for `browse_dead_letters`.
        error_type: As for `browse_dead_letters`.

    Returns:
        What was moved, lowest `dead_letter_id` first; the last is where the next call goes on.

    Raises:
        QueueNotFoundError: The queue to move to does not exist; it is named. Nothing was moved.
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
    """Delete dead letters of a queue for good; call it, and commit, until it returns 0.

    Args:
        queue_name: The queue they were in; it need not exist any more.
        older_than: Those that were given up so long ago, the oldest first; 0 is all of them.
        dead_letter_ids: Or those with these ids; the others are not looked at.
        qty: The most to delete, 1 or more.

    Returns:
        How many were deleted.

    Raises:
        ArgumentError: Neither or both were given, or `qty` is out of range. Nothing was deleted.

    Source: `sluice.purge_dead_letters`.
    """
    ids = None if dead_letter_ids is None else known_ids(dead_letter_ids, "dead_letter_id")
    sql: LiteralString = (
        "select sluice.purge_dead_letters(%s::text, %s::interval, %s::bigint[], %s::integer)"
    )
    return Call(sql, (queue_name, older_than, ids, whole(qty, "qty", 1)), scalar)
