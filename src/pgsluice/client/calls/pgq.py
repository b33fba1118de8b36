"""The functions of schema `pgq` as calls."""

from __future__ import annotations

from typing import LiteralString

from pgsluice.client.calls.call import Call, record, scalar
from pgsluice.client.calls.payload import text_parameter
from pgsluice.client.records import ConsumerInfo, Event, LogInfo


def create_queue(queue_name: str) -> Call[bool]:
    return Call("select pgq.create_queue(%s::text)", (queue_name,), lambda rows: bool(scalar(rows)))


def drop_queue(queue_name: str, force: bool) -> Call[None]:
    return Call(
        "select pgq.drop_queue(%s::text, %s::boolean)", (queue_name, force), lambda _rows: None
    )


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
    return Call(sql, (queue_name, consumer_name), lambda rows: bool(scalar(rows)))


def unregister_consumer(queue_name: str, consumer_name: str) -> Call[int]:
    sql: LiteralString = "select pgq.unregister_consumer(%s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name), scalar)


def ticker(queue_name: str) -> Call[int | None]:
    return Call("select pgq.ticker(%s::text)", (queue_name,), scalar)


def ticker_all() -> Call[int]:
    return Call("select pgq.ticker()", (), scalar)


def next_batch(queue_name: str, consumer_name: str) -> Call[int | None]:
    sql: LiteralString = "select pgq.next_batch(%s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name), scalar)


def get_batch_events(batch_id: int) -> Call[list[Event]]:
    return Call("select * from pgq.get_batch_events(%s::bigint)", (batch_id,), record(Event))


def finish_batch(batch_id: int) -> Call[bool]:
    return Call("select pgq.finish_batch(%s::bigint)", (batch_id,), lambda rows: bool(scalar(rows)))


def get_queue_info(queue_name: str | None) -> Call[list[LogInfo]]:
    return Call("select * from pgq.get_queue_info(%s::text)", (queue_name,), record(LogInfo))


def get_consumer_info(
    queue_name: str | None, consumer_name: str | None
) -> Call[list[ConsumerInfo]]:
    sql: LiteralString = "select * from pgq.get_consumer_info(%s::text, %s::text)"
    return Call(sql, (queue_name, consumer_name), record(ConsumerInfo))
