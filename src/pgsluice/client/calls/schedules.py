"""Schedules: functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString, Unpack

from psycopg.types.json import Jsonb

from pgsluice.client.calls.arguments import headers_parameter, seconds, several, whole, zoned_time
from pgsluice.client.calls.call import Call, column, record, scalar
from pgsluice.client.calls.clients import Schedules, method
from pgsluice.client.calls.payload import json_parameter, text_parameter
from pgsluice.client.log_records import NewEvent
from pgsluice.client.schedule_records import FiredSlot, Schedule, ScheduleOptions
from pgsluice.errors import ArgumentError

_DAY_S = 86_400
_DEFAULTS = ScheduleOptions(
    cron=None,
    every_s=None,
    time_zone="UTC",
    catch_up="one",
    catch_up_within_s=7 * _DAY_S,
    jitter_s=0,
    starts_at=None,
    ends_at=None,
    declared_by=None,
)


@method(Schedules)
def schedule(
    name: str,
    queue_name: str,
    message: Any,
    *,
    headers: dict[str, Any] | None = None,
    **options: Unpack[ScheduleOptions],
) -> Call[bool]:
    """Schedule a message to a work queue; replaces an existing schedule of this name.

    A replaced schedule stays paused if it was, and keeps its position; if its times change, it continues with the
    first slot after now. The message gets the header `x-pgmq-schedule`: an object with `name` and `slot`, which
    together are an idempotency key.

    Args:
        name: Name of the schedule, 1 to 200 bytes.
        queue_name: An existing queue.
        message: A JSON value, as for `WorkQueue.send`.
        headers: The headers of the message, or None.
        **options: See `ScheduleOptions`.

    Returns:
        False when an identical schedule exists; nothing was changed.

    Raises:
        QueueNotFoundError: The queue does not exist.
        ArgumentError: An option is unknown or its value invalid; for a cron expression, the error names the field.
        PayloadError: The message or the headers are not JSON.

    Source: `sluice.schedule`.
    """
    sent = (json_parameter(message, "message"), headers_parameter(headers, "headers"), None)
    return _schedule(name, queue_name, sent, options)


@method(Schedules)
def schedule_event(
    name: str,
    log_name: str,
    ev_type: str | None,
    ev_data: str | None,
    *,
    ev_extra1: str | None = None,
    ev_extra2: str | None = None,
    ev_extra3: str | None = None,
    ev_extra4: str | None = None,
    **options: Unpack[ScheduleOptions],
) -> Call[bool]:
    """Schedule an event to an event log; replaces an existing schedule of this name, as `schedule` does.

    Args:
        name: Name of the schedule, 1 to 200 bytes.
        log_name: An existing log.
        ev_type: Type of the event.
        ev_data: Text of the event, JSON by convention.
        ev_extra1: Additional text.
        ev_extra2: As `ev_extra1`.
        ev_extra3: As `ev_extra1`.
        ev_extra4: As `ev_extra1`.
        **options: See `ScheduleOptions`.

    Returns:
        False when an identical schedule exists; nothing was changed.

    Raises:
        LogNotFoundError: The log does not exist.
        ArgumentError: An option is unknown or its value invalid; for a cron expression, the error names the field.
        PayloadError: A field is not text that PostgreSQL can store.

    Source: `sluice.schedule`.
    """
    event = NewEvent(ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
    for field, value in zip(NewEvent._fields, event, strict=True):
        text_parameter(value, field)
    fields = Jsonb({field: value for field, value in event._asdict().items() if value is not None})
    return _schedule(name, log_name, (None, None, fields), options)


@method(Schedules)
def unschedule(name: str) -> Call[bool]:
    """Drop a schedule. It stops firing at the commit; messages and events already sent stay.

    Returns:
        False when the schedule does not exist.

    Source: `sluice.unschedule`.
    """
    return Call("select sluice.unschedule(%s::text)", (name,), scalar)


@method(Schedules)
def pause_schedule(name: str) -> Call[bool]:
    """Pause a schedule from the commit on. Slots during the pause are not caught up.

    Returns:
        False when the schedule is already paused.

    Raises:
        ScheduleNotFoundError: The schedule does not exist.

    Source: `sluice.pause_schedule`.
    """
    return Call("select sluice.pause_schedule(%s::text, true)", (name,), scalar)


@method(Schedules)
def resume_schedule(name: str) -> Call[bool]:
    """Resume a paused schedule with the first slot after now.

    Returns:
        False when the schedule is not paused.

    Raises:
        ScheduleNotFoundError: The schedule does not exist.

    Source: `sluice.pause_schedule`.
    """
    return Call("select sluice.pause_schedule(%s::text, false)", (name,), scalar)


@method(Schedules)
def retire_schedules(declared_by: str, names: Sequence[str]) -> Call[list[str]]:
    """Pause the schedules that an app declared earlier and does not declare any more.

    Schedules of other apps, those made by hand and those that are paused stay as they are. The app resumes one by
    declaring it again. One that is resumed with `resume_schedule` is by hand from then on.

    Args:
        declared_by: The app.
        names: All schedules that it declares now.

    Returns:
        Names of the schedules paused by this call, in order.

    Source: `sluice.retire_schedules`.
    """
    return Call(
        "select sluice.retire_schedules(%s::text, %s::text[])",
        (declared_by, several(names, "names", "names")),
        column,
    )


@method(Schedules)
def run_schedule(name: str) -> Call[int]:
    """Send a schedule's message or event now, paused or not; its slots fire independently.

    The header `x-pgmq-schedule` has null as its `slot`.

    Returns:
        The msg_id of the message, or the ev_id of the event.

    Raises:
        ScheduleNotFoundError: The schedule does not exist.
        QueueNotFoundError: The schedule's queue was dropped.
        LogNotFoundError: The schedule's log was dropped.

    Source: `sluice.run_schedule`.
    """
    return Call("select sluice.run_schedule(%s::text)", (name,), scalar)


@method(Schedules)
def list_schedules() -> Call[list[Schedule]]:
    """Return every schedule, by name; message, event and error only for a role that may read messages.

    Source: `sluice.list_schedules`.
    """
    return Call("select * from sluice.list_schedules()", (), record(Schedule))


@method(Schedules)
def fire_schedules(*, schedules_max: int = 100) -> Call[list[FiredSlot]]:
    """Fire the schedules that are due, longest overdue first.

    Safe to call concurrently: callers neither wait for each other nor fire the same slot. Call it until it returns
    nothing, each time in a transaction of its own: its schedules stay locked until the transaction ends.

    Args:
        schedules_max: The most schedules to fire, 1 or more; at most ten slots of each.

    Returns:
        The slots fired, and those that failed, with the error, such as a dropped queue or a failing trigger. A
        failed slot is retried after 10 seconds, or after 1 second if the table was locked.

    Raises:
        ArgumentError: `schedules_max` is out of range.

    Source: `sluice.fire_schedules`.
    """
    return Call(
        "select * from sluice.fire_schedules(%s::integer)",
        (whole(schedules_max, "schedules_max", 1),),
        record(FiredSlot),
    )


@method(Schedules)
def next_schedule_at() -> Call[datetime | None]:
    """Return the earliest due time of all schedules, possibly in the past; None without one.

    Source: the table `sluice.schedule`.
    """
    return Call("select min(s.due_at) from sluice.schedule as s", (), scalar)


def next_schedule_in_s() -> Call[float | None]:
    """Return the seconds until the next schedule is due, by the server's clock."""
    return Call(
        "select extract(epoch from min(s.due_at) - pg_catalog.clock_timestamp())::double precision "
        "from sluice.schedule as s",
        (),
        scalar,
    )


