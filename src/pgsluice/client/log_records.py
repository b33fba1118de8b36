"""What the event log's clients return: frozen records, fields named and ordered as by the SQL functions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple


class NewEvent(NamedTuple):
    """An event to append. A tuple, as it becomes a row of a COPY.

    Attributes:
        ev_type: What it is.
        ev_data: What it says; text, JSON by convention.
        ev_extra1: More of it, as are the next three.
    """

    ev_type: str | None
    ev_data: str | None
    ev_extra1: str | None = None
    ev_extra2: str | None = None
    ev_extra3: str | None = None
    ev_extra4: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a log.

    Attributes:
        ev_id: Its id in the log, rising in the order of inserting, not of committing.
        ev_time: When the transaction that inserted it began.
        ev_txid: The id of that transaction, 64 bits.
        ev_retry: How often its consumer asked for it again, or None.
        ev_type: What the producer says it is.
        ev_data: What the producer says.
        ev_extra1: More of it, as are the next three; captured changes have `schema.table` here.
    """

    ev_id: int
    ev_time: datetime
    ev_txid: int
    ev_retry: int | None
    ev_type: str | None
    ev_data: str | None
    ev_extra1: str | None
    ev_extra2: str | None
    ev_extra3: str | None
    ev_extra4: str | None


@dataclass(frozen=True, slots=True)
class LogInfo:
    """Settings and state of an event log.

    Attributes:
        ticker_lag: Time since the last tick.
        ev_per_sec: Events a second over the last 20 ticks, or None when there are fewer than two.
        ev_new: Events inserted since the last tick, uncommitted ones included.
        last_tick_id: The last tick.
    """

    queue_name: str
    queue_ntables: int
    queue_cur_table: int
    queue_rotation_period: timedelta
    queue_switch_time: datetime
    queue_external_ticker: bool
    queue_ticker_paused: bool
    queue_ticker_max_count: int
    queue_ticker_max_lag: timedelta
    queue_ticker_idle_period: timedelta
    ticker_lag: timedelta | None
    ev_per_sec: float | None
    ev_new: int | None
    last_tick_id: int | None


@dataclass(frozen=True, slots=True)
class ConsumerInfo:
    """Position and lag of a consumer of an event log.

    Attributes:
        lag: Time since the tick that the consumer has finished.
        last_seen: Time since it last opened or finished a batch.
        last_tick: The tick it has finished.
        current_batch: The open batch, or None.
        next_tick: The tick that ends the open batch, or None.
        pending_events: Events between `last_tick` and the log's last tick, about.
    """

    queue_name: str
    consumer_name: str
    lag: timedelta | None
    last_seen: timedelta
    last_tick: int
    current_batch: int | None
    next_tick: int | None
    pending_events: int | None


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A batch that is open, and the two ticks whose difference it is.

    Attributes:
        batch_id: What get_batch_events and finish_batch take.
        cur_tick_id: The tick that ends it.
        prev_tick_id: The tick that it begins after.
        cur_tick_time: When that tick was made, as is the next.
        cur_tick_event_seq: The last ev_id that had been given out then, as is the next; their difference is about the
            number of events.
    """

    batch_id: int
    cur_tick_id: int
    prev_tick_id: int
    cur_tick_time: datetime
    prev_tick_time: datetime
    cur_tick_event_seq: int
    prev_tick_event_seq: int


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """What is known of an open batch.

    Attributes:
        batch_start: When the tick that it begins after was made.
        batch_end: When the tick that ends it was made.
        prev_tick_id: The tick that it begins after.
        tick_id: The tick that ends it.
        lag: Time since `batch_end`.
        seq_start: The last ev_id that had been given out at `batch_start`.
        seq_end: The last ev_id that had been given out at `batch_end`.
    """

    queue_name: str
    consumer_name: str
    batch_start: datetime
    batch_end: datetime
    prev_tick_id: int
    tick_id: int
    lag: timedelta
    seq_start: int
    seq_end: int


@dataclass(frozen=True, slots=True)
class LogTick:
    """A tick that was made just now."""

    queue_name: str
    tick_id: int


@dataclass(frozen=True, slots=True)
class RotationStep:
    """What a rotation did with a segment of a log, a consumer or a share group.

    Attributes:
        queue_name: The log, or None for what the share groups of all logs have in common.
        segment: Its number: the events are in the table `pgq.event_<id>_<segment>`; None: it is about no segment.
        action: `switched`: new events go into it from now on; `reclaimed`: it was emptied; `kept`: neither;
            `failed`: an error, which is the reason, and the other logs were rotated. Of
            consumers `given up`, of share groups an action of `GroupStep`.
        reason: Why it was kept or given up, or which share group it was, or None.
    """

    queue_name: str | None
    segment: int | None
    action: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class GroupStep:
    """What the maintenance of share groups did with one, or with the ledgers that all have in common.

    Attributes:
        queue_name: The log, or None for the ledgers.
        group_name: The group, or None for the ledgers.
        action: `mail read`: what was said of claims; `leases looked at`: some had ended; `moved`: its position in the
            log; `emptied`: the ledgers; `kept`: nothing was done.
        reason: Why it was kept, or None.
    """

    queue_name: str | None
    group_name: str | None
    action: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a log's events, which is emptied as a whole.

    Attributes:
        segment: Its number: the events are in the table `pgq.event_<id>_<segment>`.
        is_current: Whether new events go into it.
        event_bytes: What its events take on disk, with their index; None: somebody has it locked.
        first_tick: The first tick that was made while it was current, or None.
        last_tick: The last of them, or None.
        consumers: Those that need it.
        reason: Why it cannot be emptied; None: it can, or is.
    """

    segment: int
    is_current: bool
    event_bytes: int | None
    first_tick: int | None
    last_tick: int | None
    consumers: list[str] | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """How far behind a consumer is, and what it keeps from being emptied; all None: a keeper that is not registered.

    Attributes:
        is_keeper: Whether the log's policy never gives it up, and keeps everything for it.
        last_tick: The tick it has finished.
        lag_events: Events after it, about.
        lag_s: Seconds since that tick was made.
        pinned_bytes: What its segments take on disk that are not current.
        open_batch: The batch that is open, or None.
        idle_s: Seconds since it last opened or finished a batch.
        lost: Why its position was given up, or None.
    """

    queue_name: str
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
    """What a log does with consumers that fall behind; no limit: it keeps everything for them.

    Attributes:
        max_lag_bytes: A consumer that pins more is given up at a rotation, or None.
        max_lag_events: One that has more events to read is, or None.
        max_lag_time: One whose tick is older is, or None.
        keepers: Consumers that are never given up, and without which nothing is emptied.
    """

    queue_name: str
    max_lag_bytes: int | None
    max_lag_events: int | None
    max_lag_time: timedelta | None
    keepers: list[str]


