"""The functions of schema `pgmq` as calls; argument names are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString

from psycopg.types.json import Jsonb

from pgsluice.client.calls.arguments import (
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


@method(WorkQueue)
def create(queue_name: str) -> Call[None]:
    """Create a queue and its archive; do nothing when it exists.

    Args:
        queue_name: 1 to 47 bytes; letters, digits and underscores are always safe. Upper and lower case name the
            same table.

    Raises:
        QueueNameError: The name is empty, has control characters, or would share its table with another queue.
        ServerError: The name is too long or has `$`, `;`, `--` or a quote.

    Source: PGMQ 1.13.0 `pgmq.create`; differences in sql/pgmq/README.md.
    """
    return Call("select pgmq.create(%s::text)", (queue_name,), nothing, queue_name)


@method(WorkQueue)
def create_unlogged(queue_name: str) -> Call[None]:
    """Create an unlogged queue: faster, and empty after a crash, a failover, or a suspend of a server like Neon's.

    Its archive is logged and stays, and the ids go on. Does nothing when the queue exists, whatever its kind.

    Args:
        queue_name: As for `create`.

    Raises:
        QueueNameError: As for `create`.
        ServerError: As for `create`.

    Source: PGMQ 1.13.0 `pgmq.create_unlogged`; differences in sql/pgmq/README.md.
    """
    return Call("select pgmq.create_unlogged(%s::text)", (queue_name,), nothing, queue_name)


@method(WorkQueue)
def drop_queue(queue_name: str) -> Call[bool]:
    """Drop a queue with its messages, its archive and its bindings to topics.

    Returns:
        True when it existed.

    Raises:
        QueueNameError: The table belongs to a queue whose name differs in case; it is named.

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
    """Delete every message of a queue, visible or not, and leave its archive.

    Takes the table's exclusive lock: it waits for open readers, and others wait for it.

    Returns:
        How many there were.

    Source: PGMQ 1.13.0 `pgmq.purge_queue`.
    """
    return Call("select pgmq.purge_queue(%s::text)", (queue_name,), scalar, queue_name)


@method(WorkQueue)
def metrics(queue_name: str) -> Call[QueueMetrics]:
    """Return the state of one queue; counts every message.

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
    """Return the state of every queue, by name.

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
    return Call(sql, parameters, scalar, queue_name)


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
    return Call(sql, parameters, column, queue_name)


@method(WorkQueue)
def bind_topic(pattern: str, queue_name: str) -> Call[None]:
    """Let a queue get the messages whose routing key matches a pattern; twice does no harm.

    Args:
        pattern: Words joined by dots, up to 255 letters, digits, `-` and `_`; `*` stands for one word or a part of
            it, `#` for anything, dots included. So `logs.#` matches `logs.a.b`, and not `logs`.
        queue_name: An existing queue, in the upper and lower case of its creation.

    Raises:
        ServerError: The pattern cannot be one, or the queue does not exist; the message says which.

    Source: PGMQ 1.13.0 `pgmq.bind_topic`.
    """
    sql: LiteralString = "select pgmq.bind_topic(%s::text, %s::text)"
    return Call(sql, (pattern, queue_name), nothing)


@method(WorkQueue)
def unbind_topic(pattern: str, queue_name: str) -> Call[bool]:
    """Take a binding away; the messages it brought stay.

    Returns:
        False when there was none.

    Raises:
        ServerError: The pattern or the name is empty.

    Source: PGMQ 1.13.0 `pgmq.unbind_topic`.
    """
    sql: LiteralString = "select pgmq.unbind_topic(%s::text, %s::text)"
    return Call(sql, (pattern, queue_name), scalar)


@method(WorkQueue)
def test_routing(routing_key: str) -> Call[list[RoutingMatch]]:
    """Return the bindings that a routing key matches, by pattern and queue; nothing is sent.

    Raises:
        ServerError: The key cannot be one; the message says why.

    Source: PGMQ 1.13.0 `pgmq.test_routing`.
    """
    sql: LiteralString = "select * from pgmq.test_routing(%s::text)"
    return Call(sql, (routing_key,), record(RoutingMatch))


@method(WorkQueue)
def list_topic_bindings(queue_name: str | None = None) -> Call[list[TopicBinding]]:
    """Return the bindings of one queue, or of all, the latest first; empty for a queue that does not exist.

    Source: PGMQ 1.13.0 `pgmq.list_topic_bindings`.
    """
    if queue_name is None:
        return Call("select * from pgmq.list_topic_bindings()", (), record(TopicBinding))
    sql: LiteralString = "select * from pgmq.list_topic_bindings(%s::text)"
    return Call(sql, (queue_name,), record(TopicBinding))


@method(WorkQueue)
def send_topic(routing_key: str, message: Any, *, headers: Any = None, delay: int = 0) -> Call[int]:
    """Append one message to every queue bound to its routing key, once to each: to all or to none.

    Args:
        routing_key: Words joined by dots, up to 255 letters, digits, `-` and `_`.
        message: As for `send`, but None is stored as JSON null.
        headers: As for `send`.
        delay: Seconds until it becomes visible, 0 or more.

    Returns:
        How many queues got it; 0 when none is bound.

    Raises:
        PayloadError: As for `send`. Nothing was sent.
        ArgumentError: The delay is negative or not whole. Nothing was sent.
        ServerError: The key cannot be one; the message says why. Nothing was sent.

    Source: PGMQ 1.13.0 `pgmq.send_topic`.
    """
    parameters = (
        routing_key,
        Jsonb(None)
        if message is None
        else json_parameter(message, "message"),  # it takes no SQL null
        headers_parameter(headers, "headers"),
        whole(delay, "delay", 0),
    )
    sql: LiteralString = "select pgmq.send_topic(%s::text, %s::jsonb, %s::jsonb, %s::integer)"
    return Call(sql, parameters, scalar)


@method(WorkQueue)
def send_batch_topic(
    routing_key: str,
    messages: Sequence[Any],
    *,
    headers: Sequence[Any] | None = None,
    delay: int | datetime | None = None,
) -> Call[dict[str, list[int]]]:
    """Append messages to every queue bound to the routing key, once to each: to all or to none.

    Args:
        routing_key: As for `send_topic`.
        messages: As for `send_batch`.
        headers: As for `send_batch`.
        delay: As for `send`, for all of them.

    Returns:
        Their msg_ids by queue, in the order of the messages; empty when no queue is bound.

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
    return Call(
        sql,
        (routing_key, *payloads(messages, headers), point_or_now(delay, "delay")),
        _ids_by_queue,
    )


def _ids_by_queue(rows: Sequence[tuple[Any, ...]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for queue_name, msg_id in rows:
        found.setdefault(queue_name, []).append(msg_id)
    return found
