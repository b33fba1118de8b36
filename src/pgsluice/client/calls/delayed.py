"""Events that wait for their time, as calls; argument names are those of the SQL functions."""

from __future__ import annotations

from datetime import datetime
from typing import LiteralString

from pgsluice.client.calls.arguments import after_id, point, whole, zoned_time
from pgsluice.client.calls.call import Call, record, scalar
from pgsluice.client.calls.payload import text_parameter
from pgsluice.client.log_records import DelayedEvent, NewEvent


def insert_event(queue_name: str, event: NewEvent, delay: int | datetime) -> Call[int | None]:
    for name, value in zip(NewEvent._fields, event, strict=True):
        text_parameter(value, name)
    ev_type, ev_data, *extras = event
    sql: LiteralString
    if isinstance(delay, datetime):
        sql = (
            "select sluice.insert_event(%s::text, %s::text, %s::text, %s::timestamptz, "
            "%s::text, %s::text, %s::text, %s::text)"
        )
    else:
        sql = (
            "select sluice.insert_event(%s::text, %s::text, %s::text, "
            "%s::integer * interval '1 second', %s::text, %s::text, %s::text, %s::text)"
        )
    return Call(sql, (queue_name, ev_type, ev_data, point(delay, "delay"), *extras), scalar)


def list_delayed(
    queue_name: str, qty: int, after_due_at: datetime | None, after_delayed_id: int | None
) -> Call[list[DelayedEvent]]:
    sql: LiteralString = (
        "select * from sluice.list_delayed(%s::text, %s::integer, %s::timestamptz, %s::bigint)"
    )
    parameters = (
        queue_name,
        whole(qty, "qty", 1),
        zoned_time(after_due_at, "after_due_at"),
        after_id(after_delayed_id, "after_delayed_id"),
    )
    return Call(sql, parameters, record(DelayedEvent))


def count_delayed(queue_name: str) -> Call[int]:
    return Call("select sluice.count_delayed(%s::text)", (queue_name,), scalar)
