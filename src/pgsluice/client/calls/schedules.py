"""The functions of schema `sluice` that send again and again, as calls; argument names are theirs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import headers_parameter, seconds, whole, zoned_time
from pgsluice.client.calls.call import Call, record, scalar
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


def schedule(
    name: str,
    queue_name: str,
    message: Any,
    headers: dict[str, Any] | None,
    options: ScheduleOptions,
) -> Call[bool]:
    sql: LiteralString = (
        "select sluice.schedule(%s::text, %s::text, %s::jsonb, headers => %s::jsonb, "
        "cron => %s::text, every => %s::interval, time_zone => %s::text, catch_up => %s::text, "
        "catch_up_within => %s::interval, jitter => %s::interval, starts_at => %s::timestamptz, "
        "ends_at => %s::timestamptz, declared_by => %s::text)"
    )
    sent = (json_parameter(message, "message"), headers_parameter(headers, "headers"))
    return Call(sql, (name, queue_name, *sent, *_timing(options)), scalar)


def schedule_event(
    name: str, queue_name: str, event: NewEvent, options: ScheduleOptions
) -> Call[bool]:
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


def unschedule(name: str) -> Call[bool]:
    return Call("select sluice.unschedule(%s::text)", (name,), scalar)


def pause_schedule(name: str) -> Call[bool]:
    return Call("select sluice.pause_schedule(%s::text)", (name,), scalar)


def resume_schedule(name: str) -> Call[bool]:
    return Call("select sluice.resume_schedule(%s::text)", (name,), scalar)


def run_schedule(name: str) -> Call[int]:
    return Call("select sluice.run_schedule(%s::text)", (name,), scalar)


def list_schedules() -> Call[list[Schedule]]:
    return Call("select * from sluice.list_schedules()", (), record(Schedule))


def fire_schedules(schedules_max: int = 100) -> Call[list[FiredSlot]]:
    return Call(
        "select * from sluice.fire_schedules(%s::integer)",
        (whole(schedules_max, "schedules_max", 1),),
        record(FiredSlot),
    )


def next_schedule_at() -> Call[datetime | None]:
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
