"""Records of attempts, failures and retry policies of work queues."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pgsluice.client.group_records import ClaimedEvent
from pgsluice.client.records import Message
from pgsluice.outcome import Reject, Retry

Backoff = Literal["constant", "linear", "exponential"]


@dataclass(frozen=True, slots=True)
class MessageAttempts:
    """Recorded attempts of a message, with the last error.

    Attributes:
        msg_id: The message.
        attempts: Number of attempts; None for a dead letter whose attempts were not recorded.
        state: `begun`: it is running, or its process died; `failed`; `released`; `dead`.
        first_failed_at: Time of the first failure, or None.
        last_failed_at: Time of the last failure, or of dead-lettering, or None.
        next_retry_at: Time of the next retry; None while it is claimed, and if it is dead.
        error_type: Type of the last error, or None.
        error: The last error, or None.
        trace: Traceback of the last error, or None.
        worker: Worker of the last attempt, or None.
    """

    msg_id: int
    attempts: int | None
    state: Literal["begun", "failed", "released", "dead"]
    first_failed_at: datetime | None
    last_failed_at: datetime | None
    next_retry_at: datetime | None
    error_type: str | None
    error: str | None
    trace: str | None
    worker: str | None


@dataclass(frozen=True, slots=True)
class FailingMessages:
    """Failed messages of a queue with the same error that are still retried.

    Attributes:
        queue_name: The queue.
        error_type: Type of the last error, or None.
        error: First line of the last error, with `#` for numbers and UUIDs.
        messages: Number of messages.
        attempts_max: Most attempts of one of them.
        first_failed_at: First failure.
        last_failed_at: Last failure.
        next_retry_at: Time of the next retry; None while all of them are claimed.
        example_msg_id: The message that failed last.
        worker: Its worker, or None.
    """

    queue_name: str
    error_type: str | None
    error: str | None
    messages: int
    attempts_max: int
    first_failed_at: datetime | None
    last_failed_at: datetime | None
    next_retry_at: datetime | None
    example_msg_id: int
    worker: str | None


@dataclass(frozen=True, slots=True)
class BegunAttempt:
    """Decision of `begin_attempts` about a message.

    Attributes:
        msg_id: The message.
        attempt: Number of the attempt, from 1; for `dead`, the number of attempts made; None for `lost`.
        outcome: `begun`: start the handler; `dead`: all attempts were begun and never settled, so the message was
            dead-lettered; `lost`: the claim is stale or the message gone.
    """

    msg_id: int
    attempt: int | None
    outcome: Literal["begun", "dead", "lost"]


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Decision about a failed attempt.

    Attributes:
        outcome: `retry` or `dead`.
        reason: For `dead`: the reason in a word or two.
        delay_s: For `retry`: seconds until the next attempt.
    """

    outcome: Literal["retry", "dead"]
    reason: str | None
    delay_s: float | None


@dataclass(frozen=True, slots=True)
class FailedMessage:
    """A claimed message or event whose handler failed.

    Attributes:
        message: As returned by the read or claim.
        outcome: `Retry` or `Reject`, with its reason.
        error_type: Type of the error: the name of an exception, or a word such as `timeout`.
        error: The error's message.
        trace: The error's traceback.
        delay_min_s: Least seconds until a retry, whatever its delay or back-off.
    """

    message: Message | ClaimedEvent
    outcome: Retry | Reject = field(default_factory=Retry)
    error_type: str | None = None
    error: str | None = None
    trace: str | None = None
    delay_min_s: float | None = None
