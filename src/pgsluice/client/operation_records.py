"""Records of operations: paused queues."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class PausedQueue:
    """A queue from which workers claim nothing until it is resumed.

    Attributes:
        queue_name: The queue.
        paused_at: Time of the pause.
        paused_by: Role and application that paused it.
        reason: The reason given, or None.
    """

    queue_name: str
    paused_at: datetime
    paused_by: str
    reason: str | None
