"""What the clients take and return about attempts of work-queue messages: frozen records."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from pgsluice.client.records import Message
from pgsluice.outcome import Reject, Retry

Backoff = Literal["constant", "linear", "exponential"]


@dataclass(frozen=True, slots=True)
class QueueRetryPolicy:
    """When messages of a queue that failed are tried again, and when they are given up.

    Attributes:
        max_attempts: Attempts after which a message goes to the dead letters, 1 or more.
        backoff: How the pauses grow: `constant`; `linear`, by the first each time; `exponential`, by the factor.
        backoff_base: The pause after the first attempt.
        backoff_max: The longest pause.
        backoff_jitter: Whether each pause is between half of it and all of it, at random.
        backoff_factor: By how much each pause is longer than the one before, with exponential backoff; 1 or more.
        is_default: The queue has no policy of its own.
    """

    queue_name: str
    max_attempts: int
    backoff: Backoff
    backoff_base: timedelta
    backoff_max: timedelta
    backoff_jitter: bool
    backoff_factor: float
    is_default: bool


@dataclass(frozen=True, slots=True)
class BegunAttempt:
    """What `begin_attempts` says of a claim.

    Attributes:
        msg_id: The message.
        attempt: The number of the attempt, the first is 1; when it is dead, how many there were; None: lost.
        outcome: `begun`; `dead`: all its attempts were begun and nobody answered, now it is a dead letter; `lost`:
            the claim is over.
    """

    msg_id: int
    attempt: int | None
    outcome: Literal["begun", "dead", "lost"]


@dataclass(frozen=True, slots=True)
class FailedMessage:
    """A claimed message whose handler failed.

    Attributes:
        message: As the claim returned it.
        outcome: `Retry` or `Reject`, with its reason.
        error_type: What kind of error: the name of an exception, or a word like `timeout`.
        error: What the error says.
        trace: Its traceback.
    """

    message: Message
    outcome: Retry | Reject = field(default_factory=Retry)
    error_type: str | None = None
    error: str | None = None
    trace: str | None = None
