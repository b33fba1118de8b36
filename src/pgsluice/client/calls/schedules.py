"""The functions of schema `sluice` that send again and again, as calls; argument names are theirs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, LiteralString, Unpack

from pgsluice.client.calls.arguments import headers_parameter, seconds, whole, zoned_time
from pgsluice.client.calls.call import Call, record, scalar
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
    """Send a message to a work queue again and again; replaces the schedule of this name, if there is one.

    One that is changed stays paused if it was, and keeps its place; with other times it goes on with the first slot
    from now on. The message gets the header `x-pgmq-schedule`: an object with the `name` and the `slot`, which
    together are a key for what must have its effect once.

    Args:
        name: Its name, 1 to 200 bytes.
        queue_name: An existing queue.
        message: What is sent, as JSON can hold it.
        headers: The headers of the message, or None.
        **options: See `ScheduleOptions`.

    Returns:
        False when there is one that is just so: nothing was changed.

    Raises:
        QueueNotFoundError: The queue does not exist.
        ArgumentError: An option does not exist, or its value is bad; of a cron expression the field is named.
        PayloadError: The message or the headers are not JSON.

    Source: `sluice.schedule`.
    """
    sql: LiteralString = (
        "select sluice.schedule(%s::text, %s::text, %s::jsonb, headers => %s::jsonb, "
        "cron => %s::text, every => %s::interval, time_zone => %s::text, catch_up => %s::text, "
        "catch_up_within => %s::interval, jitter => %s::interval, starts_at => %s::timestamptz, "
        "ends_at => %s::timestamptz, declared_by => %s::text)"
    )
    sent = (json_parameter(message, "message"), headers_parameter(headers, "headers"))
    return Call(sql, (name, queue_name, *sent, *_timing(options)), scalar)


@method(Schedules)
def schedule_event(
    name: str,
    queue_name: str,
    ev_type: str | None,
    ev_data: str | None,
    *,
    ev_extra1: str | None = None,
    ev_extra2: str | None = None,
    ev_extra3: str | None = None,
    ev_extra4: str | None = None,
    **options: Unpack[ScheduleOptions],
) -> Call[bool]:
    """Append an event to an event log again and again; replaces the schedule of this name, as `schedule` does.

    Args:
        name: Its name, 1 to 200 bytes.
        queue_name: An existing log.
        ev_type: What the event is.
        ev_data: What it says; text, JSON by convention.
        ev_extra1: More of it, as are the next three.
        ev_extra2: As `ev_extra1`.
        ev_extra3: As `ev_extra1`.
        ev_extra4: As `ev_extra1`.
        **options: See `ScheduleOptions`.

    Returns:
        False when there is one that is just so: nothing was changed.

    Raises:
        LogNotFoundError: There is no such log.
        ArgumentError: An option does not exist, or its value is bad; of a cron expression the field is named.
        PayloadError: A field is no text that PostgreSQL can store.

    Source: `sluice.schedule_event`.
    """
    event = NewEvent(ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
    for field, value in zip(NewEvent._fields, event, strict=True):
        text_parameter(value, field)
    sql: LiteralString = (
        "select sluice.schedule_event(%s::text, %s::text, %s::text, %s::text, ev_extra1 => %s::text, "
        "ev_extra2 => %s::text, ev_extra3 => %s::text, ev_extra4 => %s::text, "
        "cron => %s::text, every => %s::interval, time_zone => %s::text, catch_up => %s::text, "
        "catch_up_within => %s::interval, jitter => %s::interval, starts_at => %s::timestamptz, "
        "ends_at => %s::timestamptz, declared_by => %s::text)"
    )
    return Call(sql, (name, queue_name, *event, *_timing(options)), scalar)


@method(Schedules)
def unschedule(name: str) -> Call[bool]:
    """Forget a schedule. It fires no more from the commit on; what it has sent stays.

    Returns:
        False when there is none of this name.

    Source: `sluice.unschedule`.
    """
    return Call("select sluice.unschedule(%s::text)", (name,), scalar)


@method(Schedules)
def pause_schedule(name: str) -> Call[bool]:
    """Fire no slot of a schedule from the commit on, until it is resumed. Slots of the pause are not caught up.

    Returns:
        False when it is paused already.

    Raises:
        ScheduleNotFoundError: There is none of this name.

    Source: `sluice.pause_schedule`.
    """
    return Call("select sluice.pause_schedule(%s::text)", (name,), scalar)


@method(Schedules)
def resume_schedule(name: str) -> Call[bool]:
    """Let a schedule go on after a pause, with the first slot from now on.

    Returns:
        False when it is not paused.

    Raises:
        ScheduleNotFoundError: There is none of this name.

    Source: `sluice.resume_schedule`.
    """
    return Call("select sluice.resume_schedule(%s::text)", (name,), scalar)


@method(Schedules)
def run_schedule(name: str) -> Call[int]:
    """Send now what a schedule sends, paused or not. It is no slot: those are fired as if this had not been.

    The header `x-pgmq-schedule` has null as its `slot`.

    Returns:
        The msg_id of the message, or the ev_id of the event.

    Raises:
        ScheduleNotFoundError: There is none of this name.
        QueueNotFoundError: Its queue was dropped.
        LogNotFoundError: Its log was dropped.

    Source: `sluice.run_schedule`.
    """
    return Call("select sluice.run_schedule(%s::text)", (name,), scalar)


@method(Schedules)
def list_schedules() -> Call[list[Schedule]]:
    """Return every schedule, by name.

    Source: `sluice.list_schedules`.
    """
    return Call("select * from sluice.list_schedules()", (), record(Schedule))


@method(Schedules)
def fire_schedules(*, schedules_max: int = 100) -> Call[list[FiredSlot]]:
    """Fire the schedules that are due, those first that have been so for longest.

    Any number of processes may call this at once: none waits for another, and none fires what another does. Call it
    again until it returns nothing, and in a transaction of its own: until that ends, nobody else can fire them.

    Args:
        schedules_max: The most schedules to fire, 1 or more; of each at most ten slots.

    Returns:
        The slots that were fired, and those that could not be, with the reason: the queue does not exist any more,
        a trigger of its table fails. Those are tried again after 10 seconds, after 1 where the table was locked.

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
    """Return when the next schedule is due, or was; None when none is.

    Source: `sluice.next_schedule_at`.
    """
    return Call("select sluice.next_schedule_at()", (), scalar)


def next_schedule_in_s() -> Call[float | None]:
    """How long until the next schedule is due, by the server's clock: a client's may be another."""
    return Call(
        "select extract(epoch from sluice.next_schedule_at() - pg_catalog.clock_timestamp())"
        "::double precision",
        (),
        scalar,
    )


def _timing(options: ScheduleOptions) -> tuple[Any, ...]:
    """The options in the order of the calls, those that are missing or None as by default."""
    unknown = sorted(options.keys() - _DEFAULTS.keys())
    if unknown:
        raise ArgumentError(
            f"there is no option {unknown[0]}; the options are {', '.join(_DEFAULTS)}"
        )
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
