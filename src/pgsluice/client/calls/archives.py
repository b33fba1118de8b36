"""The functions of schema `sluice` that look, keep archives and send again, as calls; argument names are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import (
    after_id,
    conditions,
    known_id,
    known_ids,
    whole,
)
from pgsluice.client.calls.call import Call, nothing, one, record, scalar
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.records import (
    ArchiveRetention,
    Export,
    Replay,
    Replayed,
    ReplayStep,
    StoredMessage,
)
from pgsluice.errors import ArgumentError


@method(WorkQueue)
def set_retention(queue_name: str, archive_retention: timedelta | None) -> Call[None]:
    """Keep archived messages of a queue for a while; maintenance deletes the older ones.

    Args:
        queue_name: An existing queue.
        archive_retention: How long, at least, 0 or more; None: for ever, as at the beginning.

    Raises:
        ArgumentError: It is negative, or reaches beyond the range of times. Nothing was changed.

    Source: `sluice.set_retention`.
    """
    if archive_retention is not None and archive_retention < timedelta():
        raise ArgumentError(
            f"archive_retention is {archive_retention}; use 0 or more, or None to keep for ever"
        )
    sql: LiteralString = "select sluice.set_retention(%s::text, %s::interval)"
    return Call(sql, (queue_name, archive_retention), nothing, queue_name)


@method(WorkQueue)
def list_retentions() -> Call[list[ArchiveRetention]]:
    """Return every queue, by name, with how long its archived messages are kept.

    Source: `sluice.list_retentions`.
    """
    return Call("select * from sluice.list_retentions()", (), record(ArchiveRetention))


@method(WorkQueue)
def list_exports() -> Call[list[Export]]:
    """Return every export of an archive, by queue and name.

    An archive keeps what an export of its queue has not verified in the lake, whatever its retention.

    Source: `sluice.list_exports`.
    """
    return Call("select * from sluice.list_exports()", (), record(Export))


@method(WorkQueue)
def drop_export(queue_name: str, export_name: str) -> Call[bool]:
    """Keep archived messages no longer for an export; the lake stays as it is.

    Returns:
        False when the queue has no export of this name.

    Source: `sluice.drop_export`.
    """
    sql: LiteralString = "select sluice.drop_export(%s::text, %s::text)"
    return Call(sql, (queue_name, export_name), scalar, queue_name)


@method(WorkQueue)
def peek(
    queue_name: str, qty: int = 1, *, after_msg_id: int | None = None
) -> Call[list[StoredMessage]]:
    """Return messages of a queue as they are, visible or not, without claiming them.

    Args:
        queue_name: An existing queue.
        qty: The most to return, 1 or more.
        after_msg_id: Only messages with a higher msg_id; None: from the first on.

    Returns:
        0 to `qty` messages, lowest `msg_id` first.

    Raises:
        ArgumentError: `qty` is out of range.

    Source: `sluice.peek`.
    """
    parameters = (queue_name, whole(qty, "qty", 1), after_id(after_msg_id, "after_msg_id"))
    sql: LiteralString = "select * from sluice.peek(%s::text, %s::integer, %s::bigint)"
    return Call(sql, parameters, record(StoredMessage), queue_name)


@method(WorkQueue)
def get_messages(queue_name: str, msg_ids: Sequence[int]) -> Call[list[StoredMessage]]:
    """Return messages by msg_id, wherever they are: in the queue, its archive or the dead letters.

    Returns:
        Those that were found, lowest `msg_id` first; `state` says where. The dead letters of a queue that was
        dropped and made again stay: a msg_id may then be there twice.

    Source: `sluice.get_messages`.
    """
    sql: LiteralString = "select * from sluice.get_messages(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, known_ids(msg_ids, "msg_id")), record(StoredMessage), queue_name)


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
) -> Call[list[StoredMessage]]:
    """Return a page of a queue or its archive, without claiming anything.

    The last `msg_id` of a page is where the next one begins. A message with a lower one may still come: sent by a
    transaction that commits late, or archived late. A filter reads also what it passes by.

    Args:
        queue_name: An existing queue.
        relation: `queue` or `archive`.
        after_msg_id: Only messages with a higher msg_id; None: from the first on.
        qty: The most to return, 1 or more.
        conditional: Only messages that contain this JSON object (`message @> conditional`).
        conditional_headers: Only messages whose headers contain this JSON object.
        since: Only messages that came there at this time or later (queue: `enqueued_at`; archive: `archived_at`),
            with a time zone.
        until: Only messages that came there before this time, with a time zone.

    Returns:
        0 to `qty` messages, lowest `msg_id` first; fewer than `qty`: there are no more.

    Raises:
        ArgumentError: `qty` is out of range, `relation` is neither, or a time has no zone.
        PayloadError: A condition is not JSON.

    Source: `sluice.browse`.
    """
    parameters = (
        queue_name,
        relation,
        after_id(after_msg_id, "after_msg_id"),
        whole(qty, "qty", 1),
        *conditions(conditional, conditional_headers, since, until),
    )
    sql: LiteralString = (
        "select * from sluice.browse(%s::text, %s::text, %s::bigint, %s::integer, "
        "%s::jsonb, %s::jsonb, %s::timestamptz, %s::timestamptz)"
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
) -> Call[int]:
    """Return how many messages of a queue or its archive a filter matches; reads them, or the whole table.

    Args:
        queue_name: An existing queue.
        relation: `queue` or `archive`.
        conditional: As for `browse`.
        conditional_headers: As for `browse`.
        since: As for `browse`.
        until: As for `browse`.

    Raises:
        ArgumentError: As for `browse`.
        PayloadError: As for `browse`.

    Source: `sluice.count_messages`.
    """
    parameters = (queue_name, relation, *conditions(conditional, conditional_headers, since, until))
    sql: LiteralString = (
        "select sluice.count_messages("
        "%s::text, %s::text, %s::jsonb, %s::jsonb, %s::timestamptz, %s::timestamptz)"
    )
    return Call(sql, parameters, scalar, queue_name)


@method(WorkQueue)
def replay(
    queue_name: str, msg_ids: Sequence[int], *, target_queue_name: str | None = None
) -> Call[list[Replayed]]:
    """Send archived messages again, as new messages that are visible at once; the archive keeps them.

    Their headers stay and get `x-pgmq-replayed-from`: an object with `queue`, `msg_id` and `archived_at`, and with
    `headers` if these were no object. Each call sends them again.

    Args:
        queue_name: The queue in whose archive they are.
        msg_ids: Their ids there, of any number: all are sent in one transaction.
        target_queue_name: The queue to send to; None: the same.

    Returns:
        Those that were in the archive, lowest first, each once, with their new msg_ids.

    Raises:
        QueueNotFoundError: One of the queues does not exist; it is named. Nothing was sent.

    Source: `sluice.replay`.
    """
    sql: LiteralString = "select * from sluice.replay(%s::text, %s::bigint[], %s::text)"
    return Call(
        sql, (queue_name, known_ids(msg_ids, "msg_id"), target_queue_name), record(Replayed)
    )


@method(WorkQueue)
def start_replay(
    queue_name: str,
    *,
    target_queue_name: str | None = None,
    conditional: dict[str, Any] | None = None,
    conditional_headers: dict[str, Any] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Call[int]:
    """Begin to send archived messages again that a filter matches; `continue_replay` sends them.

    What is archived from now on is not part of it.

    Args:
        queue_name: The queue whose archive it is.
        target_queue_name: The queue to send to; None: the same.
        conditional: As for `browse`, as are the next three, of the archive; without any, everything is sent.
        conditional_headers: As for `browse`.
        since: As for `browse`.
        until: As for `browse`.

    Returns:
        Its replay_id.

    Raises:
        QueueNotFoundError: One of the queues does not exist; it is named.
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


@method(WorkQueue)
def continue_replay(replay_id: int, *, qty: int = 1000) -> Call[ReplayStep]:
    """Send the next messages of a replay, as `replay` does; call it, and commit, until it is finished.

    A step and its record are one transaction: two processes that go on with one replay take turns, and what a
    crash takes back is sent by the next step.

    Args:
        replay_id: From `start_replay`.
        qty: The most to send, 1 or more.

    Raises:
        ArgumentError: `qty` is out of range.
        ServerError: There is no such replay; it goes with its queues.

    Source: `sluice.continue_replay`.
    """
    return Call(
        "select * from sluice.continue_replay(%s::bigint, %s::integer)",
        (known_id(replay_id, "replay_id"), whole(qty, "qty", 1)),
        one(ReplayStep),
    )


@method(WorkQueue)
def list_replays() -> Call[list[Replay]]:
    """Return every replay, under way and finished, the earliest first.

    Source: `sluice.list_replays`.
    """
    return Call("select * from sluice.list_replays()", (), record(Replay))
