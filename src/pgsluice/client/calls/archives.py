"""Browsing, archive retention, lake exports and replay: functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import (
    after_id,
    checked_id,
    checked_ids,
    conditions,
    whole,
)
from pgsluice.client.calls.call import Call, one, record, scalar
from pgsluice.client.calls.clients import Archive, WorkQueue, method
from pgsluice.client.records import (
    Export,
    Replay,
    Replayed,
    ReplayStep,
    StoredMessage,
)


@method(Archive)
def list_exports() -> Call[list[Export]]:
    """Return every archive export to a lake table, by queue and name.

    A message stays in the archive until every export of its queue has verified it in the lake, whatever the
    retention.

    Source: `sluice.list_exports`.
    """
    return Call("select * from sluice.list_exports()", (), record(Export))


@method(Archive)
def drop_export(queue_name: str, export_name: str) -> Call[bool]:
    """Drop an export, so that the archive no longer keeps messages for it; the lake table is not changed.

    Returns:
        False when the queue has no export of this name.

    Source: `sluice.drop_export`.
    """
    sql: LiteralString = "select sluice.drop_export(%s::text, %s::text)"
    return Call(sql, (queue_name, export_name), scalar, queue_name)


@method(WorkQueue)
def get_messages(queue_name: str, msg_ids: Sequence[int]) -> Call[list[StoredMessage]]:
    """Return messages by msg_id from the queue, its archive and its dead letters.

    Returns:
        The messages found, lowest `msg_id` first; `state` tells the places apart. Dead letters outlive their queue:
        after it was dropped and created again, a msg_id may occur twice.

    Source: `sluice.get_messages`.
    """
    sql: LiteralString = "select * from sluice.get_messages(%s::text, %s::bigint[])"
    return Call(
        sql, (queue_name, checked_ids(msg_ids, "msg_ids")), record(StoredMessage), queue_name
    )


@method(WorkQueue)
def browse(
    queue_name: str,
    relation: str = "queue",
    *,
    after_msg_id: int | None = None,
    qty: int = 100,
    conditional: dict[str, Any] | None = None,
    conditional_headers: dict[str, Any] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    matching: str | None = None,
) -> Call[list[StoredMessage]]:
    """Return a page of the messages of a queue without reading them: visibility timeouts stay as they are.

    Pass the last `msg_id` of a page as `after_msg_id` of the next. A transaction that commits late, or a late
    archive, can still add messages with lower ids. A filter also scans the messages that it skips.

    Args:
        queue_name: An existing queue.
        relation: `queue`, `archive`, `dead letters`, or `all` of them.
        after_msg_id: Only messages with a higher msg_id; None: start at the first.
        qty: The most to return, 1 or more.
        conditional: Only messages that contain this JSON object (`message @> conditional`).
        conditional_headers: Only messages whose headers contain this JSON object.
        since: Only messages sent at this time or later, or with relation `archive` archived, with a time zone.
        until: Only messages sent, or archived, before this time, with a time zone.
        matching: Only messages with this msg_id or key, or with this text in the payload or the headers, in upper
            or lower case; a JSON object or array is contained in the payload or the headers.

    Returns:
        0 to `qty` messages, lowest `msg_id` first; fewer than `qty`: this is the last page. Dead letters of a queue
        that was dropped and created again may repeat ids; a page has all of the same id, also beyond `qty`.

    Raises:
        ArgumentError: `qty` is out of range, `relation` is unknown, or a time has no zone.
        PayloadError: A condition is not JSON.

    Source: `sluice.browse`.
    """
    parameters = (
        queue_name,
        relation,
        after_id(after_msg_id, "after_msg_id"),
        whole(qty, "qty", 1),
        *conditions(conditional, conditional_headers, since, until),
        matching,
    )
    sql: LiteralString = (
        "select * from sluice.browse(%s::text, %s::text, %s::bigint, %s::integer, "
        "%s::jsonb, %s::jsonb, %s::timestamptz, %s::timestamptz, %s::text)"
    )
    return Call(sql, parameters, record(StoredMessage), queue_name)


@method(WorkQueue)
def count_messages(
    queue_name: str,
    relation: str = "queue",
    *,
    conditional: dict[str, Any] | None = None,
    conditional_headers: dict[str, Any] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    matching: str | None = None,
) -> Call[int]:
    """Count the messages of a queue that match a filter; scans up to the whole tables.

    Args:
        queue_name: An existing queue.
        relation: As for `browse`.
        conditional: As for `browse`.
        conditional_headers: As for `browse`.
        since: As for `browse`.
        until: As for `browse`.
        matching: As for `browse`.

    Raises:
        ArgumentError: As for `browse`.
        PayloadError: As for `browse`.

    Source: `sluice.count_messages`.
    """
    parameters = (
        queue_name,
        relation,
        *conditions(conditional, conditional_headers, since, until),
        matching,
    )
    sql: LiteralString = (
        "select sluice.count_messages("
        "%s::text, %s::text, %s::jsonb, %s::jsonb, %s::timestamptz, %s::timestamptz, %s::text)"
    )
    return Call(sql, parameters, scalar, queue_name)


@method(Archive)
def replay(
    queue_name: str, msg_ids: Sequence[int], *, target_queue_name: str | None = None
) -> Call[list[Replayed]]:
    """Send archived messages again, as new messages that are visible immediately; the archive keeps the originals.

    The new messages keep the headers and get `x-pgmq-replayed-from`: an object with `queue`, `msg_id` and
    `archived_at`, and with `headers` if the original headers were not an object. Not idempotent: each call sends
    new messages.

    Args:
        queue_name: The queue whose archive holds the messages.
        msg_ids: Ids of the archived messages; all are sent in one transaction.
        target_queue_name: The queue to send to; None: the same queue.

    Returns:
        The messages found in the archive with their new msg_ids, each once, lowest `archived_msg_id` first.

    Raises:
        QueueNotFoundError: One of the queues does not exist; the error names it. Nothing was sent.

    Source: `sluice.replay`.
    """
    sql: LiteralString = "select * from sluice.replay(%s::text, %s::bigint[], %s::text)"
    return Call(
        sql, (queue_name, checked_ids(msg_ids, "msg_ids"), target_queue_name), record(Replayed)
    )


@method(Archive)
def start_replay(
    queue_name: str,
    *,
    target_queue_name: str | None = None,
    conditional: dict[str, Any] | None = None,
    conditional_headers: dict[str, Any] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Call[int]:
    """Start a replay of the archived messages that match a filter; `continue_replay` sends them.

    Messages archived later are not part of the replay.

    Args:
        queue_name: The queue whose archive is replayed.
        target_queue_name: The queue to send to; None: the same.
        conditional: As for `browse`. Without any filter, the whole archive is sent.
        conditional_headers: As for `browse`.
        since: As for `browse`.
        until: As for `browse`.

    Returns:
        The replay_id.

    Raises:
        QueueNotFoundError: One of the queues does not exist; the error names it.
        ArgumentError: A time has no zone.
        PayloadError: A condition is not JSON.

    Source: `sluice.start_replay`.
    """
    parameters = (
        queue_name,
        target_queue_name,
        *conditions(conditional, conditional_headers, since, until),
    )
    sql: LiteralString = (
        "select sluice.start_replay("
        "%s::text, %s::text, %s::jsonb, %s::jsonb, %s::timestamptz, %s::timestamptz)"
    )
    return Call(sql, parameters, scalar)


@method(Archive)
def continue_replay(replay_id: int, *, qty: int = 1000) -> Call[ReplayStep]:
    """Send the next messages of a replay, as `replay` does; call it, and commit, until it is finished.

    A step and the replay's position are committed in one transaction: concurrent callers take turns, and the next
    step repeats a step that a crash rolled back.

    Args:
        replay_id: From `start_replay`.
        qty: The most to send, 1 or more.

    Raises:
        ArgumentError: `qty` is out of range.
        ServerError: The replay does not exist; dropping one of its queues drops it.

    Source: `sluice.continue_replay`.
    """
    return Call(
        "select * from sluice.continue_replay(%s::bigint, %s::integer)",
        (checked_id(replay_id, "replay_id"), whole(qty, "qty", 1)),
        one(ReplayStep),
    )


@method(Archive)
def list_replays() -> Call[list[Replay]]:
    """Return every replay, running or finished, earliest first.

    Source: `sluice.list_replays`.
    """
    return Call("select * from sluice.list_replays()", (), record(Replay))
