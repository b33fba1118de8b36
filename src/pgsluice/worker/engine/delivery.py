"""A claimed message or event, independent of its source: no I/O."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from pgsluice.client import ClaimedEvent, Event
from pgsluice.client.retry_records import FailedMessage
from pgsluice.outcome import Done, Outcome, Reject, Release, Retry

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

_EVENT_FIELDS = ("ev_type", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")
_event_fields = attrgetter(*_EVENT_FIELDS)


@dataclass(slots=True, eq=False)
class Delivery:
    """A claimed message of a work queue, or a claimed event of a share group.

    Attributes:
        source_name: Display name of the source: `queue mail`, `group mailers of log orders`.
        message_id: `msg_id` of a message, `ev_id` of an event.
        fence: Fencing token of the claim: `read_ct` of a message, `claim_id` of an event.
        attempt: The number of this attempt; the first is 1. Set by `Source.begin`.
        payload: The JSON value of a message; `ev_data` of an event, as text.
        headers: The headers of a message; `ev_type` and `ev_extra1` to `ev_extra4` of an event, those not null.
        sent_at: Send time.
        key: Ordering key, or None.
        raw: The source record: a `Message` or a `ClaimedEvent`.
        lease_end_s: Lease expiry on `time.monotonic`, measured from before the claim so that it is never later than
            the server's.
        is_suspect: True if its last attempt was never settled, so it may have killed its process.
        claims: Number of claims including this one; 0 if the source does not count claims.
        is_dead: True if `Source.begin` found its attempts used up and dead-lettered it.
        is_locked: True if another transaction held its row lock at the source's last update. Then no other worker can
            claim it, even after lease expiry.
        is_gone: True if the source's last update did not find it: it was cancelled, or another worker settled it.
        queue: Identity of the queue it was claimed from, which a queue of the same name that is created again does not
            have; None: unknown.
        is_in_doubt: True if the commit of its handler's own transaction, which acknowledges it, has started.
        span: The span of its handler call, if traced.
    """

    source_name: str
    message_id: int
    fence: int
    attempt: int
    payload: Any
    headers: dict[str, Any]
    sent_at: datetime
    key: str | None
    raw: Any
    lease_end_s: float
    is_suspect: bool = False
    is_dead: bool = False
    claims: int = 0
    is_locked: bool = False
    is_gone: bool = False
    queue: int | None = None
    is_in_doubt: bool = False
    span: SpanContext | None = None

    @property
    def uncounted(self) -> int:
        """Claims that did not count as attempts."""
        return max(0, self.claims - self.attempt)


@dataclass(frozen=True, slots=True)
class Failure:
    """Error of a failed attempt, as stored with the message.

    Attributes:
        error_type: The class of the exception, or a word if there was none: `timeout`, `process died`.
        message: The error message.
        trace: Its traceback, or None.
        place: A hash of the lines of code in the traceback; 0 without one.
    """

    error_type: str
    message: str
    trace: str | None = None
    place: int = 0


# Error type of a call whose thread or process did not start.
NOT_STARTED = "not started"

Result = Literal["done", "retry", "released", "dead", "lost", "locked"]


@dataclass(frozen=True, slots=True)
class Settlement:
    """The outcome of one delivery, and its result once the source has applied it.

    Attributes:
        outcome: `Done`, `Retry`, `Release` or `Reject`.
        failure: The error, for `Retry` and `Reject`.
        result: None until the outcome is applied. Then `done`; `retry`, it will be redelivered; `released`; `dead`;
            `lost`, the claim was stale and nothing was changed; `locked`, another transaction holds the row lock and
            the outcome is not applied yet.
        next_retry_s: For the result `retry`, seconds until the next attempt; None: unknown to the source.
        delay_min_s: For `Retry`, the least seconds until the next attempt.
        returned: For `Done`, what the handler returned, as JSON text, if its handler keeps results.
    """

    outcome: Outcome
    failure: Failure | None = None
    result: Result | None = None
    next_retry_s: float | None = None
    delay_min_s: float | None = None
    returned: str | None = None

    @property
    def requested(self) -> Result:
        """The result if the outcome is applied as requested."""
        match self.outcome:
            case Done():
                return "done"
            case Retry():
                return "retry"
            case Release():
                return "released"
            case _:
                return "dead"

    @property
    def is_lost(self) -> bool:
        """True if the claim of the message was stale."""
        return self.result == "lost"

    def with_result(self, result: Result, next_retry_s: float | None = None) -> Settlement:
        """Return a copy with the result from the source."""
        return Settlement(self.outcome, self.failure, result, next_retry_s)

    @property
    def is_unstarted(self) -> bool:
        """True if no thread or process for the handler could be started."""
        return self.failure is not None and self.failure.error_type == NOT_STARTED

    @property
    def is_error(self) -> bool:
        """True if the handler raised or returned an exception that is not an outcome."""
        return self.failure is not None and self.failure.trace is not None


@dataclass(slots=True)
class Counts:
    """Number of deliveries of a handler by result, since start; for logs, health and `run_until_empty`."""

    done: int = 0
    retry: int = 0
    released: int = 0
    dead: int = 0
    lost: int = 0
    by_error_type: dict[str, int] = field(default_factory=dict)

    def add(self, result: Result) -> None:
        """Count one result."""
        setattr(self, result, getattr(self, result) + 1)


DONE = Settlement(Done())
ACKNOWLEDGED = Settlement(Done(), result="done")
LOST = Settlement(Release(), result="lost")


def failed_message(delivery: Delivery, settlement: Settlement) -> FailedMessage:
    """Return a delivery to retry or dead-letter, with its error, as the server takes it."""
    assert isinstance(settlement.outcome, Retry | Reject)  # noqa: S101 - others are not failures
    failure = settlement.failure or Failure("", "")
    return FailedMessage(
        message=delivery.raw,
        outcome=settlement.outcome,
        error_type=failure.error_type or None,
        error=failure.message or None,
        trace=failure.trace,
        delay_min_s=settlement.delay_min_s,
    )


def delivery_of_event(
    source_name: str,
    event: Event | ClaimedEvent,
    fence: int,
    attempt: int,
    key: str | None = None,
    lease_end_s: float = math.inf,
) -> Delivery:
    """Return the delivery of an event of a log; its arguments as in `Delivery`."""
    fields = zip(_EVENT_FIELDS, _event_fields(event), strict=True)
    return Delivery(
        source_name=source_name,
        message_id=event.ev_id,
        fence=fence,
        attempt=attempt,
        payload=event.ev_data,
        headers={name: value for name, value in fields if value is not None},
        sent_at=event.ev_time,
        key=key,
        raw=event,
        lease_end_s=lease_end_s,
    )
