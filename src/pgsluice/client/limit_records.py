"""Records of the limits of work queues."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

WhenWaiting = Literal["block", "skip", "park"]


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Limits of a work queue and their current usage.

    Attributes:
        queue_name: The queue.
        fleet_concurrency: Maximum messages in flight over all processes, or None.
        key_concurrency: Maximum messages of one key in flight, or None.
        rate: Maximum messages read in `rate_s` seconds, or None.
        rate_s: Period of the rate limit in seconds; None without a rate.
        when_waiting: Handling of a key while one of its messages awaits a retry: `block`, `skip` or `park`; None: no
            order by key.
        priority_weights: Weight of each level, the most urgent first; None: no priorities.
        in_flight: Messages in flight now; None without `fleet_concurrency`.
        started: Messages read in the last `rate_s` seconds; None without a rate.
        declared_by: The handler that declared the limits, which the next start of a worker may change; None: set by an
            operator.
    """

    queue_name: str
    fleet_concurrency: int | None
    key_concurrency: int | None
    rate: int | None
    rate_s: float | None
    when_waiting: WhenWaiting | None
    priority_weights: list[int] | None
    in_flight: int | None
    started: int | None
    declared_by: str | None


@dataclass(frozen=True, slots=True)
class BlockedMessages:
    """A key of a work queue with blocked visible messages.

    Attributes:
        key: The key.
        reason: `claimed`: the key's concurrency limit is reached; `retrying`: one of its messages awaits a retry;
            `parked`: blocked until `unpark_messages`.
        since: Start of the block; None for `retrying`.
        msg_id: The blocking message, or the one that parked the key.
        due_at: Time at which that message is retried or its visibility timeout expires; None for `parked`.
        waiting: Number of blocked messages; 1,000 means 1,000 or more.
    """

    key: str
    reason: Literal["claimed", "retrying", "parked"]
    since: datetime | None
    msg_id: int
    due_at: datetime | None
    waiting: int
