"""Bounded searches in work queues, their archives and their dead letters: functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, LiteralString

from pgsluice.client.calls.arguments import after_id, whole, zoned_time
from pgsluice.client.calls.call import Call, record
from pgsluice.client.calls.clients import Operations, method
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.records import StoredMessage
from pgsluice.client.search_records import DeadLetterPlace, FoundMessages


@method(Operations)
def search_messages(
    queue_name: str,
    relation: str = "queue",
    *,
    of_state: Literal["visible", "in flight", "retrying", "delayed"] | None = None,
    after_msg_id: int | None = None,
    after_vt: datetime | None = None,
    newest_first: bool = True,
    qty: int = 100,
    scan: int = 10_000,
    key: str | None = None,
    conditional: Any = None,
    since: datetime | None = None,
    until: datetime | None = None,
    with_contents: bool = True,
    message_bytes_max: int | None = None,
    matching: str | None = None,
    searched_bytes_max: int | None = None,
) -> Call[FoundMessages]:
    """Search the messages of a queue at a bounded cost; visibility timeouts stay as they are.

    A search ends after `qty` messages that match, or `scan` messages in all; it can be continued where it ended.

    Args:
        queue_name: An existing queue.
        relation: `queue`, `archive`, `dead letters`, or `all` of them in one order of `msg_id`.
        of_state: Only messages in this state, for relation `queue`; None: all.
        after_msg_id: `searched_msg_id` of the search to continue; None: start.
        after_vt: Its `searched_vt`.
        newest_first: Highest `msg_id` first; for those in flight, retrying or delayed, the latest `vt` first.
        qty: The most to return, 1 or more.
        scan: The most to look at, 1 or more.
        key: Only messages with this key (header `x-pgmq-group`).
        conditional: Only messages that contain this JSON value (`message @> conditional`).
        since: Only messages sent at this time or later, with a time zone. Messages of a transaction that took
            longer than a minute may be missed, as with `until`.
        until: Only messages sent before this time, with a time zone.
        with_contents: False: leave out payloads, headers and `archived_at`; sluice_monitor may do so.
        message_bytes_max: Leave out payloads that are stored in more bytes; None: none.
        matching: Only messages with this msg_id or key, or with this text in the payload or the headers, in upper
            or lower case; a JSON object or array is contained in the payload or the headers.
        searched_bytes_max: Do not search payloads that are stored in more bytes, only the msg_id, key and headers
            of such messages; None: search all.

    Raises:
        ArgumentError: `qty` or `scan` is out of range, `relation` or `of_state` is unknown, or a time has no zone.
        PayloadError: `conditional` is not JSON.

    Source: `sluice.search_messages`.
    """
    parameters = (
        queue_name,
        relation,
        of_state,
        after_id(after_msg_id, "after_msg_id"),
        zoned_time(after_vt, "after_vt"),
        newest_first,
        whole(qty, "qty", 1),
        whole(scan, "scan", 1),
        key,
        json_parameter(conditional, "conditional"),
        zoned_time(since, "since"),
        zoned_time(until, "until"),
        with_contents,
        None if message_bytes_max is None else whole(message_bytes_max, "message_bytes_max", 0),
        matching,
        None if searched_bytes_max is None else whole(searched_bytes_max, "searched_bytes_max", 0),
    )
    sql: LiteralString = (
        "select * from sluice.search_messages(%s::text, %s::text, %s::text, %s::bigint, "
        "%s::timestamptz, %s::boolean, %s::integer, %s::integer, %s::text, %s::jsonb, "
        "%s::timestamptz, %s::timestamptz, %s::boolean, %s::integer, %s::text, %s::integer)"
    )
    return Call(sql, parameters, _found_messages, queue_name)


def _found_messages(rows: Sequence[tuple[Any, ...]]) -> FoundMessages:
    """Return the messages, and what the last row, which has none, says about the search."""
    *members, last = rows
    return FoundMessages(
        [StoredMessage(*row[:9]) for row in members],
        searched_msg_id=last[10],
        searched_vt=last[11],
        left_out=frozenset(row[0] for row in members if row[9]),
        searched=last[12],
        unsearched=last[13],
    )


def list_dead_letter_places() -> Call[list[DeadLetterPlace]]:
    """Return whose dead letters there are, by name, also those of what was dropped."""
    # Loose index scans: as many lookups as there are places.
    sql: LiteralString = """
        with recursive queue as (
            (select lower(d.queue_name) as name from sluice.dead_letter_message as d order by 1 limit 1)
            union all
            select (
                select lower(d.queue_name) from sluice.dead_letter_message as d
                where lower(d.queue_name) > q.name order by lower(d.queue_name) limit 1
            )
            from queue as q where q.name is not null
        ),
        reader as (
            (
                select d.queue_name as name, d.consumer_name as reader from sluice.dead_letter_event as d
                order by d.queue_name, d.consumer_name limit 1
            )
            union all
            select following.queue_name, following.consumer_name
            from reader as r
            cross join lateral (
                select d.queue_name, d.consumer_name from sluice.dead_letter_event as d
                where (d.queue_name, d.consumer_name) > (r.name, r.reader)
                order by d.queue_name, d.consumer_name limit 1
            ) as following
        )
        select q.name, null::text from queue as q where q.name is not null
        union all
        select r.name, r.reader from reader as r
        order by 1, 2"""
    return Call(sql, (), record(DeadLetterPlace))
