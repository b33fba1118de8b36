"""Records of event logs: frozen dataclasses with the fields of the SQL functions' results, in their order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple


class NewEvent(NamedTuple):
    """An event to append; a tuple, used directly as a row of a COPY.

    Attributes:
        ev_type: Type of the event.
        ev_data: Text of the event, JSON by convention.
        ev_extra1: Additional text, as are the next three.
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
        ev_id: Id in the log, ascending in the order of insertion, not of commit.
        ev_time: Start time of the inserting transaction.
        ev_txid: Id of that transaction, 64 bits.
        ev_retry: Number of retries by the consumer, or None.
        ev_type: Type of the event.
        ev_data: Text of the event.
        ev_extra1: Additional text, as are the next three; for captured changes `schema.table`,
            each part quoted as an SQL identifier if it must be.
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
class BrowsedEvent:
    """An event of a log; texts may be cut.

    Attributes:
        ev_id: As in `Event`, as are the fields not listed here.
        ev_retry: Number of the redelivery to a consumer; None: the event itself.
        data_bytes: Size of the whole ev_data in bytes, or None.
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
    data_bytes: int | None


class EventPosition(NamedTuple):
    """A position in a log, in the order of `browse_events`."""

    ev_txid: int
    ev_id: int


@dataclass(frozen=True, slots=True)
class LogState:
    """Figures of an event log.

    Attributes:
        newest_ev_id: The last id assigned; 0 without any.
        ev_new: Ids assigned since the newest tick.
        last_tick_id: The newest tick.
        last_tick_at: Its time.
        ev_per_s: Events per second over the last 20 ticks since the last rotation; None with fewer than two.
        event_bytes: Size of its segments on disk in bytes, with their indexes.
        is_paused: True if its ticker is paused.
        consumers: Number of consumers, without share groups.
        groups: Number of share groups.
    """

    log_name: str
    newest_ev_id: int
    ev_new: int | None
    last_tick_id: int | None
    last_tick_at: datetime | None
    ev_per_s: float | None
    event_bytes: int | None
    is_paused: bool
    consumers: int
    groups: int


@dataclass(frozen=True, slots=True)
class LogInfo:
    """Settings and state of an event log.

    Attributes:
        ticker_lag: Time since the last tick.
        ev_per_sec: Events per second over the last 20 ticks, or None with fewer than two.
        ev_new: Events inserted since the last tick, including uncommitted ones.
        last_tick_id: The last tick.
    """

    log_name: str
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
        lag: Age of the consumer's position (its last finished tick).
        last_seen: Time since the consumer last opened or finished a batch.
        last_tick: The consumer's position: its last finished tick.
        current_batch: The open batch, or None.
        next_tick: The tick that ends the open batch, or None.
        pending_events: Events between `last_tick` and the log's last tick, approximately.
    """

    log_name: str
    consumer_name: str
    lag: timedelta | None
    last_seen: timedelta
    last_tick: int
    current_batch: int | None
    next_tick: int | None
    pending_events: int | None


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """An open batch and the two ticks that bound it.

    Attributes:
        batch_id: The batch, for `get_batch_events` and `finish_batch`.
        cur_tick_id: The tick that ends the batch.
        prev_tick_id: The tick after which the batch starts.
        cur_tick_time, prev_tick_time: Times of these ticks.
        cur_tick_event_seq, prev_tick_event_seq: Last ev_id assigned at these ticks; the difference is about the number
            of events.
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
    """Consumer and bounds of an open batch.

    Attributes:
        batch_start: Time of the tick after which the batch starts.
        batch_end: Time of the tick that ends the batch.
        prev_tick_id: The tick after which the batch starts.
        tick_id: The tick that ends the batch.
        lag: Time since `batch_end`.
        seq_start: The last ev_id assigned at `batch_start`.
        seq_end: The last ev_id assigned at `batch_end`.
    """

    log_name: str
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
    """A new tick of a log."""

    log_name: str
    tick_id: int


@dataclass(frozen=True, slots=True)
class RotationStep:
    """A step of a rotation, for a segment of a log, a consumer or a share group.

    Attributes:
        log_name: The log, or None for the claim ledgers that all share groups have in common.
        segment: Number of the segment, with table `pgq.event_<id>_<segment>`; None: not about a segment.
        action: For a segment: `switched`: it receives new events from now on; `reclaimed`: it was truncated; `kept`:
            neither. `failed`: an error, given as the reason, while the other logs were rotated. For a consumer: `given
            up`: its position was dropped. For a share group: an action of `GroupStep`.
        reason: Reason for `kept`, `given up` or `failed`, or the name of the share group, or None.
    """

    log_name: str | None
    segment: int | None
    action: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class GroupStep:
    """A step of the maintenance of a share group, or of the claim ledgers that all groups have in common.

    Attributes:
        log_name: The log, or None for the ledgers.
        group_name: The group, or None for the ledgers.
        action: `backlog read`: acknowledgement backlog read; `leases checked`: expired leases processed; `moved`:
            position advanced; `emptied`: ledgers truncated; `kept`: nothing done.
        reason: Reason for `kept`, or None.
    """

    log_name: str | None
    group_name: str | None
    action: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of a log, which is reclaimed as a whole.

    Attributes:
        segment: Number of the segment, with table `pgq.event_<id>_<segment>`.
        is_current: True if it receives new events.
        event_bytes: Size of its events on disk in bytes, with their index; None: the table is locked.
        first_tick: The first tick while it was current, or None.
        last_tick: The last tick while it was current, or None.
        consumers: Consumers that need it.
        reason: Reason why it cannot be reclaimed; None: it can be, or is empty.
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
    """Lag of a consumer and the storage that it pins; all None for a keeper that is not registered.

    Attributes:
        is_keeper: True if the log's policy exempts it from the lag limits.
        last_tick: Its position: the last finished tick.
        lag_events: Events after its position, approximately: numbers of rolled back events count.
        lag_s: Age of the oldest event that it has not finished, in seconds; 0 if there is none.
        pinned_bytes: Size on disk in bytes of the segments it needs, without the current one.
        open_batch: The open batch, or None.
        idle_s: Seconds since it last opened or finished a batch.
        lost: Reason why its position was dropped, or None.
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
class PipelineState:
    """Progress and lag of a pipeline from an event log into the lake.

    Attributes:
        kind: `events` or `changes`.
        lake: Address of the lake at the last start.
        is_running: True if a session holds the consumer.
        held_since: Time from which the last session has held it.
        held_by: That session: pid, role, application and address.
        last_commit_at: Last commit to the lake, to ten seconds; None before the first.
        row_count: Rows written since the last start; None before its first report.
        lag_events: Events after its position, approximately.
        lag_s: Age of the oldest event that it has not exported, in seconds; 0 if there is none.
        reported_at: Time of the last report.
    """

    log_name: str
    consumer_name: str
    kind: str
    lake: str
    is_running: bool
    held_since: datetime
    held_by: str
    last_commit_at: datetime | None
    row_count: int | None
    lag_events: int | None
    lag_s: float | None
    reported_at: datetime | None


