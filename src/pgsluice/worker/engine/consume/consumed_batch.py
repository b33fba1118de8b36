"""Result of a tick batch of an event consumer: no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field

from pgsluice.client import Event, FailedEvent
from pgsluice.outcome import require_delay


@dataclass(frozen=True, slots=True)
class ConsumedBatch:
    """A finished tick batch.

    Attributes:
        batch_id: Its id.
        events: Events passed to the handler, without events that a batch handler did not read.
        retried: Events to be redelivered.
        dead: Dead-lettered events.
    """

    batch_id: int
    events: int
    retried: int = 0
    dead: int = 0


@dataclass(slots=True)
class BatchProgress:
    """Outcomes of the events of an open batch so far.

    Attributes:
        batch_id: Its id.
        events: Events passed to the handler.
        rejected: Events to be dead-lettered.
        ev_ids_again: Ids of events to be redelivered, by back-off in seconds.
    """

    batch_id: int
    events: int = 0
    rejected: list[FailedEvent] = field(default_factory=list)
    ev_ids_again: dict[float, list[int]] = field(default_factory=dict)

    def again(self, event: Event, delay_s: float) -> None:
        """Record an event for redelivery."""
        require_delay(delay_s)
        self.ev_ids_again.setdefault(delay_s, []).append(event.ev_id)

    def consumed(self) -> ConsumedBatch:
        """Return the result of the batch."""
        retried = sum(map(len, self.ev_ids_again.values()))
        return ConsumedBatch(self.batch_id, self.events, retried, len(self.rejected))


def attempt_of(event: Event) -> int:
    """Return the number of this attempt of an event; the first is 1."""
    return (event.ev_retry or 0) + 1
