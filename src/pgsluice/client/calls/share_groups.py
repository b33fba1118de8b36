"""Share groups: functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, LiteralString, Unpack

from pgsluice.client.calls.arguments import (
    checked_id,
    is_bigint,
    point,
    seconds,
    several,
    text,
    whole,
)
from pgsluice.client.calls.call import Call, column, one, record, scalar, storable_text
from pgsluice.client.calls.clients import EventLog, ShareGroup, method
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.group_records import (
    AcknowledgeType,
    ClaimedEvent,
    GroupInfo,
    GroupOptions,
    OpenClaim,
)
from pgsluice.client.settings_records import Change
from pgsluice.errors import ArgumentError

# A claim, by its id or by events of it.
Claimed = int | ClaimedEvent | Sequence[ClaimedEvent]

_SECONDS = "_s"


@method(ShareGroup, name="create")
def create_group(
    log_name: str,
    group_name: str,
    /,
    *,
    start: Literal["latest", "earliest"] | int | datetime = "latest",
    key: str | None = None,
    when_waiting: Literal["block", "skip", "park"] | None = None,
    **options: Unpack[GroupOptions],
) -> Call[bool]:
    """Create the group. From the commit on, the log keeps events until the group has settled them.

    Args:
        start: Where the group starts reading: `latest`, at events committed from now on; `earliest`, at the oldest
            event that the log keeps; a tick_id, after that tick; or a time with a time zone, after the newest tick
            at or before that time.
        key: Ordering key: `ev_type`, `ev_data`, `ev_extra1` to `ev_extra4`, or a JSON path into ev_data, such as
            `$.customer`. Events of one key are claimed by one consumer at a time, in the order of the log. None: no
            order.
        when_waiting: Handling of a key while one of its events awaits a retry: `block` holds back its later events;
            `skip` delivers them first; `park` moves the event and the later ones to the dead letters until
            `unpark_key`, a redrive or a purge. None: `block`. An immediate redelivery precedes the later events in
            any case.
        **options: See `GroupOptions`.

    Returns:
        False when the group exists with the same options.

    Raises:
        GroupStateError: The group exists with other options, or the name belongs to a plain consumer. Nothing was
            changed.
        LogStateError: The log does not have this tick, or no longer.
        ArgumentError: An option is unknown or its value invalid.

    Source: `sluice.create_group`.
    """
    fixed = {"start": _start(start), "key": key, "when_waiting": when_waiting}
    given = {name: value for name, value in fixed.items() if value is not None}
    return Call(
        "select sluice.create_group(%s::text, %s::text, %s::jsonb)",
        (log_name, group_name, json_parameter(given | _changeable(options), "options")),
        scalar,
    )


@method(ShareGroup, name="set_options")
def set_group_options(
    log_name: str, group_name: str, /, **options: Unpack[GroupOptions]
) -> Call[Change]:
    """Change the given options; open claims keep their lease.

    Args:
        **options: See `GroupOptions`. `start`, `key` and `when_waiting` cannot be changed.

    Returns:
        `unchanged` when the group has these options already.

    Raises:
        ArgumentError: An option is unknown or its value invalid.

    Source: `sluice.set_group_options`.
    """
    return Call(
        "select sluice.set_group_options(%s::text, %s::text, %s::jsonb)",
        (log_name, group_name, json_parameter(_changeable(options), "options")),
        scalar,
    )


@method(ShareGroup, name="drop")
def drop_group(log_name: str, group_name: str) -> Call[bool]:
    """Drop the group with its claims and retries; the log no longer keeps events for it.

    Its dead letters stay.

    Returns:
        False when the group did not exist.

    Source: `sluice.drop_group`.
    """
    return Call("select sluice.drop_group(%s::text, %s::text)", (log_name, group_name), scalar)


@method(EventLog)
def list_groups(log_name: str | None = None) -> Call[list[GroupInfo]]:
    """Return the settings and lag of the share groups of one log, or of all, by log and name.

    Raises:
        LogNotFoundError: The log does not exist.

    Source: `sluice.list_groups`.
    """
    return Call(
        "select * from sluice.list_groups(%s::text, null::text)", (log_name,), record(GroupInfo)
    )


@method(ShareGroup, name="info")
def group_info(log_name: str, group_name: str) -> Call[GroupInfo]:
    """Return the settings and lag of the group.

    Source: `sluice.list_groups`.
    """
    return Call(
        "select * from sluice.list_groups(%s::text, %s::text)",
        (log_name, group_name),
        one(GroupInfo),
    )


@method(ShareGroup)
def claim(
    log_name: str,
    group_name: str,
    qty: int = 1,
    *,
    lease_s: float | None = None,
    synchronous: bool = True,
    types: Sequence[str] | None = None,
    others: bool = False,
) -> Call[list[ClaimedEvent]]:
    """Claim up to `qty` events: first redeliveries that are due, then new events. Never waits for events.

    An async claim that is cancelled on a pool or in autocommit mode may hold its events until the lease expires.
    An open transaction with a claim blocks other claims of the group: commit before handling the events. On a
    connection in autocommit mode, outside a transaction block, pass `synchronous=False`: then neither this claim
    nor the others wait for its WAL flush.

    Args:
        qty: The most to claim, 1 or more.
        lease_s: Lease in seconds, more than 0; None: the group's.
        synchronous: False: commit with `synchronous_commit = off`. Use it only if the transaction holds nothing
            else: a server crash may lose the claim, and its events are claimed again. On a pool, claims always
            commit like this.
        types: Claim only events of these types, of at most 400 bytes each; the others are left to members that
            claim them. None: all types.
        others: With `types`: also claim events of all types that no handler is declared for.

    Returns:
        0 to `qty` events, all of one claim: first redeliveries by due time, then new events in the order of the
        log.

    Raises:
        GroupBusyError: Another open transaction has claimed from the group; retry after it has ended.
        GroupStateError: The transaction is not READ COMMITTED.
        PositionLostError: The group's position was dropped by the log's lag limits.
        ArgumentError: `qty` or `lease_s` is out of range.

    Source: `sluice.claim`.
    """
    alone: LiteralString = (
        "select * from sluice.claim(%s::text, %s::text, %s::integer, %s::interval, false, "
        "%s::text[], %s::boolean)"
    )
    part: LiteralString = (
        "select * from sluice.claim(%s::text, %s::text, %s::integer, %s::interval, true, "
        "%s::text[], %s::boolean)"
    )
    return Call(
        part if synchronous else alone,
        (
            log_name,
            group_name,
            whole(qty, "qty", 1),
            seconds(lease_s, "lease_s"),
            None if types is None else several(types, "types", "types"),
            others,
        ),
        record(_claimed_event),
        own_transaction_sql=alone,
    )


def record_receipt(
    log_name: str, group_name: str, claim_id: int, *, lease_s: float
) -> Call[datetime]:
    """Renew a claim that was just made, so that its expiry counts as an attempt, without waiting for a WAL flush.

    If a server crash loses the renewal, the lease of the claim itself remains, and its attempt does not count.
    """
    return Call(
        "select renewed.lease_until from pg_catalog.set_config('synchronous_commit', 'off', true), "
        "sluice.renew(%s::text, %s::text, %s::bigint, %s::interval) as renewed (lease_until)",
        (log_name, group_name, claim_id, seconds(lease_s, "lease_s")),
        scalar,
    )


@method(ShareGroup)
def acknowledge(
    log_name: str,
    group_name: str,
    claim: int | ClaimedEvent | Sequence[ClaimedEvent],
    outcome: AcknowledgeType = "accept",
    *,
    ev_ids: Sequence[int] | None = None,
    delay_s: float | None = None,
    error: str | None = None,
    reason: str | None = None,
) -> Call[int]:
    """Settle a claim, or some of its events.

    On a connection, this is part of the caller's transaction: committed together with the consumer's own writes, it
    gives them an exactly-once effect.

    Args:
        claim: A claim_id, for all unsettled events of the claim (cheapest); or events returned by `claim`, all of
            one claim. An empty sequence settles nothing.
        outcome: `accept`: done. `release`: redeliver without counting an attempt. `retry`: redeliver after a
            back-off and count an attempt; after the last attempt, dead-letter. `reject`: dead-letter.
        ev_ids: Only these events of the claim; only with a claim_id.
        delay_s: For `release` and `retry`: seconds until redelivery, 0 or more. None: immediately for `release`,
            the group's back-off for `retry`.
        error: The error with its traceback, stored with the retry or the dead letter; NULs are escaped.
        reason: For `reject`: reason in a word or two.

    Returns:
        The number of events settled by this call. Repeating the same outcome after a lost reply is not an error,
        and does not count events again. Writes of the first call are then already committed: a consumer that writes
        in the same transaction must roll back if the number is lower than the events it handled. In a group with
        `when_waiting` `block` or `park`, the number can be higher: behind an event to be redelivered, later events
        of its key in the claim are released too.

    Raises:
        LeaseLostError: The lease expired and events were claimed again, or some events have another outcome.
            Nothing was changed.
        ClaimNotFoundError: The claim does not exist, or does not contain the events. Nothing was changed.
        ArgumentError: The events belong to several claims, `delay_s` is out of range, or an argument does not apply
            to the outcome.

    Source: `sluice.acknowledge`.
    """
    claim_id, of_events = _named(claim, ev_ids)
    if claim_id is None:
        return _NOTHING
    return Call(
        "select sluice.acknowledge(%s::text, %s::text, %s::bigint, %s::text, %s::bigint[], "
        "%s::interval, %s::text, %s::text)",
        (
            log_name,
            group_name,
            claim_id,
            outcome,
            of_events,
            seconds(delay_s, "delay_s"),
            storable_text(text(error, "error")),
            storable_text(text(reason, "reason")),
        ),
        scalar,
        is_report=True,
    )


@method(ShareGroup)
def accept(
    log_name: str,
    group_name: str,
    claim: int | ClaimedEvent | Sequence[ClaimedEvent],
    *,
    ev_ids: Sequence[int] | None = None,
) -> Call[int]:
    """Acknowledge a claim, or some of its events, as done; see `acknowledge`.

    Source: `sluice.acknowledge`.
    """
    return acknowledge(log_name, group_name, claim, "accept", ev_ids=ev_ids)


@method(ShareGroup)
def release(
    log_name: str,
    group_name: str,
    claim: int | ClaimedEvent | Sequence[ClaimedEvent],
    *,
    ev_ids: Sequence[int] | None = None,
    delay_s: float | None = None,
) -> Call[int]:
    """Release a claim, or some of its events, without counting an attempt; see `acknowledge`.

    Source: `sluice.acknowledge`.
    """
    return acknowledge(log_name, group_name, claim, "release", ev_ids=ev_ids, delay_s=delay_s)


@method(ShareGroup)
def retry(
    log_name: str,
    group_name: str,
    claim: int | ClaimedEvent | Sequence[ClaimedEvent],
    *,
    ev_ids: Sequence[int] | None = None,
    delay_s: float | None = None,
    error: str | None = None,
) -> Call[int]:
    """Retry a claim, or some of its events, after a back-off; dead-letter after the last attempt.

    See `acknowledge`.

    Source: `sluice.acknowledge`.
    """
    return acknowledge(
        log_name, group_name, claim, "retry", ev_ids=ev_ids, delay_s=delay_s, error=error
    )


@method(ShareGroup)
def reject(
    log_name: str,
    group_name: str,
    claim: int | ClaimedEvent | Sequence[ClaimedEvent],
    reason: str,
    error: str | None = None,
    *,
    ev_ids: Sequence[int] | None = None,
) -> Call[int]:
    """Dead-letter a claim, or some of its events; see `acknowledge`.

    Source: `sluice.acknowledge`.
    """
    return acknowledge(
        log_name, group_name, claim, "reject", ev_ids=ev_ids, error=error, reason=reason
    )


@method(ShareGroup)
def renew(
    log_name: str,
    group_name: str,
    claim: int | ClaimedEvent | Sequence[ClaimedEvent],
    *,
    lease_s: float | None = None,
) -> Call[datetime]:
    """Renew the lease of a claim. Also a heartbeat: if the lease expires later, that counts as an attempt.

    Args:
        claim: A claim_id, or events of the claim; the whole claim is renewed.
        lease_s: Lease from now on in seconds, more than 0; None: the group's. A lease is never shortened.

    Returns:
        The time at which the lease expires.

    Raises:
        LeaseLostError: The claim is settled, or its lease expired and its events were claimed again.
        ClaimNotFoundError: The claim does not exist.
        ArgumentError: `lease_s` is out of range.

    Source: `sluice.renew`.
    """
    claim_id, _ = _named(claim, None)
    if claim_id is None:
        raise ArgumentError(
            "no events given, so no claim to renew; pass a claim_id or events that claim returned"
        )
    return Call(
        "select sluice.renew(%s::text, %s::text, %s::bigint, %s::interval)",
        (log_name, group_name, claim_id, seconds(lease_s, "lease_s")),
        scalar,
    )


@method(ShareGroup)
def list_claims(log_name: str, group_name: str) -> Call[list[OpenClaim]]:
    """Return the open claims, earliest first.

    Source: `sluice.list_claims`.
    """
    return Call(
        "select * from sluice.list_claims(%s::text, %s::text)",
        (log_name, group_name),
        record(OpenClaim),
    )


@method(ShareGroup)
def unfinished_attempts(log_name: str, group_name: str, claim_id: int) -> Call[list[int]]:
    """Return the events of a claim whose previous lease expired without an outcome.

    Such an event may have killed its process. Handle them one at a time and release the others first: a lease
    expires for the whole claim.

    Args:
        claim_id: An open claim of this group.

    Returns:
        0 or more ev_ids, in the order of the claim. Empty if the claim is settled or expired.

    Source: `sluice.unfinished_attempts`.
    """
    return Call(
        "select * from sluice.unfinished_attempts(%s::text, %s::text, %s::bigint)",
        (log_name, group_name, claim_id),
        column,
    )


# An empty sequence of events names no claim; there is nothing to settle.
_NOTHING: Call[int] = Call("select 0", (), scalar)


def _claimed_event(
    claim_id: int, ev_id: int, ev_time: datetime, ev_txid: Any, *rest: Any
) -> ClaimedEvent:
    return ClaimedEvent(
        claim_id, ev_id, ev_time, int(ev_txid), *rest
    )  # psycopg returns xid8 as text


def _named(claim: Claimed, ev_ids: Sequence[int] | None) -> tuple[int | None, list[int] | None]:
    """Return the claim_id, None for an empty sequence, and the ev_ids, None for the whole claim."""
    if not isinstance(claim, ClaimedEvent | Sequence):
        claim_id = checked_id(claim, "claim_id", "the claim_id of events that claim returned")
        expected = "the ev_ids of events that claim returned"
        if ev_ids is None:
            return claim_id, None
        ids = several(ev_ids, "ev_ids", "ids")
        return claim_id, [checked_id(ev_id, "an ev_id", expected) for ev_id in ids]
    if ev_ids is not None:
        raise ArgumentError(
            "ev_ids cannot be combined with events; pass a claim_id with ev_ids, or the events alone"
        )
    events = [claim] if isinstance(claim, ClaimedEvent) else claim
    if not all(isinstance(event, ClaimedEvent) for event in events):
        raise ArgumentError("invalid claim; pass the events that claim returned, or their claim_id")
    claims = sorted({event.claim_id for event in events})
    if len(claims) > 1:
        raise ArgumentError(
            f"the events belong to {len(claims)} claims, {claims[0]} and others; acknowledge each claim separately"
        )
    return (claims[0] if claims else None), [event.ev_id for event in events]


def _start(start: str | int | datetime) -> str | dict[str, Any]:
    """Return the value of option `start`: a word, a tick or a time."""
    if isinstance(start, datetime):
        point(start, "start")  # it needs a time zone
        return {"time": start.isoformat()}
    if isinstance(start, str):
        return start
    if not is_bigint(start):
        raise ArgumentError(f"start is {start!r}; use 'latest', 'earliest', a tick_id or a time")
    return {"tick": start}


def _changeable(options: GroupOptions) -> dict[str, Any]:
    """Return the options with SQL's names and values: durations are intervals."""
    unknown = sorted(options.keys() - GroupOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(GroupOptions.__annotations__)
        raise ArgumentError(f"unknown option {unknown[0]!r}; use {known}")
    return dict(_written(name, value) for name, value in options.items())


def _written(name: str, value: Any) -> tuple[str, Any]:
    if not name.endswith(_SECONDS) or seconds(value, name) is None:
        return name.removesuffix(_SECONDS), value
    return name.removesuffix(_SECONDS), f"{value:.6f} seconds"
