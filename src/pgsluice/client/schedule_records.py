"""What the clients of schedules return: frozen records, fields named and ordered as by the SQL functions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

CatchUp = Literal["none", "one", "all"]


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
