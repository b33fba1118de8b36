"""The result of a tick batch of an event consumer, and its dead letters: no I/O."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from pgsluice.client import Event
from pgsluice.outcome import require_delay


@dataclass(frozen=True, slots=True)
class ConsumedBatch:
    """A tick batch that was finished.

    Attributes:
        batch_id: Its id.
        events: Events that the handler was given; those that a batch handler did not read are not among them.
        retried: Those of them that come again.
        dead: Those of them that went to the dead letters.
    """

    batch_id: int
    events: int
    retried: int = 0
    dead: int = 0


@dataclass(slots=True)
class BatchProgress:
    """How far a batch is: the outcomes of its events so far.

    Attributes:
        events: Events that the handler was given.
        dead: Those of them that went to the dead letters.
        ev_ids_again: Those of them that are to come again, by the delay in seconds.
    """

    events: int = 0
    dead: int = 0
    ev_ids_again: dict[float, list[int]] = field(default_factory=dict)

    def again(self, event: Event, delay_s: float) -> None:
        """Note that an event is to be retried."""
        require_delay(delay_s)
        self.ev_ids_again.setdefault(delay_s, []).append(event.ev_id)

    def consumed(self, batch_id: int) -> ConsumedBatch:
        """Return the result of the batch."""
        retried = sum(map(len, self.ev_ids_again.values()))
        return ConsumedBatch(batch_id, self.events, retried, self.dead)


def attempt_of(event: Event) -> int:
    """The number of this delivery of an event; the first is 1."""
    return (event.ev_retry or 0) + 1


def dead_letter(queue_name: str, consumer_name: str, event: Event) -> dict[str, Any]:
    """An event as the message that the dead-letter queue keeps."""
    fields = asdict(event) | {"ev_time": event.ev_time.isoformat()}
    return {"queue_name": queue_name, "consumer_name": consumer_name, **fields}


def dead_letter_headers(error: Exception, attempts: int) -> dict[str, Any]:
    """Why an event is dead."""
    text = f"{type(error).__name__}: {error}"
    # An exception can quote anything; what JSON in PostgreSQL cannot hold must not keep the event from its end.
    storable = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
    return {"attempts": attempts, "error": storable}
