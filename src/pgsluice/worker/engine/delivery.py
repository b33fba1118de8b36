"""A claimed message or event, independent of its source: no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext


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
