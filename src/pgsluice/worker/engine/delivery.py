"""One message in the hands of this process, whatever shape it came from: no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(slots=True, eq=False)
class Delivery:
    """A claimed message of a work queue, or a claimed event of a share group.

    Attributes:
        source_name: Where it is from, for people: `queue mail`, `group mailers of log orders`.
        message_id: `msg_id` of a message, `ev_id` of an event.
        fence: What names the claim beside the id: `read_ct` of a message, `claim_id` of an event.
        attempt: The number of this start of its handler; the first is 1. Set by `Source.begin`.
        payload: The JSON value of a message; what `ev_data` holds of an event, as text.
        headers: The headers of a message; `ev_type` and `ev_extra1` to `ev_extra4` of an event, those not null.
        sent_at: When it was sent.
        key: What it is kept in order by, or None.
        raw: The record it was made from: a `Message` or a `ClaimedEvent`.
        lease_end_s: When the lease ends, on `time.monotonic`, measured from before the claim so that it never is
            later than the server's.
        is_suspect: Whether nobody heard of its last start again, so that it may have killed its process.
        claims: How often it was claimed, this claim included; 0 if the source does not count claims.
        is_dead: True if `Source.begin` found its attempts used up and dead-lettered it.
        is_locked: True if another transaction held its row lock when the source was last to change it. Then no other
            worker can claim it, whenever its lease ends.
        is_in_doubt: True if its handler's own transaction, which acknowledges it, was about to be committed.
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
    is_in_doubt: bool = False

    @property
    def uncounted(self) -> int:
        """Claims that counted as no attempt."""
        return max(0, self.claims - self.attempt)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, as it is kept with the message.

    Attributes:
        error_type: The class of the exception, or a word for what no exception told: `timeout`, `process died`.
        message: What it says.
        trace: Its traceback, or None.
        place: A number for the lines of code that it passed through; 0 without a traceback.
    """

    error_type: str
    message: str
    trace: str | None = None
    place: int = 0
