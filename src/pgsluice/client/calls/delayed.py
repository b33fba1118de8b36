"""Events that wait for their time, as calls; argument names are those of the SQL functions."""

from __future__ import annotations

from datetime import datetime
from typing import LiteralString

from pgsluice.client.calls.arguments import after_id, point, whole, zoned_time
from pgsluice.client.calls.call import Call, record, scalar
from pgsluice.client.calls.clients import EventLog, method
from pgsluice.client.calls.payload import event_parameters
from pgsluice.client.log_records import DelayedEvent, NewEvent


@method(EventLog)
def insert_delayed_event(
    queue_name: str,
    ev_type: str | None,
    ev_data: str | None,
    delay: int | datetime,
    *,
    ev_extra1: str | None = None,
    ev_extra2: str | None = None,
    ev_extra3: str | None = None,
    ev_extra4: str | None = None,
) -> Call[int | None]:
    """Append one event at a time to come.

    When it is due, maintenance puts it into the log, or the next claim of a share group that finds too little; then
    it gets its ev_id. Its ev_time is when this was called. Any number may wait.

    Args:
        queue_name: An existing log.
        ev_type: What it is.
        ev_data: What it says; text, JSON by convention.
        delay: Seconds until it is due, 0 or more, or the time when it is (with a time zone).
        ev_extra1: More of it, as are the next three.

    Returns:
        None while it waits; its ev_id when it is due already and was appended at once.

    Raises:
        LogNotFoundError: There is no such log.
        LogStateError: The log is closed for events, or takes no more of them from one transaction. One that waits
            comes also into a log that was closed meanwhile.
        ArgumentError: The delay is negative, not whole, or a time without a zone. Nothing was inserted.
        PayloadError: A field is no text that PostgreSQL can store. Nothing was inserted.

    Source: `sluice.insert_event`.
    """
    event = NewEvent(ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
    fields = event_parameters(event)
    due = "%s::timestamptz" if isinstance(delay, datetime) else "%s::integer * interval '1 second'"
    sql: LiteralString = (
        f"select sluice.insert_event(%s::text, %s::text, %s::text, {due}, "
        "%s::text, %s::text, %s::text, %s::text)"
    )
    return Call(sql, (queue_name, *fields[:2], point(delay, "delay"), *fields[2:]), scalar)


@method(EventLog)
def list_delayed(
    queue_name: str,
    *,
    qty: int = 100,
    after_due_at: datetime | None = None,
    after_delayed_id: int | None = None,
) -> Call[list[DelayedEvent]]:
    """Return a page of the events that wait for their time, the next one first.

    Args:
        queue_name: An existing log.
        qty: The most to return, 1 or more.
        after_due_at: Only those that are due later; None: from the next one on.
        after_delayed_id: Also those due at `after_due_at` with a higher id; None: not.

    Returns:
        0 to `qty` events; fewer than `qty`: there are no more. Where another log has millions that wait, this reads
        those of them that are due before.

    Raises:
        LogNotFoundError: There is no such log.
        ArgumentError: `qty` is out of range, or the time has no zone.

    Source: `sluice.list_delayed`.
    """
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


@method(EventLog)
def count_delayed(queue_name: str) -> Call[int]:
    """Return how many events of a log wait for their time; it reads those of all logs, about 3 s for a million.

    Raises:
        LogNotFoundError: There is no such log.

    Source: `sluice.count_delayed`.
    """
    return Call("select sluice.count_delayed(%s::text)", (queue_name,), scalar)
