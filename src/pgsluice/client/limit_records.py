"""Records of the limits of work queues."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

WhenWaiting = Literal["block", "skip", "park"]


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """Current usage of the limits of a work queue.

    Attributes:
        queue_name: The queue.
        in_flight: Messages in flight now; None without `fleet_concurrency`.
        started: Messages claimed in the last `rate_interval`; None without a rate.
    """

    queue_name: str
    in_flight: int | None
    started: int | None


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
