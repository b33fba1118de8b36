"""Options and records of share groups, with the fields of the SQL functions' results, in their order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypedDict

AcknowledgeType = Literal["accept", "release", "retry", "reject"]


class GroupOptions(TypedDict, total=False):
    """Changeable options of a share group; None stands for the default.

    Attributes:
        lease_s: Default lease of a claim in seconds, more than 0. Default: 30.
        max_attempts: Failed attempts before an event is dead-lettered, 1 or more. Default: 5.
        max_deliveries: Deliveries before an event is dead-lettered, even with fewer counted attempts, as when its
            consumers crash before a heartbeat; 1 or more. Default: 3 times `max_attempts`.
        backoff: Growth of the back-off before a retry: `constant`, `linear` or `exponential`. Default: exponential.
        backoff_base_s: Initial back-off in seconds, 0 or more. Default: 1.
        backoff_max_s: Maximum back-off in seconds, 0 or more. Default: 600.
        backoff_jitter: Randomise the back-off (50 to 100 %), to spread the retries of events that failed together.
            Default: True.
        unhandled: Treatment of events of a type that no handler is declared for: `accept` acknowledges and counts them,
            `leave` keeps them until a worker declares the type, `dead-letter` dead-letters them. Default: accept.
    """

    lease_s: float | None
    max_attempts: int | None
    max_deliveries: int | None
    backoff: Literal["constant", "linear", "exponential"] | None
    backoff_base_s: float | None
    backoff_max_s: float | None
    backoff_jitter: bool | None
    unhandled: Literal["accept", "leave", "dead-letter"] | None


@dataclass(frozen=True, slots=True)
class ClaimedEvent:
    """An event that a consumer of a share group has claimed.

    Attributes:
        claim_id: The claim, shared by all events of one `claim` call; pass it to `acknowledge`.
        ev_id: Id in the log.
        ev_time: Start time of the inserting transaction.
        ev_txid: Id of that transaction, 64 bits.
        attempt: Number of this attempt, from 1.
        deliveries: Number of deliveries including this one, without released ones. Higher than `attempt` if leases
            expired without a heartbeat.
        redriven: Number of times the event was redriven.
        lease_until: Time at which the lease expires unless settled or renewed before, by the server's clock.
        ev_type: Type of the event.
        ev_data: Text of the event.
        ev_extra1: Additional text, as are the next three.
        key: The ordering key by the option `key` of the group; None: the event has no order.
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
    key: str | None = None


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """Settings and lag of a share group.

    Attributes:
        lease: Default lease of a claim.
        max_attempts: As in `GroupOptions`, as are the fields up to `backoff_jitter`; durations as timedelta.
        key: Ordering key, or None.
        when_waiting: Handling of a key while one of its events awaits a retry: `block`, `skip` or `park`.
        unhandled: As in `GroupOptions`.
        lost: Reason why the position was dropped, or None.
        lag_events: Events not yet claimed, approximately.
        lag_s: Age of the oldest unclaimed event in seconds; 0 without any.
        leased: Claimed, unsettled events.
        retrying: Events that await redelivery.
        dead: Dead letters, counted up to 10,000.
    """

    log_name: str
    group_name: str
    lease: timedelta
    max_attempts: int
    max_deliveries: int
    backoff: str
    backoff_base: timedelta
    backoff_max: timedelta
    backoff_jitter: bool
    key: str | None
    when_waiting: str
    unhandled: str
    lost: str | None
    lag_events: int
    lag_s: float
    leased: int
    retrying: int
    dead: int


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of a share group; see `GroupInfo`."""

    group_name: str
    lease: timedelta
    max_attempts: int
    max_deliveries: int
    backoff: str
    backoff_base: timedelta
    backoff_max: timedelta
    key: str | None
    when_waiting: str
    lost: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class BlockedKey:
    """A blocked key of a share group.

    Attributes:
        key: The key.
        since: Start of the block.
        reason: `claimed`: an open claim has events of the key; `retrying`: one of its events awaits a retry; `parked`.
        waiting: Number of events held back.
        claim_id: The open claim; None unless `claimed`.
        ev_id: The blocking event; None if `claimed`.
        due_at: Time of its redelivery; None unless `retrying`.
    """

    key: str
    since: datetime
    reason: Literal["claimed", "retrying", "parked"]
    waiting: int
    claim_id: int | None
    ev_id: int | None
    due_at: datetime | None


@dataclass(frozen=True, slots=True)
class GroupType:
    """An event type of a share group: a declaration of a handler, or a type without one.

    Attributes:
        ev_type: The type; None: all types that no other handler declares, or, without a handler, events without a type.
        app: App of the handler that is declared for it, or None.
        handler: That handler, or None.
        declared_at: Time at which a worker last declared it: at its start, and then every hour.
        workers: Live workers that run the handler; None: no handler is declared.
        waiting: Events that wait for a member that handles the type; None for all other types.
        waiting_keys: Ordering keys whose next event has the type and waits likewise.
        since: Start of the wait, or None.
        accepted: Events that workers accepted without a handler; None if a handler is declared.
        dead_lettered: Events that workers dead-lettered without a handler.
        last_unhandled_at: Time of the last of these, or None.
    """

    ev_type: str | None
    app: str | None
    handler: str | None
    declared_at: datetime | None
    workers: int | None
    waiting: int | None
    waiting_keys: int | None
    since: datetime | None
    accepted: int | None
    dead_lettered: int | None
    last_unhandled_at: datetime | None


@dataclass(frozen=True, slots=True)
class OpenClaim:
    """An open claim of a share group.

    Attributes:
        claim_id: The claim, for `acknowledge` and `renew`.
        lease_until: Time at which the lease expires; an expired lease takes effect with the group's next claim.
        events: Number of events.
        settled: Number of settled events.
        renewals: Number of renewals.
    """

    claim_id: int
    claimed_at: datetime
    lease_until: datetime
    events: int
    settled: int
    renewals: int
