"""Options and records of schedules, with the fields of the SQL functions' results, in their order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

CatchUp = Literal["none", "one", "all"]


class ScheduleOptions(TypedDict, total=False):
    """Timing of a schedule. Exactly one of `cron` and `every_s` is required; None stands for the default.

    Attributes:
        cron: Minute, hour, day of month, month and day of week, as in `30 3 * * mon-fri`: each `*`, a number, a range
            `1-5`, a list `1,5`, or steps `*/2` and `1-5/2`; months and weekdays also by name, `L` for the last day of a
            month. If both day fields are given, one match suffices. Or `@hourly`, `@daily`, `@weekly`, `@monthly`,
            `@yearly`.
        every_s: Seconds from one slot to the next, 0.1 or more.
        time_zone: The time zone of `cron`, such as `Europe/Berlin`. Default: UTC.
        catch_up: Handling of missed slots. `one`: fire the last; `all`: fire each, in order; `none`: skip slots more
            than 5 minutes late. Default: one.
        catch_up_within_s: With `all`, skip slots older than this many seconds, except the last; 0 or more. Default: 7
            days.
        jitter_s: Upper bound of a delay of each slot in seconds, 0 to 86,400; constant for a slot. Default: 0.
        starts_at: Lower bound of slots, with a time zone; with `every_s`, the first slot. Default: now, with the first
            slot after `every_s`; a replaced schedule keeps its value.
        ends_at: Upper bound of slots, exclusive. Default: none.
        declared_by: The app that declares the schedule in code. Default: none.
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
    """A schedule and its state.

    Attributes:
        name: Name of the schedule.
        target: `queue`: it sends a message; `log`: it appends an event.
        queue_name: The work queue, or the event log.
        message: The message; None for a log.
        headers: The headers of the message, or None.
        event: The fields of the event by name, without nulls; None for a queue.
        cron: Cron expression, or None.
        every: Time from one slot to the next, or None.
        time_zone: The time zone of `cron`.
        catch_up: `none`, `one` or `all`.
        catch_up_within: Maximum age of a missed slot with `all`.
        jitter: Upper bound of the delay of each slot.
        starts_at: Lower bound of slots.
        ends_at: Upper bound of slots, exclusive, or None.
        declared_by: The app that declared the schedule in code, or None.
        paused_at: Time of the pause, or None.
        next_slot: The next slot to fire, or None while paused or after the last slot.
        due_at: Time to fire the next slot: the slot plus jitter, or later after a failure; None as above.
        last_slot: The last slot fired, or None.
        last_fired_at: Time at which it was fired, or None.
        is_failing: True if the last attempt to fire the next slot failed.
        error: Its error, or None.
        is_hidden: True if message, headers, event and error are None because the role may not read messages.
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
    is_failing: bool
    error: str | None
    is_hidden: bool


@dataclass(frozen=True, slots=True)
class FiredSlot:
    """Result of firing a due slot.

    Attributes:
        name: The schedule.
        slot: The slot.
        msg_id: The msg_id of the message, or the ev_id of the event; None after a failure.
        error: The error; the slot is retried after a delay. None: the slot was fired.
    """

    name: str
    slot: datetime
    msg_id: int | None
    error: str | None
