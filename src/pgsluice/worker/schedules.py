"""Schedules: what an app declares, and the loop that fires what is due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pgsluice.client.log_records import NewEvent
from pgsluice.client.schedule_records import CatchUp


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """A schedule as it is declared in code. `App.schedule` makes them, and a worker writes them when it starts.

    Attributes:
        name: Unique in the database.
        queue_name: The work queue that it sends to; with `event` the event log that it appends to.
        message: What it sends, as JSON can hold it. Not with `event`.
        headers: The headers of the message, or None. Not with `event`.
        event: What it appends to an event log; None: it sends to a work queue.
        cron: When, as five fields or a word such as `@daily`; or else `every_s`.
        every_s: Seconds from one slot to the next, 0.1 or more.
        time_zone: The time zone of `cron`.
        catch_up: What becomes of slots that nobody was there to fire: `none`, `one` or `all`.
        catch_up_within_s: How old a missed slot may be with `all`, seconds.
        jitter_s: Each slot is late by less than so many seconds, 0 or more, always the same for one slot.
        starts_at: No slot is before this time; with `every_s` it is the first one. None: from now on.
        ends_at: No slot is at this time or after it; None: it goes on for ever.
    """

    name: str
    queue_name: str
    message: Any = None
    headers: dict[str, Any] | None = None
    event: NewEvent | None = None
    cron: str | None = None
    every_s: float | None = None
    time_zone: str = "UTC"
    catch_up: CatchUp = "one"
    catch_up_within_s: float = 604_800.0
    jitter_s: float = 0.0
    starts_at: datetime | None = None
    ends_at: datetime | None = None
