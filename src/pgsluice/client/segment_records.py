"""What the client returns about the segments of an event log and those who need them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an event log: an event table with its ticks, emptied as a whole.

    Attributes:
        event_bytes: Size of the events and their index; None where somebody's lock forbids to look, as for the ticks.
        first_tick: The first tick made in it; None when there is none.
        consumers: Those who have not read all of it; None when all have.
        reason: Why it cannot be emptied; None when it is empty, or can be.
    """

    segment: int
    is_current: bool
    event_bytes: int | None
    first_tick: int | None
    last_tick: int | None
    consumers: list[str] | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class ConsumerLag:
    """How far a consumer of an event log is behind, and what is kept for it.

    Attributes:
        is_keeper: Whether the log's policy names it: nothing is emptied without it. One that is not registered yet has
            None for all that follows.
        last_tick: The last tick it is done with.
        lag_events: Events from there to the newest tick.
        lag_s: Seconds from there to the newest tick.
        pinned_bytes: Size of the segments, but for the current one, that it has not read to the end.
        open_batch: The batch it has opened, if any.
        idle_s: Seconds since it opened or finished a batch.
        lost: Why its position was given up; None: it was not.
    """

    log_name: str
    consumer_name: str
    is_keeper: bool
    last_tick: int | None
    lag_events: int | None
    lag_s: float | None
    pinned_bytes: int | None
    open_batch: int | None
    idle_s: float | None
    lost: str | None


@dataclass(frozen=True, slots=True)
class LogPolicy:
    """When a log gives up consumers that are behind; None for a limit: never.

    Attributes:
        max_lag_bytes: Size of what is kept for one consumer, but for the current segment.
        max_lag_events: Events up to the newest tick.
        max_lag_time: Time up to the newest tick.
        keepers: Consumers that are never given up, and without which nothing is emptied.
    """

    queue_name: str
    max_lag_bytes: int | None
    max_lag_events: int | None
    max_lag_time: timedelta | None
    keepers: list[str]