def _schedule(
    name: str, queue_name: str, sent: tuple[Any, ...], options: ScheduleOptions
) -> Call[bool]:
    sql: LiteralString = (
        "select sluice.schedule(%s::text, %s::text, %s::jsonb, headers => %s::jsonb, event => %s::jsonb, "
        "cron => %s::text, every => %s::interval, time_zone => %s::text, catch_up => %s::text, "
        "catch_up_within => %s::interval, jitter => %s::interval, starts_at => %s::timestamptz, "
        "ends_at => %s::timestamptz, declared_by => %s::text)"
    )
    return Call(sql, (name, queue_name, *sent, *_timing(options)), scalar)


def _timing(options: ScheduleOptions) -> tuple[Any, ...]:
    """Return the options in the order of the calls, with defaults for missing ones and None."""
    unknown = sorted(options.keys() - _DEFAULTS.keys())
    if unknown:
        raise ArgumentError(f"unknown option {unknown[0]!r}; use {', '.join(_DEFAULTS)}")
    given: dict[str, Any] = {
        **_DEFAULTS,
        **{name: value for name, value in options.items() if value is not None},
    }
    return (
        given["cron"],
        seconds(given["every_s"], "every_s"),
        given["time_zone"],
        given["catch_up"],
        seconds(given["catch_up_within_s"], "catch_up_within_s"),
        seconds(given["jitter_s"], "jitter_s"),
        zoned_time(given["starts_at"], "starts_at"),
        zoned_time(given["ends_at"], "ends_at"),
        given["declared_by"],
    )
