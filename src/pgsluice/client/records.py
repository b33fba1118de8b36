"""Records of work queues: frozen dataclasses with the fields of the SQL functions' results, in their order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a work queue.

    Attributes:
        msg_id: Id in the queue, ascending in the order of sending.
        read_ct: Number of times the message was read, including this one.
        enqueued_at: Start time of the sending transaction.
        last_read_at: Time of the last read, or None.
        vt: Time at which the message becomes visible (again).
        message: The JSON value sent: None, bool, int, float, str, list or dict; `UnloadableJson` if it is nested too
            deeply for Python, or has a number of too many digits.
        headers: The JSON object sent with it, or None; `UnloadableJson` likewise.
    """

    msg_id: int
    read_ct: int
    enqueued_at: datetime
    last_read_at: datetime | None
    vt: datetime
    message: Any
    headers: Any


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """The result of settling or extending one claim.

    Attributes:
        msg_id: The message, or the `ev_id` of an event.
        outcome: `done`; `stale`: another consumer has read the message since, and keeps it; `gone`: the message is no
            longer in the queue, settled by this or another claim, or the queue was dropped and created again. `gone` is
            expected when a call is repeated after a lost reply. From `fail` also `retry`: it will be redelivered;
            `dead`: it was dead-lettered; a repeated call returns the first result. Of events also `released`: behind an
            earlier event of its key that will be redelivered.
        attempt: From `fail`: number of the failed attempt; None if stale or gone.
        delay_s: For `retry`: seconds until the message is visible again, of events at most; None from a repeated call.
    """

    msg_id: int
    outcome: Literal["done", "stale", "gone", "retry", "dead", "released"]
    attempt: int | None = None
    delay_s: float | None = None


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A work queue as `list_queues` shows it."""

    queue_name: str
    is_partitioned: bool
    is_unlogged: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """Metrics of a work queue at `scrape_time`.

    Attributes:
        queue_length: Messages in the queue, visible or not.
        newest_msg_age_sec: Age of the newest message in seconds, or None if the queue is empty.
        oldest_msg_age_sec: Age of the oldest message in seconds, or None if the queue is empty.
        total_messages: Ids assigned so far, including those of rolled back sends.
        queue_visible_length: Messages visible now.
        default_partition_length: Rows in the default partitions of the queue and its archive; many mean that
            maintenance is behind. An estimate above 10,000. None: not partitioned.
    """

    queue_name: str
    queue_length: int
    newest_msg_age_sec: int | None
    oldest_msg_age_sec: int | None
    total_messages: int
    scrape_time: datetime
    queue_visible_length: int
    default_partition_length: int | None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of a queue, an archive or the dead letters, returned without reading it.

    Attributes:
        msg_id: As in `Message`, as are the fields not listed here.
        vt: Time at which the message becomes or became visible; None for a dead letter. As for all times, `infinity`
            and years after 9999 are 9999-12-31.
        archived_at: Start time of the archiving transaction, or None if not archived.
        state: `visible`; `in flight` (claimed, and the lease has not ended); `retrying` (failed or released, and not
            visible yet); `delayed` (never read and not visible yet); `archived`; `dead`.
    """

    msg_id: int
    read_ct: int
    enqueued_at: datetime
    last_read_at: datetime | None
    vt: datetime | None
    archived_at: datetime | None
    state: str
    message: Any
    headers: Any


@dataclass(frozen=True, slots=True)
class Export:
    """An export of a queue's archive into a lake table.

    Attributes:
        queue_name: The queue.
        export_name: Name of the export, unique within the queue.
        lake: Location of the table at the last write.
        created_at: Time from which the archive keeps messages until this export has verified them.
        verified_at: Time of the last verification; None: never.
        kept: Number of verified messages still in the archive.
    """

    queue_name: str
    export_name: str
    lake: str
    created_at: datetime
    verified_at: datetime | None
    kept: int


