"""Figures of queues, consumers and share groups, now and over time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class QueueState:
    """Figures of a work queue.

    Attributes:
        length: Messages in the queue; an estimate above 5,000, as are the next four.
        ready: Messages that can be read now.
        in_flight: Messages that are claimed, and whose lease has not ended.
        retrying: Messages that failed or were released, and wait for their next attempt.
        delayed: Messages that become visible for the first time later.
        oldest_ready_s: Seconds since the oldest ready message became visible; None without ready messages.
        sent: Ids assigned so far, including those of rolled back sends.
        finished: Messages that left the queue: acknowledged, dead-lettered or purged in steps. The server counts them,
            up to a minute late, and from 0 after a crash.
        dead: Dead letters, counted up to 10,000.
    """

    queue_name: str
    length: int
    ready: int
    in_flight: int
    retrying: int
    delayed: int
    oldest_ready_s: float | None
    sent: int
    finished: int
    dead: int


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of a queue, a consumer or a share group at one time; those that it does not have are None.

    In samples of a minute or of 15 minutes `sent` and `finished` are the last ones of that time, and the others the
    highest.

    Attributes:
        reader_name: Name of the consumer or share group; empty for a queue.
        length: Messages in the queue, as are the next attributes in `QueueState`.
        in_flight: For a share group: events claimed and not settled.
        sent: For a log: events so far.
        finished: For a consumer or share group: events so far that are behind its position.
        dead: Dead letters of the queue or share group.
        lag_events: Consumer lag in events.
        lag_s: Age of the oldest unconsumed event in seconds; 0 if there is none.
        pinned_bytes: Bytes of segments kept for the consumer.
        retrying: Messages of the queue, or events of the share group, that wait for a retry.
    """

    taken_at: datetime
    reader_name: str
    length: int | None
    ready: int | None
    in_flight: int | None
    delayed: int | None
    oldest_ready_s: float | None
    sent: int | None
    finished: int | None
    dead: int | None
    lag_events: int | None
    lag_s: float | None
    pinned_bytes: int | None
    retrying: int | None


@dataclass(frozen=True, slots=True)
class NewestSample:
    """The newest figures of a queue, a consumer or a share group; those that it does not have are None.

    Attributes:
        name: The queue, or the log of the consumer or share group.
        reader_name: Name of the consumer or share group; empty for a queue.
        taken_at: Time of the sample. The other attributes are as in `Sample`.
        sent_per_s: Messages or events sent per second in the minute before it; None without an earlier sample.
        finished_per_s: Likewise finished ones.
    """

    name: str
    reader_name: str
    taken_at: datetime
    length: int | None
    ready: int | None
    in_flight: int | None
    delayed: int | None
    oldest_ready_s: float | None
    sent: int | None
    finished: int | None
    dead: int | None
    lag_events: int | None
    lag_s: float | None
    pinned_bytes: int | None
    retrying: int | None
    sent_per_s: float | None
    finished_per_s: float | None
