"""Result of a tick batch of an event consumer, and its dead letters: no I/O."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from pgsluice.client import Event
from pgsluice.client.calls.call import storable_in
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
        events: Events passed to the handler.
        dead: Dead-lettered events.
        ev_ids_again: Ids of events to be redelivered, by back-off in seconds.
    """

    events: int = 0
    dead: int = 0
    ev_ids_again: dict[float, list[int]] = field(default_factory=dict)

    def again(self, event: Event, delay_s: float) -> None:
        """Record an event for redelivery."""
        require_delay(delay_s)
        self.ev_ids_again.setdefault(delay_s, []).append(event.ev_id)

    def consumed(self, batch_id: int) -> ConsumedBatch:
        """Return the result of the batch."""
        retried = sum(map(len, self.ev_ids_again.values()))
        return ConsumedBatch(batch_id, self.events, retried, self.dead)


def attempt_of(event: Event) -> int:
    """Return the number of this attempt of an event; the first is 1."""
    return (event.ev_retry or 0) + 1


def dead_letter(queue_name: str, consumer_name: str, event: Event) -> dict[str, Any]:
    """Return the dead-letter message of an event."""
    fields = asdict(event) | {"ev_time": event.ev_time.isoformat()}
    return {"queue_name": queue_name, "consumer_name": consumer_name, **fields}


def dead_letter_headers(error: Exception, attempts: int, encoding: str) -> dict[str, Any]:
    """Return the dead-letter headers: attempts and error.

    Args:
        error: The error of the last attempt.
        attempts: Number of attempts.
        encoding: Encoding of the database, by PostgreSQL's name.
    """
    text = f"{type(error).__name__}: {error}"
    # An exception may contain text that the database cannot store; that must not prevent the dead letter.
    return {"attempts": attempts, "error": storable_in(text, encoding)}
