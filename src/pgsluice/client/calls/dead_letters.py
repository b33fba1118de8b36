"""Dead letters of queues, share groups and consumers; functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any, LiteralString, Unpack

from psycopg.types.json import Jsonb

from pgsluice.client.calls.arguments import after_id, checked_ids, whole, zoned_time
from pgsluice.client.calls.call import Call, record, scalar, storable_text
from pgsluice.client.calls.clients import DeadLetters, EventLog, method
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.dead_letter_records import (
    DeadLetter,
    DeadLetterFilter,
    DeadLetterGroup,
    FailedEvent,
    FoundDeadLetters,
    Redriven,
)
from pgsluice.errors import ArgumentError

# Most drivers do not know xid8: it is cast to bigint.
_LISTED: LiteralString = (
    "select d.dead_letter_id, d.queue_name, d.consumer_name, d.msg_id, d.read_ct, d.enqueued_at, d.last_read_at, "
    "d.message, d.headers, d.reason, d.error, d.dead_at, d.attempts, d.first_failed_at, d.error_type, d.trace, "
    "d.worker, d.redriven, d.claim_id, d.ev_txid::text::bigint, d.ev_type, d.ev_data, d.ev_extra1, d.ev_extra2, "
    "d.ev_extra3, d.ev_extra4, d.key, f.searched_dead_letter_id "
    "from sluice.list_dead_letters(%s::text, %s::text, %s::jsonb, %s::bigint, %s::integer, "
    "%s::boolean, %s::integer, %s::boolean) as f cross join lateral (select (f.letter).*) as d"
)


@method(DeadLetters)
def browse(
    queue_name: str,
    consumer_name: str | None,
    *,
    after_dead_letter_id: int | None = None,
    qty: int = 100,
    with_contents: bool = True,
    **matching: Unpack[DeadLetterFilter],
) -> Call[list[DeadLetter]]:
    """Return a page of dead letters.

    Args:
        after_dead_letter_id: Only dead letters with a higher id; None: start at the first.
        qty: The most to return, 1 or more.
        with_contents: False: leave out payloads, headers and traces.
        matching: Members of `DeadLetterFilter`.

    Returns:
        0 to `qty` dead letters, lowest `dead_letter_id` first; fewer than `qty`: this is the last page.

    Raises:
        ArgumentError: `qty` or an id is out of range, a time has no zone, or there is no such filter.
        PayloadError: `conditional` or `conditional_headers` has no JSON form; the error names the path.

    Source: `sluice.list_dead_letters`.
    """
    parameters = (
        queue_name,
        consumer_name,
        _filter(**matching),
        after_id(after_dead_letter_id, "after_dead_letter_id"),
        whole(qty, "qty", 1),
        False,
        None,
        with_contents,
    )
    return Call(_LISTED, parameters, lambda rows: [DeadLetter(*row[:-1]) for row in rows])


@method(DeadLetters)
def count(
    queue_name: str, consumer_name: str | None, **matching: Unpack[DeadLetterFilter]
) -> Call[int]:
    """Count the dead letters that match a filter.

    Args:
        matching: As for `browse`.

    Raises:
        ArgumentError, PayloadError: As for `browse`.

    Source: `sluice.count_dead_letters`.
    """
    sql: LiteralString = "select sluice.count_dead_letters(%s::text, %s::text, %s::jsonb)"
    return Call(sql, (queue_name, consumer_name, _filter(**matching)), scalar)


@method(DeadLetters)
def search(
    queue_name: str,
    consumer_name: str | None,
    *,
    before_dead_letter_id: int | None = None,
    qty: int = 100,
    scan: int = 10_000,
    with_contents: bool = True,
    **matching: Unpack[DeadLetterFilter],
) -> Call[FoundDeadLetters]:
    """Search dead letters at a bounded cost, newest first.

    A search ends after `qty` dead letters that match, or `scan` dead letters in all; it can be continued.

    Args:
        before_dead_letter_id: `searched_dead_letter_id` of the search to continue; None: start at the newest.
        qty: The most to return, 1 or more.
        scan: The most to look at, 1 or more.
        with_contents: False: leave out payloads, headers and traces.
        matching: As for `browse`.

    Raises:
        ArgumentError, PayloadError: As for `browse`.

    Source: `sluice.list_dead_letters`.
    """
    parameters = (
        queue_name,
        consumer_name,
        _filter(**matching),
        after_id(before_dead_letter_id, "before_dead_letter_id"),
        whole(qty, "qty", 1),
        True,
        whole(scan, "scan", 1),
        with_contents,
    )
    return Call(_LISTED, parameters, _found)


@method(DeadLetters)
def group_by_error(
    queue_name: str, consumer_name: str | None, *, qty: int = 10_000
) -> Call[list[DeadLetterGroup]]:
    """Return the newest dead letters grouped by reason and error, the most frequent first.

    Args:
        qty: The most to group, 1 or more. As many in all groups together mean that there may be older ones.

    Raises:
        ArgumentError: `qty` is out of range.

    Source: `sluice.group_dead_letters`.
    """
    sql: LiteralString = "select * from sluice.group_dead_letters(%s::text, %s::text, %s::integer)"
    return Call(sql, (queue_name, consumer_name, whole(qty, "qty", 1)), record(DeadLetterGroup))


@method(DeadLetters)
def redrive(
    queue_name: str,
    consumer_name: str | None,
    dead_letter_ids: Sequence[int],
    *,
    target_queue_name: str | None = None,
) -> Call[list[Redriven]]:
    """Redrive dead letters: move them back to their queue, share group or consumer.

    A message becomes a new message, which is visible immediately and keeps the headers. An event becomes a new
    event of the log that only its share group or consumer receives, or with `target_queue_name` a message: an
    object with the fields of the event. Messages get the header `x-pgmq-replayed-from`: an object with `queue` and
    `msg_id`, or `log`, `consumer` and `ev_id`, with `dead_letter_id`, `dead_at` and `reason`, and with `headers` if
    the original headers were not an object. Concurrent calls move each dead letter once.

    Args:
        dead_letter_ids: Ids of the dead letters; all are moved in one transaction.
        target_queue_name: A queue to move them to; None: where they came from.

    Returns:
        The dead letters found with their new ids, each once, lowest `dead_letter_id` first.

    Raises:
        QueueNotFoundError: The queue to move them to does not exist; the error names it. Nothing was moved.
        GroupNotFoundError: The log has neither a share group nor a consumer of this name. Nothing was moved.
        LogNotFoundError: The log does not exist. Nothing was moved.

    Source: `sluice.redrive`.
    """
    ids = checked_ids(dead_letter_ids, "dead_letter_ids")
    return _redrive(
        queue_name,
        consumer_name,
        Jsonb({"dead_letter_ids": ids}),
        target_queue_name,
        None,
        max(len(ids), 1),
    )


@method(DeadLetters)
def redrive_matching(
    queue_name: str,
    consumer_name: str | None,
    *,
    target_queue_name: str | None = None,
    after_dead_letter_id: int | None = None,
    qty: int = 1000,
    **matching: Unpack[DeadLetterFilter],
) -> Call[list[Redriven]]:
    """Redrive the next dead letters that match a filter, as `redrive` does.

    Skips dead letters that another transaction is moving. In a loop, set `until` or limit the number of calls: a
    message that fails again immediately is dead-lettered again, and the loop would not terminate.

    Args:
        target_queue_name: As for `redrive`.
        after_dead_letter_id: Only dead letters with a higher id; None: start at the first.
        qty: The most to move, 1 or more.
        matching: As for `browse`.

    Returns:
        The dead letters moved, lowest `dead_letter_id` first; pass the last as `after_dead_letter_id` of the next
        call.

    Raises:
        QueueNotFoundError, GroupNotFoundError, LogNotFoundError: As for `redrive`.
        ArgumentError, PayloadError: As for `browse`.

    Source: `sluice.redrive`.
    """
    return _redrive(
        queue_name,
        consumer_name,
        _filter(**matching),
        target_queue_name,
        after_id(after_dead_letter_id, "after_dead_letter_id"),
        whole(qty, "qty", 1),
    )


def _redrive(*parameters: Any) -> Call[list[Redriven]]:
    sql: LiteralString = (
        "select * from sluice.redrive("
        "%s::text, %s::text, %s::jsonb, %s::text, %s::bigint, %s::integer)"
    )
    return Call(sql, parameters, record(Redriven))


@method(DeadLetters)
def purge(
    queue_name: str,
    consumer_name: str | None,
    *,
    older_than: timedelta | None = None,
    dead_letter_ids: Sequence[int] | None = None,
    qty: int = 10000,
) -> Call[int]:
    """Delete dead letters by age, oldest first, or by id; call it, and commit, until it returns 0.

    Args:
        older_than: Minimum time since dead-lettering; 0 selects all.
        dead_letter_ids: Ids of the dead letters. Give either this or `older_than`.
        qty: The most to delete, 1 or more.

    Returns:
        The number of deleted dead letters.

    Raises:
        ArgumentError: Neither or both selections are given, or `qty` is out of range. Nothing was deleted.

    Source: `sluice.purge_dead_letters`.
    """
    ids = None if dead_letter_ids is None else checked_ids(dead_letter_ids, "dead_letter_ids")
    sql: LiteralString = (
        "select sluice.purge_dead_letters("
        "%s::text, %s::text, %s::interval, %s::bigint[], %s::integer)"
    )
    return Call(sql, (queue_name, consumer_name, older_than, ids, whole(qty, "qty", 1)), scalar)


@method(EventLog)
def reject_events(
    batch_id: int, failures: Sequence[FailedEvent], *, worker: str | None = None
) -> Call[int]:
    """Dead-letter events of an open batch for its consumer; finish the batch as usual.

    Args:
        batch_id: An open batch.
        failures: The events, each with the reason and the error. Characters that PostgreSQL cannot store are
            escaped.
        worker: Name of the worker, stored with the dead letters.

    Returns:
        The number of dead-lettered events, without those dead-lettered before.

    Raises:
        BatchNotFoundError: The batch is not open.
        ArgumentError: An event is not in the batch. Nothing was dead-lettered.

    Source: `sluice.reject`.
    """
    sql: LiteralString = "select sluice.reject(%s::bigint, %s::jsonb, %s::text)"
    of_events = [
        {name: storable_text(v) if isinstance(v, str) else v for name, v in asdict(each).items()}
        for each in failures
    ]
    parameters = (batch_id, json_parameter(of_events, "failures"), worker)
    return Call(sql, parameters, scalar, is_report=True)


def _filter(**matching: Unpack[DeadLetterFilter]) -> Jsonb:
    """Return a filter as the JSON object that the functions take."""
    if unknown := sorted(matching.keys() - DeadLetterFilter.__annotations__.keys()):
        raise ArgumentError(
            f"dead letters have no filter {unknown[0]!r}; use {', '.join(DeadLetterFilter.__annotations__)}"
        )
    given: dict[str, Any] = {name: value for name, value in matching.items() if value is not None}
    for name, member in (("conditional", "message"), ("conditional_headers", "headers")):
        json_parameter(given.get(name), name)
        if name in given:
            given[member] = given.pop(name)
    for name in ("since", "until"):
        zoned_time(given.get(name), name)
    for name in ("dead_letter_ids", "msg_ids"):
        if name in given:
            given[name] = checked_ids(given[name], name)
    found = json_parameter(given, "filter")
    assert found is not None  # noqa: S101 - a dict
    return found


def _found(rows: Sequence[tuple[Any, ...]]) -> FoundDeadLetters:
    """Return the dead letters, and the id in the last row of a search, which has no dead letter."""
    is_open = bool(rows) and rows[-1][-1] is not None
    found = [DeadLetter(*row[:-1]) for row in (rows[:-1] if is_open else rows)]
    return FoundDeadLetters(found, rows[-1][-1] if is_open else None)
