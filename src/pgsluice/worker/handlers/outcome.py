"""What a handler of events can say, and what became of a tick batch: no I/O."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from pgsluice.client import Event
from pgsluice.worker.handlers.answer import require_delay


@dataclass(frozen=True, slots=True)
class RetryIn:
    """What a handler returns to get its event again later; what it wrote stays.

    Attributes:
        delay_s: Seconds from now, 0 to 68 years; it comes with a later batch, so not at this very moment.
    """

    delay_s: float

    def __post_init__(self) -> None:
        """Refuse a delay that could not be waited for."""
        require_delay(self.delay_s)


class RetryEventError(Exception):
    """What a handler raises to get its event again later; what it wrote for this event is rolled back."""

    def __init__(self, delay_s: float) -> None:
        """Ask for the event again.

        Args:
            delay_s: As for `RetryIn`.
        """
        require_delay(delay_s)
        super().__init__(delay_s)
        self.delay_s = delay_s


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
class Tally:
    """What becomes of the events of a batch, while it is handled.

    Attributes:
        events: Events that the handler was given.
        dead: Those of them that went to the dead letters.
        ev_ids_again: Those of them that are to come again, by the delay in seconds.
    """

    events: int = 0
    dead: int = 0
    ev_ids_again: dict[float, list[int]] = field(default_factory=dict)

    def again(self, event: Event, delay_s: float) -> None:
        """Note that an event is to come again."""
        require_delay(delay_s)
        self.ev_ids_again.setdefault(delay_s, []).append(event.ev_id)

    def consumed(self, batch_id: int) -> ConsumedBatch:
        """What became of them all."""
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
