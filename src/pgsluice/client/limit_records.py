"""What the clients return about limits of work queues: frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

WhenWaiting = Literal["block", "skip", "park"]


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The limits of a work queue, and how much of them is used.

    Attributes:
        queue_name: The queue.
        fleet_concurrency: So many may be in flight at once, or None.
        key_concurrency: So many of one key may be in flight at once, or None.
        rate: So many may be claimed in `rate_s` seconds, or None.
        rate_s: Seconds; None without a rate.
        when_waiting: What becomes of a key of which a message waits to be retried; None: keys have no order.
        priority_weights: One for each level, the most urgent first; None: there are no levels.
        in_flight: What is claimed now; None without `fleet_concurrency`.
        started: What was claimed in the last `rate_s` seconds; None without a rate.
        declared_by: The handler that declared the limits, which the next start of a worker may change; None: an
            operator set them.
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
    """A key of a work queue whose visible messages wait.

    Attributes:
        key: The key.
        reason: `claimed`: as many as may be are in flight; `retrying`: one of it waits to be retried; `parked`: until
            `unpark_messages`.
        since: When it began; None for `retrying`.
        msg_id: The message that they wait for, or that was the reason to park.
        due_at: When that message comes again, or its claim lapses; None for `parked`.
        waiting: How many wait; 1,000 are at least so many.
    """

    key: str
    reason: Literal["claimed", "retrying", "parked"]
    since: datetime | None
    msg_id: int
    due_at: datetime | None
    waiting: int