@dataclass(frozen=True, slots=True)
class Capture:
    """A captured table and its event log.

    Attributes:
        source_table: The table as in SQL, without its schema if the search path contains it.
        options: The options as given.
        operations: Captured operations, of delete, insert, truncate and update, in this order.
        enabled: True if all capture triggers are enabled.
    """

    source_table: str
    log_name: str
    options: dict[str, Any]
    operations: list[str]
    enabled: bool


@dataclass(frozen=True, slots=True)
class CaptureProblem:
    """A reason why changes of a captured table are not captured, or its rows differ from what readers of the log know.

    Attributes:
        log_name: Log of the capture; empty if a trigger names none.
        source_table: The captured table, as in SQL; of a partitioned table, the root.
        kind: `disabled` (a trigger does not fire or was dropped), `malformed` (writes to the table fail), `replicated`
            (the option, and a trigger that is not enabled always), `unlogged`, `detached` (from a captured table),
            `partitions` (dropped, detached or attached since the last maintenance).
        problem: One line, with the name of the object.
        hint: SQL statement or command that corrects it.
    """

    log_name: str
    source_table: str
    kind: str
    problem: str
    hint: str


@dataclass(frozen=True, slots=True)
class DelayedEvent:
    """A delayed event, which has no ev_id yet.

    Attributes:
        delayed_id: Position among the events with the same due time.
        due_at: Time at which it is due; it is inserted into the log then or soon after.
        ev_time: Start time of the inserting transaction.
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
class RestoredLog:
    """Result of repairing a log after restoring a dump.

    Attributes:
        log_name: The log; None: the retried and delayed events of all logs could not be repaired.
        events: Number of events; None: the log could not be repaired, see `list_failures`.
    """

    log_name: str | None
    events: int | None
