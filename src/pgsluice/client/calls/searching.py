"""Bounded searches in work queues and their archives: functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, LiteralString

from pgsluice.client.calls.arguments import after_id, whole, zoned_time
from pgsluice.client.calls.call import Call
from pgsluice.client.calls.clients import Operations, method
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.records import StoredMessage
from pgsluice.client.search_records import FoundMessages


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
) -> Call[FoundMessages]:
    """Search a queue or its archive at a bounded cost; visibility timeouts stay as they are.

    A search ends after `qty` messages that match, or `scan` messages in all; it can be continued where it ended.

    Args:
        queue_name: An existing queue.
        relation: `queue` or `archive`.
        of_state: Only messages in this state, for a queue; None: all.
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
    )
    sql: LiteralString = (
        "select * from sluice.search_messages(%s::text, %s::text, %s::text, %s::bigint, "
        "%s::timestamptz, %s::boolean, %s::integer, %s::integer, %s::text, %s::jsonb, "
        "%s::timestamptz, %s::timestamptz, %s::boolean, %s::integer)"
    )
    return Call(sql, parameters, _found_messages, queue_name)


def _found_messages(rows: Sequence[tuple[Any, ...]]) -> FoundMessages:
    """Return the messages, and the place in the last row, which has no message."""
    is_open = bool(rows) and rows[-1][-2] is not None
    members = rows[:-1] if is_open else rows
    searched_msg_id, searched_vt = rows[-1][-2:] if is_open else (None, None)
    return FoundMessages(
        [StoredMessage(*row[:-3]) for row in members],
        searched_msg_id,
        searched_vt,
        frozenset(row[0] for row in members if row[-3]),
    )
