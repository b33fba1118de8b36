"""Queues, sending, metrics and topics: functions of schema `pgmq` as calls, with their argument names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString

from psycopg.types.json import Jsonb

from pgsluice.client.calls.arguments import (
    duration,
    headers_parameter,
    int_or_time,
    payloads,
    point_or_now,
    whole,
)
from pgsluice.client.calls.call import Call, column, nothing, one, record, scalar
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.records import QueueInfo, QueueMetrics, RoutingMatch, TopicBinding
from pgsluice.tracing.carrier import Sends


@method(WorkQueue)
def create(
    queue_name: str, *, archive_retention: timedelta | None = timedelta(days=7)
) -> Call[bool]:
    """Create a queue and its archive; do nothing if it exists.

    Args:
        queue_name: 1 to 47 bytes; letters, digits and underscores are always safe. Names that differ only in case
            share a table.
        archive_retention: Maintenance deletes archived messages that are older. None: never, as PGMQ does. The
            option of a queue that exists is kept; `set_queue_options` changes it.

    Returns:
        True if the queue did not exist.

    Raises:
        QueueNameError: The name is empty, contains control characters, or would share its table with another queue.
        ServerError: The name is too long or has `$`, `;`, `--` or a quote.

    Source: `sluice.create_queue`; PGMQ 1.13.0 `pgmq.create`, differences in sql/pgmq/README.md.
    """
    return _created(queue_name, archive_retention, is_unlogged=False)


@method(WorkQueue)
def create_unlogged(
    queue_name: str, *, archive_retention: timedelta | None = timedelta(days=7)
) -> Call[bool]:
    """Create an unlogged queue: faster, but empty after a crash, a failover or a suspend of a serverless database.

    The archive is logged and kept, and ids continue. Does nothing if the queue exists, logged or unlogged.

    Args:
        queue_name: As for `create`.
        archive_retention: As for `create`.

    Returns:
        True if the queue did not exist.

    Raises:
        QueueNameError: As for `create`.
        ServerError: As for `create`.

    Source: `sluice.create_queue`; PGMQ 1.13.0 `pgmq.create_unlogged`, differences in sql/pgmq/README.md.
    """
    return _created(queue_name, archive_retention, is_unlogged=True)


def _created(
    queue_name: str, archive_retention: timedelta | None, *, is_unlogged: bool
) -> Call[bool]:
    kept = duration(archive_retention, "archive_retention")
    return Call(
        "select sluice.create_queue(%s::text, %s::interval, %s::boolean)",
        (queue_name, kept, is_unlogged),
        scalar,
        queue_name,
    )


@method(WorkQueue)
def drop_queue(queue_name: str) -> Call[bool]:
    """Drop a queue with its messages, its archive and its topic bindings.

    Returns:
        True if the queue existed.

    Raises:
        QueueNameError: The table belongs to a queue whose name differs in case; the error names it.

    Source: PGMQ 1.13.0 `pgmq.drop_queue`.
    """
    return Call("select pgmq.drop_queue(%s::text)", (queue_name,), scalar, queue_name)


@method(WorkQueue)
def list_queues() -> Call[list[QueueInfo]]:
    """Return every queue, by name.

    Source: PGMQ 1.13.0 `pgmq.list_queues`.
    """
    return Call("select * from pgmq.list_queues()", (), record(QueueInfo))


@method(WorkQueue)
def purge_queue(queue_name: str) -> Call[int]:
    """Delete all messages of a queue, visible or not, and keep its archive.

    Takes an ACCESS EXCLUSIVE lock on the table: waits for open readers and blocks other sessions.

    Returns:
        The number of deleted messages.

    Source: PGMQ 1.13.0 `pgmq.purge_queue`.
    """
    return Call("select pgmq.purge_queue(%s::text)", (queue_name,), scalar, queue_name)


@method(WorkQueue)
def metrics(queue_name: str) -> Call[QueueMetrics]:
    """Return the metrics of one queue; counts all messages.

    Source: PGMQ 1.13.0 `pgmq.metrics`.
    """
    return Call(
        "select * from pgmq.metrics(%s::text)",
        (queue_name,),
        one(QueueMetrics),
        queue_name,
    )


@method(WorkQueue)
def metrics_all() -> Call[list[QueueMetrics]]:
    """Return the metrics of every queue, by name; counts all messages.

    Source: PGMQ 1.13.0 `pgmq.metrics_all`.
    """
    return Call("select * from pgmq.metrics_all()", (), record(QueueMetrics))


def send(
    queue_name: str, msg: Any, headers: Any = None, delay: int | datetime | None = None
) -> Call[int]:
    sql: LiteralString = f"select pgmq.send(%s::text, %s::jsonb, %s::jsonb, {int_or_time(delay)})"
    parameters = (
        queue_name,
        json_parameter(msg, "message"),
        headers_parameter(headers, "headers"),
        point_or_now(delay, "delay"),
    )
    return Call(sql, parameters, scalar, queue_name, sends=Sends("pgmq", queue_name, 2))


def send_batch(
    queue_name: str,
    msgs: Sequence[Any],
    headers: Sequence[Any] | None = None,
    delay: int | datetime | None = None,
) -> Call[list[int]]:
    sql: LiteralString = (
        f"select pgmq.send_batch(%s::text, %s::jsonb[], %s::jsonb[], {int_or_time(delay)})"
    )
    parameters = (queue_name, *payloads(msgs, headers), point_or_now(delay, "delay"))
    sends = Sends("pgmq", queue_name, 2, len(parameters[1]))
    return Call(sql, parameters, column, queue_name, sends=sends)


@method(WorkQueue)
def bind_topic(pattern: str, queue_name: str) -> Call[None]:
    """Bind a queue to the messages whose routing key matches a pattern; idempotent.

    Args:
        pattern: Words joined by dots, up to 255 letters, digits, `-` and `_`; `*` matches one word or a part of it,
            `#` matches anything, dots included. `logs.#` matches `logs.a.b`, but not `logs`.
        queue_name: An existing queue, spelled as created.

    Raises:
        ServerError: The pattern is invalid, or the queue does not exist; the error tells the cases apart.

    Source: PGMQ 1.13.0 `pgmq.bind_topic`.
    """
    sql: LiteralString = "select pgmq.bind_topic(%s::text, %s::text)"
    return Call(sql, (pattern, queue_name), nothing)


@method(WorkQueue)
def unbind_topic(pattern: str, queue_name: str) -> Call[bool]:
    """Remove a binding; messages already delivered stay.

    Returns:
        False when the binding did not exist.

    Raises:
        ServerError: The pattern or the name is empty.

    Source: PGMQ 1.13.0 `pgmq.unbind_topic`.
    """
    sql: LiteralString = "select pgmq.unbind_topic(%s::text, %s::text)"
    return Call(sql, (pattern, queue_name), scalar)


@method(WorkQueue)
def test_routing(routing_key: str) -> Call[list[RoutingMatch]]:
    """Return the bindings that match a routing key, by pattern and queue; nothing is sent.

    Raises:
        ServerError: The routing key is invalid; the error contains the reason.

    Source: PGMQ 1.13.0 `pgmq.test_routing`.
    """
    sql: LiteralString = "select * from pgmq.test_routing(%s::text)"
    return Call(sql, (routing_key,), record(RoutingMatch))


@method(WorkQueue)
def list_topic_bindings(queue_name: str | None = None) -> Call[list[TopicBinding]]:
    """Return the topic bindings of one queue, or of all, latest first; empty if the queue does not exist.

    Source: PGMQ 1.13.0 `pgmq.list_topic_bindings`.
    """
    if queue_name is None:
        return Call("select * from pgmq.list_topic_bindings()", (), record(TopicBinding))
    sql: LiteralString = "select * from pgmq.list_topic_bindings(%s::text)"
    return Call(sql, (queue_name,), record(TopicBinding))


@method(WorkQueue)
def send_topic(routing_key: str, message: Any, *, headers: Any = None, delay: int = 0) -> Call[int]:
    """Send one message to every queue bound to the routing key, once to each queue: to all or none.

    Args:
        routing_key: Words joined by dots, up to 255 letters, digits, `-` and `_`.
        message: As for `send`, but None is stored as JSON null.
        headers: As for `send`.
        delay: Seconds until the message becomes visible, 0 or more.

    Returns:
        The number of queues that received the message; 0 if none is bound.

    Raises:
        PayloadError: As for `send`. Nothing was sent.
        ArgumentError: The delay is negative or not whole. Nothing was sent.
        ServerError: The routing key is invalid; the error contains the reason. Nothing was sent.

    Source: PGMQ 1.13.0 `pgmq.send_topic`.
    """
    parameters = (
        routing_key,
        Jsonb(None)
        if message is None
        else json_parameter(message, "message"),  # SQL null is not allowed
        headers_parameter(headers, "headers"),
        whole(delay, "delay", 0),
    )
    sql: LiteralString = "select pgmq.send_topic(%s::text, %s::jsonb, %s::jsonb, %s::integer)"
    sends = Sends("pgmq", routing_key, 2, returns_id=False)
    return Call(sql, parameters, scalar, sends=sends)


@method(WorkQueue)
def send_batch_topic(
    routing_key: str,
    messages: Sequence[Any],
    *,
    headers: Sequence[Any] | None = None,
    delay: int | datetime | None = None,
) -> Call[dict[str, list[int]]]:
    """Send messages to every queue bound to the routing key, once to each queue: to all or none.

    Args:
        routing_key: As for `send_topic`.
        messages: As for `send_batch`.
        headers: As for `send_batch`.
        delay: As for `send`, for all messages.

    Returns:
        The msg_ids by queue, in the order of the messages; empty if no queue is bound.

    Raises:
        PayloadError: As for `send_batch`. Nothing was sent.
        ArgumentError: As for `send_batch`. Nothing was sent.
        ServerError: As for `send_topic`. Nothing was sent.

    Source: PGMQ 1.13.0 `pgmq.send_batch_topic`.
    """
    sql: LiteralString = (
        "select * from pgmq.send_batch_topic("  # noqa: S608
        f"%s::text, %s::jsonb[], %s::jsonb[], {int_or_time(delay)})"
    )
    parameters = (routing_key, *payloads(messages, headers), point_or_now(delay, "delay"))
    sends = Sends("pgmq", routing_key, 2, len(parameters[1]))
    return Call(sql, parameters, _ids_by_queue, sends=sends)


def _ids_by_queue(rows: Sequence[tuple[Any, ...]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for queue_name, msg_id in rows:
        found.setdefault(queue_name, []).append(msg_id)
    return found
