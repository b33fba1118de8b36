"""The functions of schema `pgmq` as calls; argument names are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString

from psycopg.types.json import Jsonb

from pgsluice.client.calls.arguments import (
    headers_parameter,
    many_ids,
    one_id,
    payloads,
    point,
    point_or_now,
    whole,
)
from pgsluice.client.calls.call import Call, column, nothing, record, scalar
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.records import Message, QueueInfo, QueueMetrics, RoutingMatch, TopicBinding


def create(queue_name: str) -> Call[None]:
    return Call("select pgmq.create(%s::text)", (queue_name,), nothing, queue_name)


def create_unlogged(queue_name: str) -> Call[None]:
    return Call("select pgmq.create_unlogged(%s::text)", (queue_name,), nothing, queue_name)


def drop_queue(queue_name: str) -> Call[bool]:
    return Call("select pgmq.drop_queue(%s::text)", (queue_name,), scalar, queue_name)


def list_queues() -> Call[list[QueueInfo]]:
    return Call("select * from pgmq.list_queues()", (), record(QueueInfo))


def purge_queue(queue_name: str) -> Call[int]:
    return Call("select pgmq.purge_queue(%s::text)", (queue_name,), scalar, queue_name)


def metrics(queue_name: str) -> Call[QueueMetrics]:
    return Call(
        "select * from pgmq.metrics(%s::text)",
        (queue_name,),
        lambda rows: QueueMetrics(*rows[0]),
        queue_name,
    )


def metrics_all() -> Call[list[QueueMetrics]]:
    return Call("select * from pgmq.metrics_all()", (), record(QueueMetrics))


def send(
    queue_name: str, msg: Any, headers: Any = None, delay: int | datetime | None = None
) -> Call[int]:
    sql: LiteralString
    if isinstance(delay, datetime):
        sql = "select pgmq.send(%s::text, %s::jsonb, %s::jsonb, %s::timestamptz)"
    else:
        sql = "select pgmq.send(%s::text, %s::jsonb, %s::jsonb, %s::integer)"
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
    sql: LiteralString
    if isinstance(delay, datetime):
        sql = "select pgmq.send_batch(%s::text, %s::jsonb[], %s::jsonb[], %s::timestamptz)"
    else:
        sql = "select pgmq.send_batch(%s::text, %s::jsonb[], %s::jsonb[], %s::integer)"
    parameters = (queue_name, *payloads(msgs, headers), point_or_now(delay, "delay"))
    return Call(sql, parameters, column, queue_name)


def read(
    queue_name: str, vt: int, qty: int, conditional: dict[str, Any] | None = None
) -> Call[list[Message]]:
    parameters = (
        queue_name,
        whole(vt, "vt", 0),
        whole(qty, "qty", 1),
        json_parameter(conditional, "conditional"),
    )
    return Call(
        "select * from pgmq.read(%s::text, %s::integer, %s::integer, %s::jsonb)",
        parameters,
        record(Message),
        queue_name,
        own_transaction_sql="select message.* "
        "from pg_catalog.set_config('synchronous_commit', 'off', true), "
        "pgmq.read(%s::text, %s::integer, %s::integer, %s::jsonb) as message "
        "order by message.msg_id",
    )


def read_with_poll(
    queue_name: str,
    vt: int,
    qty: int,
    max_poll_seconds: int,
    poll_interval_ms: int,
    conditional: dict[str, Any] | None = None,
) -> Call[list[Message]]:
    parameters = (
        queue_name,
        whole(vt, "vt", 0),
        whole(qty, "qty", 1),
        whole(max_poll_seconds, "max_poll_seconds", 1),
        whole(poll_interval_ms, "poll_interval_ms", 1),
        json_parameter(conditional, "conditional"),
    )
    return Call(
        "select * from pgmq.read_with_poll("
        "%s::text, %s::integer, %s::integer, %s::integer, %s::integer, %s::jsonb)",
        parameters,
        record(Message),
        queue_name,
        own_transaction_sql="select message.* "
        "from pg_catalog.set_config('synchronous_commit', 'off', true), pgmq.read_with_poll("
        "%s::text, %s::integer, %s::integer, %s::integer, %s::integer, %s::jsonb) as message "
        "order by message.msg_id",
    )


def pop(queue_name: str, qty: int = 1) -> Call[list[Message]]:
    return Call(
        "select * from pgmq.pop(%s::text, %s::integer)",
        (queue_name, whole(qty, "qty", 1)),
        record(Message),
        queue_name,
    )


def delete(queue_name: str, msg_id: int) -> Call[bool]:
    sql: LiteralString = "select pgmq.delete(%s::text, %s::bigint)"
    return Call(sql, (queue_name, one_id(msg_id)), scalar, queue_name)


def delete_batch(queue_name: str, msg_ids: Sequence[int]) -> Call[list[int]]:
    sql: LiteralString = "select pgmq.delete(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, many_ids(msg_ids)), column, queue_name)


def archive(queue_name: str, msg_id: int) -> Call[bool]:
    sql: LiteralString = "select pgmq.archive(%s::text, %s::bigint)"
    return Call(sql, (queue_name, one_id(msg_id)), scalar, queue_name)


def archive_batch(queue_name: str, msg_ids: Sequence[int]) -> Call[list[int]]:
    sql: LiteralString = "select pgmq.archive(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, many_ids(msg_ids)), column, queue_name)


def set_vt(queue_name: str, msg_id: int, vt: int | datetime) -> Call[Message | None]:
    sql: LiteralString
    if isinstance(vt, datetime):
        sql = "select * from pgmq.set_vt(%s::text, %s::bigint, %s::timestamptz)"
    else:
        sql = "select * from pgmq.set_vt(%s::text, %s::bigint, %s::integer)"
    return Call(
        sql,
        (queue_name, one_id(msg_id), point(vt, "vt")),
        lambda rows: Message(*rows[0]) if rows else None,
        queue_name,
    )


def set_vt_batch(
    queue_name: str, msg_ids: Sequence[int], vt: int | datetime
) -> Call[list[Message]]:
    sql: LiteralString
    if isinstance(vt, datetime):
        sql = "select * from pgmq.set_vt(%s::text, %s::bigint[], %s::timestamptz)"
    else:
        sql = "select * from pgmq.set_vt(%s::text, %s::bigint[], %s::integer)"
    parameters = (queue_name, many_ids(msg_ids), point(vt, "vt"))
    return Call(sql, parameters, record(Message), queue_name)


def bind_topic(pattern: str, queue_name: str) -> Call[None]:
    sql: LiteralString = "select pgmq.bind_topic(%s::text, %s::text)"
    return Call(sql, (pattern, queue_name), nothing)


def unbind_topic(pattern: str, queue_name: str) -> Call[bool]:
    sql: LiteralString = "select pgmq.unbind_topic(%s::text, %s::text)"
    return Call(sql, (pattern, queue_name), scalar)


def test_routing(routing_key: str) -> Call[list[RoutingMatch]]:
    sql: LiteralString = "select * from pgmq.test_routing(%s::text)"
    return Call(sql, (routing_key,), record(RoutingMatch))


def list_topic_bindings(queue_name: str | None) -> Call[list[TopicBinding]]:
    if queue_name is None:
        return Call("select * from pgmq.list_topic_bindings()", (), record(TopicBinding))
    sql: LiteralString = "select * from pgmq.list_topic_bindings(%s::text)"
    return Call(sql, (queue_name,), record(TopicBinding))


def send_topic(routing_key: str, msg: Any, headers: Any = None, delay: int = 0) -> Call[int]:
    parameters = (
        routing_key,
        Jsonb(None) if msg is None else json_parameter(msg, "message"),  # it takes no SQL null
        headers_parameter(headers, "headers"),
        whole(delay, "delay", 0),
    )
    sql: LiteralString = "select pgmq.send_topic(%s::text, %s::jsonb, %s::jsonb, %s::integer)"
    return Call(sql, parameters, scalar)


def send_batch_topic(
    routing_key: str,
    msgs: Sequence[Any],
    headers: Sequence[Any] | None = None,
    delay: int | datetime | None = None,
) -> Call[dict[str, list[int]]]:
    sql: LiteralString
    if isinstance(delay, datetime):
        sql = (
            "select * from pgmq.send_batch_topic("
            "%s::text, %s::jsonb[], %s::jsonb[], %s::timestamptz)"
        )
    else:
        sql = "select * from pgmq.send_batch_topic(%s::text, %s::jsonb[], %s::jsonb[], %s::integer)"
    return Call(
        sql, (routing_key, *payloads(msgs, headers), point_or_now(delay, "delay")), _ids_by_queue
    )


def _ids_by_queue(rows: Sequence[tuple[Any, ...]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for queue_name, msg_id in rows:
        found.setdefault(queue_name, []).append(msg_id)
    return found
