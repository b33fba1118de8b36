"""What the clients of schedules return: frozen records, fields named and ordered as by the SQL functions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

CatchUp = Literal["none", "one", "all"]


class ScheduleOptions(TypedDict, total=False):
    """When a schedule fires; one of `cron` and `every_s` is needed, and None stands for the default.

    Attributes:
        cron: Minute, hour, day of month, month and day of week, as in `30 3 * * mon-fri`: each `*`, a number, a range
            `1-5`, a list `1,5`, or steps `*/2` and `1-5/2`; months and weekdays by name too, `L` for the last day of a
            month. Where both days are given, either will do. Or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
        every_s: Seconds from one slot to the next, 0.1 or more.
        time_zone: The time zone of `cron`, such as `Europe/Berlin`. Default: UTC.
        catch_up: What becomes of slots that nobody was there to fire. `one`: the last one is fired; `all`: each is, in
            order; `none`: none is that is more than 5 minutes late. Default: one.
        catch_up_within_s: With `all`, older slots are left out, but never the last one; 0 or more seconds. Default: 7
            days.
        jitter_s: Each slot is late by less than so many seconds, 0 to a day, always the same for one slot. Default: 0.
        starts_at: No slot is before this time, with a time zone. With `every_s` it is the first. Default: from now on,
            the first one after `every_s`; a schedule that is changed keeps what it has.
        ends_at: No slot is at this time or after it. Default: it goes on for ever.
        declared_by: The app that declares it in code. Default: none.
    """

    cron: str | None
    every_s: float | None
    time_zone: str | None
    catch_up: CatchUp | None
    catch_up_within_s: float | None
    jitter_s: float | None
    starts_at: datetime | None
    ends_at: datetime | None
    declared_by: str | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule, and how it fares.

    Attributes:
        name: Its name.
        target: `queue` or `log`: whether it sends a message or appends an event.
        queue_name: The work queue, or the event log.
        message: The message; None for a log.
        headers: The headers of the message, or None.
        event: The fields of the event by name, those that are not null; None for a queue.
        cron: When, or None.
        every: From one slot to the next, or None.
        time_zone: The time zone of `cron`.
        catch_up: `none`, `one` or `all`.
        catch_up_within: How old a missed slot may be with `all`.
        jitter: Each slot is late by less than that.
        starts_at: No slot is before this time.
        ends_at: No slot is at this time or after it, or None.
        declared_by: The app that declared it in code, or None.
        paused_at: Since when it is paused, or None.
        next_slot: The slot that is fired next, or None while it is paused and when there is none any more.
        due_at: When that is to be fired: the slot and its jitter, or later after a failure; None as above.
        last_slot: The slot that was fired last, or None.
        last_fired_at: When it was, or None.
        error: Why its next slot could not be fired, as of the last try, or None.
    """

    name: str
    target: Literal["queue", "log"]
    queue_name: str
    message: Any
    headers: dict[str, Any] | None
    event: dict[str, str] | None
    cron: str | None
    every: timedelta | None
    time_zone: str
    catch_up: CatchUp
    catch_up_within: timedelta
    jitter: timedelta
    starts_at: datetime
    ends_at: datetime | None
    declared_by: str | None
    paused_at: datetime | None
    next_slot: datetime | None
    due_at: datetime | None
    last_slot: datetime | None
    last_fired_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class FiredSlot:
    """What became of a slot that was due.

    Attributes:
        name: The schedule.
        slot: The slot.
        msg_id: The message that was sent, or the ev_id of the event; None: it could not be.
        error: Why it could not be; it is tried again after a pause. None: it was fired.
    """

    name: str
    slot: datetime
    msg_id: int | None
    error: str | None
