"""The functions of schema `pgq` as calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import point, whole
from pgsluice.client.calls.call import Call, nothing, record, scalar
from pgsluice.client.calls.payload import text_parameter
from pgsluice.client.log_records import BatchInfo, ConsumerInfo, Event, LogInfo, OpenBatch


def create_queue(queue_name: str) -> Call[bool]:
    return Call("select pgq.create_queue(%s::text)", (queue_name,), _is_one)


def drop_queue(queue_name: str, force: bool) -> Call[None]:
    return Call("select pgq.drop_queue(%s::text, %s::boolean)", (queue_name, force), nothing)


def set_queue_config(queue_name: str, param_name: str, param_value: str) -> Call[None]:
    return Call(
        "select pgq.set_queue_config(%s::text, %s::text, %s::text)",
        (queue_name, param_name, param_value),
        nothing,
    )


def get_queue_info(queue_name: str | None) -> Call[list[LogInfo]]:
    return Call("select * from pgq.get_queue_info(%s::text)", (queue_name,), record(LogInfo))


def current_event_table(queue_name: str) -> Call[str]:
    return Call("select pgq.current_event_table(%s::text)", (queue_name,), scalar)


def insert_event(
    queue_name: str,
    ev_type: str | None,
    ev_data: str | None,
    ev_extra1: str | None,
    ev_extra2: str | None,
    ev_extra3: str | None,
    ev_extra4: str | None,
) -> Call[int]:
    fields = {
        "ev_type": ev_type,
        "ev_data": ev_data,
        "ev_extra1": ev_extra1,
        "ev_extra2": ev_extra2,
        "ev_extra3": ev_extra3,
        "ev_extra4": ev_extra4,
    }
    for name, value in fields.items():
        text_parameter(value, name)
    sql: LiteralString = (
        "select pgq.insert_event("
        "%s::text, %s::text, %s::text, %s::text, %s::text, %s::text, %s::text)"
    )
    return Call(sql, (queue_name, *fields.values()), scalar)


def register_consumer(queue_name: str, consumer_name: str) -> Call[bool]:
    sql: LiteralString = "select pgq.register_consumer(%s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name), _is_one)


def register_consumer_at(queue_name: str, consumer_name: str, tick_pos: int) -> Call[bool]:
    sql: LiteralString = "select pgq.register_consumer_at(%s::text, %s::text, %s::bigint)"
    return Call(sql, (queue_name, consumer_name, tick_pos), _is_one)


def unregister_consumer(queue_name: str, consumer_name: str) -> Call[int]:
    sql: LiteralString = "select pgq.unregister_consumer(%s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name), scalar)


def get_consumer_info(
    queue_name: str | None, consumer_name: str | None
) -> Call[list[ConsumerInfo]]:
    sql: LiteralString = "select * from pgq.get_consumer_info(%s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name), record(ConsumerInfo))


def ticker(queue_name: str) -> Call[int | None]:
    return Call("select pgq.ticker(%s::text)", (queue_name,), scalar)


def ticker_all() -> Call[int]:
    return Call("select pgq.ticker()", (), scalar)


def ticker_external(
    queue_name: str, tick_id: int, orig_timestamp: datetime, event_seq: int
) -> Call[int]:
    return Call(
        "select pgq.ticker(%s::text, %s::bigint, %s::timestamptz, %s::bigint)",
        (queue_name, tick_id, point(orig_timestamp, "orig_timestamp"), event_seq),
        scalar,
    )


def force_tick(queue_name: str) -> Call[int | None]:
    return Call("select pgq.force_tick(%s::text)", (queue_name,), scalar)


def maint_retry_events() -> Call[int]:
    return Call("select pgq.maint_retry_events()", (), scalar)


def next_batch(queue_name: str, consumer_name: str) -> Call[int | None]:
    sql: LiteralString = "select pgq.next_batch(%s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name), scalar)


def next_batch_info(queue_name: str, consumer_name: str) -> Call[OpenBatch | None]:
    sql: LiteralString = "select * from pgq.next_batch_info(%s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name), open_batch)


def next_batch_custom(
    queue_name: str,
    consumer_name: str,
    min_lag: timedelta | None,
    min_count: int | None,
    min_interval: timedelta | None,
) -> Call[OpenBatch | None]:
    sql: LiteralString = (
        "select * from pgq.next_batch_custom("
        "%s::text, %s::text, %s::interval, %s::integer, %s::interval)"
    )
    return Call(sql, (queue_name, consumer_name, min_lag, min_count, min_interval), open_batch)


def get_batch_info(batch_id: int) -> Call[BatchInfo | None]:
    return Call(
        "select * from pgq.get_batch_info(%s::bigint)",
        (batch_id,),
        lambda rows: BatchInfo(*rows[0]) if rows and rows[0][0] is not None else None,
    )


def get_batch_events(batch_id: int) -> Call[list[Event]]:
    return Call("select * from pgq.get_batch_events(%s::bigint)", (batch_id,), record(Event))


def event_retry(batch_id: int, ev_id: int, retry_after: int | datetime) -> Call[bool]:
    if isinstance(retry_after, datetime):
        at = point(retry_after, "retry_after")
        sql: LiteralString = "select pgq.event_retry(%s::bigint, %s::bigint, %s::timestamptz)"
        return Call(sql, (batch_id, ev_id, at), _is_one)
    sql = "select pgq.event_retry(%s::bigint, %s::bigint, %s::integer)"
    return Call(sql, (batch_id, ev_id, whole(retry_after, "retry_after", 0)), _is_one)


def batch_retry(batch_id: int, retry_seconds: int) -> Call[int]:
    return Call(
        "select pgq.batch_retry(%s::bigint, %s::integer)",
        (batch_id, whole(retry_seconds, "retry_seconds", 0)),
        scalar,
    )


def finish_batch(batch_id: int) -> Call[bool]:
    return Call("select pgq.finish_batch(%s::bigint)", (batch_id,), _is_one)


def version() -> Call[str]:
    return Call("select pgq.version()", (), scalar)


def open_batch(rows: Sequence[tuple[Any, ...]]) -> OpenBatch | None:
    """The batch of the one row; all its columns are null when there is none."""
    return OpenBatch(*rows[0]) if rows and rows[0][0] is not None else None


def _is_one(rows: Sequence[tuple[Any, ...]]) -> bool:
    return bool(scalar(rows))
