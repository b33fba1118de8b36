"""What the share groups' clients take and return: frozen records, fields named and ordered as by the SQL functions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypedDict

AcknowledgeType = Literal["accept", "release", "retry", "reject"]


class GroupOptions(TypedDict, total=False):
    """Settings of a share group that can be changed; None stands for the default.

    Attributes:
        lease_s: How long a claim lasts unless it says otherwise, more than 0 seconds. Default: 30.
        max_attempts: With so many attempts that failed an event is dead, 1 or more. Default: 5.
        max_deliveries: With so many deliveries it is dead although fewer attempts counted, as when its consumers die
            before they are heard of, 1 or more. Default: 3 times `max_attempts`.
        backoff: How the pause before a retry grows with the attempts: `constant`, `linear` or `exponential`. Default:
            exponential.
        backoff_base_s: The first pause, 0 or more seconds. Default: 1.
        backoff_cap_s: The longest pause, 0 or more seconds. Default: 600.
        backoff_jitter: Whether a pause is anything between half of that and all of it, so that what failed together
            does not come back together. Default: True.
        dead_letter_log: An event log that dead events go to. Default: none, they are kept as dead events.
    """

    lease_s: float | None
    max_attempts: int | None
    max_deliveries: int | None
    backoff: Literal["constant", "linear", "exponential"] | None
    backoff_base_s: float | None
    backoff_cap_s: float | None
    backoff_jitter: bool | None
    dead_letter_log: str | None


@dataclass(frozen=True, slots=True)
class ClaimedEvent:
    """An event that a consumer of a share group has claimed.

    Attributes:
        claim_id: The claim, the same of all events that one call returned; it acknowledges them.
        ev_id: Its id in the log.
        ev_time: When the transaction that inserted it began.
        ev_txid: The id of that transaction, 64 bits.
        attempt: Which attempt this is; 1 is the first.
        deliveries: How often it has been handed out, this time included; what was released does not count. More
            than `attempt` when claims lapsed and nobody was heard of.
        redriven: How often it was dead and sent again.
        lease_until: When the claim lapses unless it is settled or renewed before; by the server's clock.
        ev_type: What the producer says it is.
        ev_data: What the producer says.
        ev_extra1: More of it, as are the next three.
    """

    claim_id: int
    ev_id: int
    ev_time: datetime
    ev_txid: int
    attempt: int
    deliveries: int
    redriven: int
    lease_until: datetime
    ev_type: str | None
    ev_data: str | None
    ev_extra1: str | None
    ev_extra2: str | None
    ev_extra3: str | None
    ev_extra4: str | None


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A share group: its settings, and how far behind it is.

    Attributes:
        lease: How long a claim lasts unless it says otherwise.
        max_attempts: As in `GroupOptions`, as are those up to `dead_letter_log`; times as intervals.
        key: What events are kept in order by, or None.
        when_waiting: What becomes of a key of which an event waits to be retried.
        lost: Why its position was given up, or None.
        lag_events: Events that nobody has claimed yet, about.
        lag_s: Age of the oldest of them, seconds; 0: there is none.
        leased: Events that are claimed and not settled.
        retrying: Events that wait to be claimed again.
        dead: Its dead events, those in a `dead_letter_log` left out.
    """

    queue_name: str
    group_name: str
    lease: timedelta
    max_attempts: int
    max_deliveries: int
    backoff: str
    backoff_base: timedelta
    backoff_cap: timedelta
    backoff_jitter: bool
    dead_letter_log: str | None
    key: str | None
    when_waiting: str
    lost: str | None
    lag_events: int
    lag_s: float
    leased: int
    retrying: int
    dead: int


@dataclass(frozen=True, slots=True)
class BlockedKey:
    """A key of a share group whose events wait.

    Attributes:
        key: The key.
        since: Since when it has been so.
        reason: `claimed`, a claim has events of it; `retrying`, one of its events is to come again; `parked`.
        waiting: How many events wait behind that.
        claim_id: The claim that has it; None unless it is claimed.
        ev_id: The event that they wait for; None when it is claimed.
        due_at: When that comes again; None unless it is retrying.
    """

    key: str
    since: datetime
    reason: Literal["claimed", "retrying", "parked"]
    waiting: int
    claim_id: int | None
    ev_id: int | None
    due_at: datetime | None


@dataclass(frozen=True, slots=True)
class OpenClaim:
    """A claim of a share group that is not settled.

    Attributes:
        claim_id: What `acknowledge` and `renew` take.
        lease_until: When it lapses, or could have: with the next claim of the group.
        events: How many events it has.
        settled: How many of them are settled.
        renewals: How often it was renewed.
    """

    claim_id: int
    claimed_at: datetime
    lease_until: datetime
    events: int
    settled: int
    renewals: int