@dataclass(frozen=True, slots=True)
class QueueStream:
    """A stream that reads a queue in micro-batches.

    Attributes:
        stream_name: Name of the stream.
        queue_name: The queue.
        settled_seq: The last settled micro-batch; 0 before the first.
        claimed_messages: Number of claimed, unsettled messages.
        oldest_claim_at: Time of the oldest unsettled claim, or None.
    """

    stream_name: str
    queue_name: str
    settled_seq: int
    claimed_messages: int
    oldest_claim_at: datetime | None


@dataclass(frozen=True, slots=True)
class Replayed:
    """An archived message and the new message with its contents."""

    archived_msg_id: int
    msg_id: int


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """Result of a step of a replay.

    Attributes:
        replayed: Messages sent by this step.
        replayed_in_all: Messages sent by the replay so far.
        finished: True if no messages are left to send.
    """

    replayed: int
    replayed_in_all: int
    finished: bool


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay of an archive.

    Attributes:
        queue_name: The queue whose archive is replayed.
        target_queue_name: The queue to which messages are sent.
        conditional: Filter, as for `WorkQueue.browse`, as are the next three.
        until: Upper bound of `archived_at`, at the latest the start of the replay.
        replayed: Messages sent so far.
        finished_at: Time at which all messages had been sent, or None.
    """

    replay_id: int
    queue_name: str
    target_queue_name: str
    conditional: Any
    conditional_headers: Any
    since: datetime | None
    until: datetime
    replayed: int
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class TopicBinding:
    """A queue bound to a topic.

    Attributes:
        pattern: Pattern of routing keys: words joined by dots, `*` for one word, `#` for the rest.
        bound_at: Start time of the binding transaction.
        compiled_regex: The pattern as a regular expression.
    """

    pattern: str
    queue_name: str
    bound_at: datetime
    compiled_regex: str


@dataclass(frozen=True, slots=True)
class RoutingMatch:
    """A binding that a routing key matches."""

    pattern: str
    queue_name: str
    compiled_regex: str


@dataclass(frozen=True, slots=True)
class NotifyThrottle:
    """Notification settings of a queue.

    Attributes:
        throttle_interval_ms: Minimum interval between notifications in milliseconds; 0: every sending statement
            notifies.
        last_notified_at: Time of the last notification, which is sent when its transaction commits. In the year 1970 if
            there was none since the interval was set.
    """

    queue_name: str
    throttle_interval_ms: int
    last_notified_at: datetime


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a queue or of its archive.

    Attributes:
        relation: `queue` or `archive`.
        partition_name: The table, in schema pgmq.
        starts_at: Lower bound of msg_id or time, inclusive, or `MINVALUE`; None: the default partition.
        ends_at: Upper bound, exclusive; None: the default partition.
        row_estimate: Number of rows according to the planner's statistics, or None without statistics.
        total_bytes: Size on disk in bytes, with indexes.
    """

    relation: str
    partition_name: str
    starts_at: str | None
    ends_at: str | None
    row_estimate: int | None
    total_bytes: int


@dataclass(frozen=True, slots=True)
class MaintenanceStep:
    """A step of `maintain`.

    Attributes:
        task: Kind of maintenance.
        queue_name: The queue, or None for several queues.
        done: False if postponed; `detail` has the reason.
        detail: Description of the result.
    """

    task: str
    queue_name: str | None
    done: bool
    detail: str


@dataclass(frozen=True, slots=True)
class MaintenanceFailure:
    """A maintenance task whose last attempt failed.

    Attributes:
        task: The task, such as `rotate`, `retry` or `retention`.
        queue_name: The queue or log that was skipped; None: the whole task failed.
        group_name: The share group that was skipped, or None.
        failed_since: Time of the first failure since the last success.
        failed_at: Time of the last failure, within ten seconds.
        error: The error, with its SQLSTATE.
    """

    task: str
    queue_name: str | None
    group_name: str | None
    failed_since: datetime
    failed_at: datetime
    error: str