@dataclass(frozen=True, slots=True)
class Capture:
    """A table whose changes go into an event log.

    Attributes:
        source_table: The table as in SQL, without its schema where the search path finds it.
        options: As they were given.
        operations: Which changes: some of delete, insert, truncate and update, in this order.
        enabled: Whether all of its triggers are.
    """

    source_table: str
    queue_name: str
    options: dict[str, Any]
    operations: list[str]
    enabled: bool


@dataclass(frozen=True, slots=True)
class DelayedEvent:
    """An event that waits for its time; it has no ev_id yet.

    Attributes:
        delayed_id: Its place among the events that are due at the same time.
        due_at: When it is put into its log, or soon after.
        ev_time: When the transaction that inserted it began.
        ev_type: As in `Event`, as are the next five.
    """

    delayed_id: int
    due_at: datetime
    ev_time: datetime
    ev_type: str | None
    ev_data: str | None
    ev_extra1: str | None
    ev_extra2: str | None
    ev_extra3: str | None
    ev_extra4: str | None


@dataclass(frozen=True, slots=True)
class DeadEvent:
    """An event that failed for good in a share group.

    Attributes:
        dead_event_id: Its id among the dead events of all groups, rising in the order of failing.
        claim_id: The last claim that had it.
        ev_id: As in `Event`, as are all that are not said here.
        redriven: How often it had been dead and sent again before.
        attempts: How many attempts counted.
        deliveries: How often it was handed out.
        reason: Why it was given up, in a word or two.
        error: The last error, or None.
        dead_at: When it was given up.
    """

    dead_event_id: int
    queue_name: str
    group_name: str
    claim_id: int
    ev_id: int
    ev_time: datetime
    ev_txid: int
    ev_type: str | None
    ev_data: str | None
    ev_extra1: str | None
    ev_extra2: str | None
    ev_extra3: str | None
    ev_extra4: str | None
    redriven: int
    attempts: int
    deliveries: int
    reason: str
    error: str | None
    dead_at: datetime


@dataclass(frozen=True, slots=True)
class RedrivenEvent:
    """What was a dead event, and the event or the message that it was moved back as.

    Attributes:
        ev_id: The new event in the log, or None.
        msg_id: The message in the work queue, or None.
    """

    dead_event_id: int
    ev_id: int | None
    msg_id: int | None


@dataclass(frozen=True, slots=True)
class RestoredLog:
    """A log from a dump that was repaired, or could not be.

    Attributes:
        queue_name: The log; None: the retried and delayed events of all logs could not be repaired.
        events: How many events it has; None: it could not be repaired, see `list_failures`.
    """

    queue_name: str | None
    events: int | None
