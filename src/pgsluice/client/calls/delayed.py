"""Delayed events of logs, as calls."""

from __future__ import annotations

from datetime import datetime
from typing import LiteralString

from pgsluice.client.calls.arguments import after_id, point, whole, zoned_time
from pgsluice.client.calls.call import Call, record, scalar
from pgsluice.client.calls.clients import EventLog, method
from pgsluice.client.calls.payload import event_parameters
from pgsluice.client.log_records import DelayedEvent, NewEvent
from pgsluice.tracing.carrier import Sends


@method(EventLog)
def insert_delayed_event(
    log_name: str,
    ev_type: str | None,
    ev_data: str | None,
    delay: int | datetime,
    *,
    ev_extra1: str | None = None,
    ev_extra2: str | None = None,
    ev_extra3: str | None = None,
    ev_extra4: str | None = None,
) -> Call[int | None]:
    """Append one event later.

    When it is due, maintenance inserts it into the log and assigns its ev_id; a claim of a share group does so too,
    if it found fewer events than requested. Its ev_time is the time of this call. The number of delayed events is
    unlimited.

    Args:
        log_name: An existing log.
        ev_type: Type of the event.
        ev_data: Text of the event, JSON by convention.
        delay: Seconds until the event is due, 0 or more, or the time when it is due (with a time zone).
        ev_extra1: Additional text, as are the next three.

    Returns:
        The ev_id if the event is already due and was appended immediately; else None.

    Raises:
        LogNotFoundError: The log does not exist.
        LogStateError: The log accepts no events, or no more in one transaction. A delayed event is appended even if
            the log accepts no events by then.
        ArgumentError: The delay is negative, not whole, or a time without a zone. Nothing was inserted.
        PayloadError: A field is not text that PostgreSQL can store. Nothing was inserted.

    Source: `sluice.insert_event`.
    """
    event = NewEvent(ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
    fields = event_parameters(event)
    due = "%s::timestamptz" if isinstance(delay, datetime) else "%s::integer * interval '1 second'"
    sql: LiteralString = (
        f"select sluice.insert_event(%s::text, %s::text, %s::text, {due}, "
        "%s::text, %s::text, %s::text, %s::text)"
    )
    parameters = (log_name, *fields[:2], point(delay, "delay"), *fields[2:])
    return Call(sql, parameters, scalar, sends=Sends("pgq", log_name, 7))


@method(EventLog)
def list_delayed(
    log_name: str,
    *,
    qty: int = 100,
    after_due_at: datetime | None = None,
    after_delayed_id: int | None = None,
) -> Call[list[DelayedEvent]]:
    """Return a page of a log's delayed events, next due first.

    Args:
        log_name: An existing log.
        qty: The most to return, 1 or more.
        after_due_at: Only events due later; None: start at the next one.
        after_delayed_id: Also events due at exactly `after_due_at` with a higher id; None: no.

    Returns:
        0 to `qty` events; fewer than `qty`: this is the last page. Scans delayed events of other logs that are due
        earlier.

    Raises:
        LogNotFoundError: The log does not exist.
        ArgumentError: `qty` is out of range, or the time has no zone.

    Source: `sluice.list_delayed`.
    """
    sql: LiteralString = (
        "select * from sluice.list_delayed(%s::text, %s::integer, %s::timestamptz, %s::bigint)"
    )
    parameters = (
        log_name,
        whole(qty, "qty", 1),
        zoned_time(after_due_at, "after_due_at"),
        after_id(after_delayed_id, "after_delayed_id"),
    )
    return Call(sql, parameters, record(DelayedEvent))


@method(EventLog)
def count_delayed(log_name: str) -> Call[int]:
    """Count a log's delayed events; scans those of all logs, about 3 s per million.

    Raises:
        LogNotFoundError: The log does not exist.

    Source: `sluice.count_delayed`.
    """
    return Call("select sluice.count_delayed(%s::text)", (log_name,), scalar)
