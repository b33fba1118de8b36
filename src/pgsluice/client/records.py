"""What the clients return: frozen records, their fields named and ordered as the SQL functions return them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a work queue.

    Attributes:
        msg_id: Its id in the queue, rising in the order of sending.
        read_ct: How many times it has been claimed, this time included.
        enqueued_at: When the transaction that sent it began.
        last_read_at: When it was last claimed, or None.
        vt: When it becomes visible (again).
        message: The JSON value that was sent: None, bool, int, float, str, list or dict.
        headers: The JSON object that was sent with it, or None.
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
        msg_id: The message.
        outcome: `done`; `stale`: another consumer has claimed the message since, and keeps it; `gone`: it is not in
            the queue any more: acknowledged before, by this or another claim. To a retry after a lost reply, `gone` is
            fine. From `fail` also `retry`: it will be redelivered; `dead`: it is a dead letter; after a lost reply,
            what the first call did.
        attempt: From `fail`, the number of the attempt that failed; None when the claim is stale or gone.
        delay_s: For `retry`, seconds until it is visible again; None after a lost reply.
    """

    msg_id: int
    outcome: Literal["done", "stale", "gone", "retry", "dead"]
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
    """The state of a work queue at `scrape_time`.

    Attributes:
        queue_length: Messages in the queue, visible or not.
        newest_msg_age_sec: Seconds since the newest was sent, or None when the queue is empty.
        oldest_msg_age_sec: Seconds since the oldest was sent, or None when the queue is empty.
        total_messages: Ids handed out so far, those of rolled back sends included.
        queue_visible_length: Messages that a read would find now.
        default_partition_length: Rows of the queue and its archive that have no partition of their own: maintenance is
            late when there are many. Beyond 10,000 an estimate. None: not partitioned.
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
    """A message where it is, seen without claiming it.

    Attributes:
        msg_id: As in `Message`, as are all that are not said here.
        vt: When it becomes visible (again), or was; None when it is dead.
        archived_at: When the transaction that archived it began, or None when it is not archived.
        state: `visible`; `in flight` (claimed before and not visible, also when it was given back with a delay);
            `delayed` (never claimed and not visible yet); `archived`; `dead`.
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
class DeadLetter:
    """A message that failed for good.

    Attributes:
        dead_letter_id: Its id among the dead letters of all queues, rising in the order of failing.
        queue_name: The queue it was in, spelled as by whoever gave it up.
        msg_id: As in `Message`, as are all that are not said here.
        reason: Why it was given up, in a word or two.
        error: The last error, or None.
        dead_at: When it was given up.
        attempts: How often it was tried; None: nobody counted, nor knows what follows.
        first_failed_at: When the first attempt failed.
        error_type: What kind of error the last one was: the name of an exception, or a word like `timeout`.
        trace: Its traceback.
        worker: Who tried it last.
    """

    dead_letter_id: int
    queue_name: str
    msg_id: int
    read_ct: int
    enqueued_at: datetime
    last_read_at: datetime | None
    message: Any
    headers: Any
    reason: str
    error: str | None
    dead_at: datetime
    attempts: int | None = None
    first_failed_at: datetime | None = None
    error_type: str | None = None
    trace: str | None = None
    worker: str | None = None


@dataclass(frozen=True, slots=True)
class ArchiveRetention:
    """How long a queue keeps its archived messages, at least; `archive_retention` is None: for ever."""

    queue_name: str
    archive_retention: timedelta | None


@dataclass(frozen=True, slots=True)
class Export:
    """A table of a lake that a queue's archive is copied into.

    Attributes:
        queue_name: The queue.
        export_name: Its own name, one of the queue's exports.
        lake: Where the table was when it was last written to.
        created_at: Since when the archive keeps for it what it has not verified.
        verified_at: When messages were last verified in it; None: never.
        kept: How many verified messages are in the archive still.
    """

    queue_name: str
    export_name: str
    lake: str
    created_at: datetime
    verified_at: datetime | None
    kept: int


@dataclass(frozen=True, slots=True)
class QueueStream:
    """Who reads a queue as a stream.

    Attributes:
        stream_name: Its own name.
        queue_name: The queue.
        settled_seq: The last micro-batch that it said is stored; 0 before the first.
        claimed_messages: How many messages it has claimed and not settled.
        oldest_claim_at: When it claimed the first of them; None when there are none.
    """

    stream_name: str
    queue_name: str
    settled_seq: int
    claimed_messages: int
    oldest_claim_at: datetime | None


@dataclass(frozen=True, slots=True)
class Replayed:
    """An archived message and the new one that it was sent again as."""

    archived_msg_id: int
    msg_id: int


@dataclass(frozen=True, slots=True)
class Redriven:
    """What was a dead letter, and the new message that it was moved back as."""

    dead_letter_id: int
    msg_id: int


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """How far a replay is.

    Attributes:
        replayed: Messages that this step sent.
        replayed_in_all: Messages that it has sent so far.
        finished: Whether there is nothing left to send.
    """

    replayed: int
    replayed_in_all: int
    finished: bool


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay of an archive.

    Attributes:
        queue_name: The queue whose archive it sends again.
        target_queue_name: The queue it sends to.
        conditional: What the messages contain, as are the next three: the filter.
        until: Archived before this time; at the latest the beginning of the replay.
        replayed: Messages that it has sent so far.
        finished_at: When it had sent all, or None.
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
        pattern: The routing keys it gets: words joined by dots, `*` for one word, `#` for the rest.
        bound_at: When the transaction that bound it began.
        compiled_regex: The pattern as the regular expression that keys are matched against.
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
    """How a queue announces new messages.

    Attributes:
        throttle_interval_ms: Milliseconds between two notifications, at least; 0: every statement that sends notifies.
        last_notified_at: When the last notification was asked for; it goes out when its sender commits. The year 1970
            when there was none since the interval was set.
    """

    queue_name: str
    throttle_interval_ms: int
    last_notified_at: datetime


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a queue or of its archive.

    Attributes:
        relation: `queue` or `archive`.
        partition_name: Its table, in schema pgmq.
        starts_at: The first msg_id or time that it takes, or `MINVALUE`; None: it is the default partition.
        ends_at: The first that it does not take; None as above.
        row_estimate: How many rows it has, as last counted for the planner, or None when never.
        total_bytes: What it takes on disk, with its indexes.
    """

    relation: str
    partition_name: str
    starts_at: str | None
    ends_at: str | None
    row_estimate: int | None
    total_bytes: int


@dataclass(frozen=True, slots=True)
class MaintenanceStep:
    """A thing that `maintain` did.

    Attributes:
        task: What kind of thing, in words.
        queue_name: The queue, or None when it was about several.
        done: False: given up for now; `detail` says why.
        detail: What was done, in words.
    """

    task: str
    queue_name: str | None
    done: bool
    detail: str


@dataclass(frozen=True, slots=True)
class MaintenanceFailure:
    """Maintenance that failed at its last attempt.

    Attributes:
        task: What was attempted, such as `rotate`, `retry` or `retention`.
        queue_name: The queue or log that was skipped; None: the whole task failed.
        group_name: The share group that was skipped, if any.
        failed_since: The first failure since the last success.
        failed_at: The last failure, to ten seconds.
        error: The error, with its SQLSTATE.
    """

    task: str
    queue_name: str | None
    group_name: str | None
    failed_since: datetime
    failed_at: datetime
    error: str
