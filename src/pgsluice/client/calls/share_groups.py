"""The functions of schema `sluice` that share a log among consumers, as calls; argument names are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, LiteralString, Unpack

from pgsluice.client.calls.arguments import is_bigint, known_id, point, seconds, whole
from pgsluice.client.calls.call import Call, column, nothing, one, record, scalar
from pgsluice.client.calls.clients import EventLog, ShareGroup, method
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.group_records import (
    AcknowledgeType,
    BlockedKey,
    ClaimedEvent,
    GroupInfo,
    GroupOptions,
    OpenClaim,
)
from pgsluice.errors import ArgumentError

# How a claim is named: by its id, or by events of it.
Claimed = int | ClaimedEvent | Sequence[ClaimedEvent]

_SECONDS = "_s"


@method(ShareGroup, name="create")
def create_group(
    queue_name: str,
    group_name: str,
    /,
    *,
    start: Literal["end", "beginning"] | int | datetime = "end",
    key: str | None = None,
    when_waiting: Literal["block", "skip", "park"] | None = None,
    **options: Unpack[GroupOptions],
) -> Call[bool]:
    """Create the group. From then on the log keeps events for it until they are settled.

    Args:
        start: Which events are its: `end`, those that are committed from now on; `beginning`, all that the log
            keeps; those after a tick_id; or those after the newest tick that is not younger than a time with a time
            zone.
        key: What events are kept in order by: `ev_type`, `ev_data`, `ev_extra1` to `ev_extra4`, or a JSON path into
            ev_data, such as `$.customer`. Events of one key are with one consumer at a time, in the order of the
            log. None: no order.
        when_waiting: What becomes of a key of which an event waits to be retried: `block`, those behind it wait;
            `skip`, they go first; `park`, it and they are put aside as dead events until `unpark_key`, or until
            they are sent again or purged. None: `block`. What comes again at once waits for nothing: it comes
            before the later ones.
        **options: See `GroupOptions`.

    Returns:
        False when it exists, with the same options.

    Raises:
        GroupStateError: It exists with other options, or is a consumer that is no group. Nothing was changed.
        LogStateError: The log has no such tick, or not any more.
        ArgumentError: An option does not exist, or its value is bad.

    Source: `sluice.create_group`.
    """
    fixed = {"start": _start(start), "key": key, "when_waiting": when_waiting}
    given = {name: value for name, value in fixed.items() if value is not None}
    return Call(
        "select sluice.create_group(%s::text, %s::text, %s::jsonb)",
        (queue_name, group_name, json_parameter(given | _changeable(options), "options")),
        scalar,
    )


@method(ShareGroup, name="set_options")
def set_group_options(
    queue_name: str, group_name: str, /, **options: Unpack[GroupOptions]
) -> Call[None]:
    """Change the options that are given; claims that are open keep the lease they have.

    Args:
        **options: See `GroupOptions`. Where the group starts and its key cannot be changed.

    Raises:
        ArgumentError: An option does not exist, or its value is bad.

    Source: `sluice.set_group_options`.
    """
    return Call(
        "select sluice.set_group_options(%s::text, %s::text, %s::jsonb)",
        (queue_name, group_name, json_parameter(_changeable(options), "options")),
        nothing,
    )


@method(ShareGroup, name="drop")
def drop_group(queue_name: str, group_name: str) -> Call[bool]:
    """Drop the group with its claims and what waits to be retried; the log keeps no events for it any more.

    Its dead events stay.

    Returns:
        False when there was none.

    Source: `sluice.drop_group`.
    """
    return Call("select sluice.drop_group(%s::text, %s::text)", (queue_name, group_name), scalar)


@method(EventLog)
def list_groups(queue_name: str | None = None) -> Call[list[GroupInfo]]:
    """Return the share groups of one log, or of all, by log and name: settings, and how far behind they are.

    Raises:
        LogNotFoundError: There is no such log.

    Source: `sluice.list_groups`.
    """
    return Call("select * from sluice.list_groups(%s::text)", (queue_name,), record(GroupInfo))


@method(ShareGroup, name="info")
def group_info(queue_name: str, group_name: str) -> Call[GroupInfo]:
    """Return its settings, and how far behind it is.

    Source: `sluice.group_info`.
    """
    return Call(
        "select * from sluice.group_info(%s::text, %s::text)",
        (queue_name, group_name),
        one(GroupInfo),
    )


@method(ShareGroup)
def claim(
    queue_name: str,
    group_name: str,
    qty: int = 1,
    *,
    lease_s: float | None = None,
    synchronous: bool = True,
) -> Call[list[ClaimedEvent]]:
    """Claim up to `qty` events: first those that are due to come again, then new ones. Never waits for events.

    While the transaction of a claim is open nobody else of the group can claim: commit, then handle the events. On
    a connection in autocommit mode, outside of a transaction block, pass `synchronous=False`: then the claim does
    not wait until it is on disk, nor the claims of the others for it.

    Args:
        qty: The most to claim, 1 or more.
        lease_s: How long they are claimed for, more than 0 seconds; None: the group's.
        synchronous: False: the transaction commits with `synchronous_commit = off`. Only where it holds nothing but
            the claim: a crash of the server may lose it, and its events are claimed again. On a pool each claim is
            such a transaction, whatever is given here.

    Returns:
        0 to `qty` events, all of one claim: those that come again first, by the time they were due, then new ones
        in the order of the log.

    Raises:
        GroupBusyError: Another transaction that stays open has claimed; again when it has ended.
        GroupStateError: The transaction is not READ COMMITTED.
        PositionLostError: The position of the group was given up, as the log's policy says.
        ArgumentError: `qty` or `lease_s` is out of range.

    Source: `sluice.claim`.
    """
    alone: LiteralString = (
        "select * from sluice.claim(%s::text, %s::text, %s::integer, %s::interval, false)"
    )
    part: LiteralString = (
        "select * from sluice.claim(%s::text, %s::text, %s::integer, %s::interval)"
    )
    return Call(
        part if synchronous else alone,
        (queue_name, group_name, whole(qty, "qty", 1), seconds(lease_s, "lease_s")),
        record(_claimed_event),
        own_transaction_sql=alone,
    )


@method(ShareGroup)
def acknowledge(
    queue_name: str,
    group_name: str,
    claim: int | ClaimedEvent | Sequence[ClaimedEvent],
    outcome: AcknowledgeType = "accept",
    *,
    ev_ids: Sequence[int] | None = None,
    delay_s: float | None = None,
    error: str | None = None,
    reason: str | None = None,
) -> Call[int]:
    """Say what became of a claim, or of some of its events.

    On a connection it is part of the caller's transaction: the consumer's own writes and it are committed together,
    and have an exactly-once effect.

    Args:
        claim: A claim_id, for all of the claim that is not settled yet, which costs least; or events as `claim`
            returned them, all of one claim. No events settle nothing.
        outcome: `accept`: done. `release`: to be claimed again, as if it had not been. `retry`: to be claimed
            again after a pause, and an attempt is counted; after the last one the event is dead. `reject`: dead.
        ev_ids: With a claim_id: only these events of the claim.
        delay_s: When they can be claimed again, of a release or a retry: seconds from now, 0 or more. None: at
            once, or after the group's backoff.
        error: The error, with its trace; kept with what comes again or is dead.
        reason: Why it is dead, in a word or two.

    Returns:
        How many events this call settled. Those that were settled before, with the same outcome, are not among
        them: to say it again after a lost reply is no error. But then what was written for them is there already:
        who writes in the same transaction rolls back when it is fewer than it handled. In a group whose key blocks
        or parks it may be more: behind an event that comes again, the later ones of its key in the claim go back.

    Raises:
        LeaseLostError: The claim has lapsed and was claimed again, or some of it is settled otherwise. Nothing was
            changed.
        ClaimNotFoundError: There is no such claim, or it has no such events. Nothing was changed.
        ArgumentError: Events are of several claims, `delay_s` is out of range, or an argument does not go with the
            outcome.

    Source: `sluice.acknowledge`.
    """
    claim_id, of_events = _named(claim, ev_ids)
    if claim_id is None:
        return _NOTHING
    return Call(
        "select sluice.acknowledge(%s::text, %s::text, %s::bigint, %s::text, %s::bigint[], "
        "%s::interval, %s::text, %s::text)",
        (
            queue_name,
            group_name,
            claim_id,
            outcome,
            of_events,
            seconds(delay_s, "delay_s"),
            error,
            reason,
        ),
        scalar,
    )


@method(ShareGroup)
def accept(
    queue_name: str,
    group_name: str,
    claim: int | ClaimedEvent | Sequence[ClaimedEvent],
    *,
    ev_ids: Sequence[int] | None = None,
) -> Call[int]:
    """Settle a claim, or some of its events, as done; see `acknowledge`.

    Source: `sluice.acknowledge`.
    """
    return acknowledge(queue_name, group_name, claim, "accept", ev_ids=ev_ids)


@method(ShareGroup)
def release(
    queue_name: str,
    group_name: str,
    claim: int | ClaimedEvent | Sequence[ClaimedEvent],
    *,
    ev_ids: Sequence[int] | None = None,
    delay_s: float | None = None,
) -> Call[int]:
    """Give a claim back, or some of its events, as if they had not been claimed; see `acknowledge`.

    Source: `sluice.acknowledge`.
    """
    return acknowledge(queue_name, group_name, claim, "release", ev_ids=ev_ids, delay_s=delay_s)


@method(ShareGroup)
def retry(
    queue_name: str,
    group_name: str,
    claim: int | ClaimedEvent | Sequence[ClaimedEvent],
    *,
    ev_ids: Sequence[int] | None = None,
    delay_s: float | None = None,
    error: str | None = None,
) -> Call[int]:
    """Ask for a claim, or some of its events, again after a pause; an attempt is counted, and the last one is dead.

    See `acknowledge`.

    Source: `sluice.acknowledge`.
    """
    return acknowledge(
        queue_name, group_name, claim, "retry", ev_ids=ev_ids, delay_s=delay_s, error=error
    )


@method(ShareGroup)
def reject(
    queue_name: str,
    group_name: str,
    claim: int | ClaimedEvent | Sequence[ClaimedEvent],
    reason: str,
    error: str | None = None,
    *,
    ev_ids: Sequence[int] | None = None,
) -> Call[int]:
    """Move a claim, or some of its events, to the dead events of the group; see `acknowledge`.

    Source: `sluice.acknowledge`.
    """
    return acknowledge(
        queue_name, group_name, claim, "reject", ev_ids=ev_ids, error=error, reason=reason
    )


@method(ShareGroup)
def renew(
    queue_name: str,
    group_name: str,
    claim: int | ClaimedEvent | Sequence[ClaimedEvent],
    *,
    lease_s: float | None = None,
) -> Call[datetime]:
    """Hold a claim for longer; it also says that its consumer is there, so that a lapse counts as an attempt.

    Args:
        claim: A claim_id, or events of the claim; it is renewed as a whole.
        lease_s: How long from now on, more than 0 seconds; None: the group's. It is never made shorter.

    Returns:
        When the lease ends.

    Raises:
        LeaseLostError: The claim is settled, or has lapsed and was claimed again.
        ClaimNotFoundError: There is no such claim.
        ArgumentError: `lease_s` is out of range.

    Source: `sluice.renew`.
    """
    claim_id, _ = _named(claim, None)
    if claim_id is None:
        raise ArgumentError("there are no events, and so no claim to renew")
    return Call(
        "select sluice.renew(%s::text, %s::text, %s::bigint, %s::interval)",
        (queue_name, group_name, claim_id, seconds(lease_s, "lease_s")),
        scalar,
    )


@method(ShareGroup)
def list_claims(queue_name: str, group_name: str) -> Call[list[OpenClaim]]:
    """Return the claims that are open, the earliest first.

    Source: `sluice.list_claims`.
    """
    return Call(
        "select * from sluice.list_claims(%s::text, %s::text)",
        (queue_name, group_name),
        record(OpenClaim),
    )


@method(ShareGroup)
def lapsed_events(queue_name: str, group_name: str, claim_id: int) -> Call[list[int]]:
    """Find the events of a claim that may have killed their process: their last claim ended without a word.

    Start them one after the other, and give back what waits behind one: a claim lapses as a whole.

    Args:
        claim_id: A claim of this group that is open.

    Returns:
        0 or more `ev_id`, in the order of the claim. Empty for a claim that is over.

    Source: `sluice.lapsed_events`.
    """
    return Call(
        "select * from sluice.lapsed_events(%s::text, %s::text, %s::bigint)",
        (queue_name, group_name, claim_id),
        column,
    )


@method(ShareGroup)
def list_blocked_keys(queue_name: str, group_name: str) -> Call[list[BlockedKey]]:
    """Return the keys whose events wait, the longest first, as the last claim saw them.

    Source: `sluice.list_blocked_keys`.
    """
    return Call(
        "select * from sluice.list_blocked_keys(%s::text, %s::text)",
        (queue_name, group_name),
        record(BlockedKey),
    )


@method(ShareGroup)
def unpark_key(queue_name: str, group_name: str, key: str) -> Call[int]:
    """Hand out the events of a parked key again, all of them, in the order of the log; attempts count anew.

    Args:
        key: As in `list_blocked_keys`.

    Returns:
        How many events were parked, 0 or more.

    Raises:
        GroupBusyError: A transaction that stays open has claimed; again when it has ended.
        GroupStateError: The transaction is not READ COMMITTED.

    Source: `sluice.unpark_key`.
    """
    return Call(
        "select sluice.unpark_key(%s::text, %s::text, %s::text)",
        (queue_name, group_name, key),
        scalar,
    )


# No events, as a part of a claim may be: there is nothing to settle, and no claim to name.
_NOTHING: Call[int] = Call("select 0", (), scalar)


def _claimed_event(
    claim_id: int, ev_id: int, ev_time: datetime, ev_txid: Any, *rest: Any
) -> ClaimedEvent:
    return ClaimedEvent(claim_id, ev_id, ev_time, int(ev_txid), *rest)  # psycopg leaves xid8 a text


def _named(claim: Claimed, ev_ids: Sequence[int] | None) -> tuple[int | None, list[int] | None]:
    """The claim, None when it names none, and which of its events, None for all."""
    if not isinstance(claim, ClaimedEvent | Sequence):
        claim_id = known_id(claim, "claim_id", "the claim_id of events that claim returned")
        wanted = "the ev_ids of events that claim returned"
        of_events = [known_id(ev_id, "an ev_id", wanted) for ev_id in ev_ids or ()]
        return claim_id, None if ev_ids is None else of_events
    if ev_ids is not None:
        raise ArgumentError("give ev_ids with a claim_id; events name themselves")
    events = [claim] if isinstance(claim, ClaimedEvent) else claim
    if not all(isinstance(event, ClaimedEvent) for event in events):
        raise ArgumentError("these are no events that claim returned; use those, or their claim_id")
    claims = sorted({event.claim_id for event in events})
    if len(claims) > 1:
        raise ArgumentError(
            f"the events are of {len(claims)} claims, {claims[0]} and others; acknowledge each claim by itself"
        )
    return (claims[0] if claims else None), [event.ev_id for event in events]


def _start(start: str | int | datetime) -> str | dict[str, Any]:
    """Where a group begins, as the option says it: a word, a tick or a time."""
    if isinstance(start, datetime):
        point(start, "start")  # it needs a time zone
        return {"time": start.isoformat()}
    if isinstance(start, str):
        return start
    if not is_bigint(start):
        raise ArgumentError(f"start is {start!r}; use 'end', 'beginning', a tick_id or a time")
    return {"tick": start}


def _changeable(options: GroupOptions) -> dict[str, Any]:
    """The options as SQL names and writes them: a length of time is an interval there."""
    unknown = sorted(options.keys() - GroupOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(GroupOptions.__annotations__)
        raise ArgumentError(f"there is no option {unknown[0]!r}; use {known}")
    return dict(_written(name, value) for name, value in options.items())


def _written(name: str, value: Any) -> tuple[str, Any]:
    if not name.endswith(_SECONDS) or seconds(value, name) is None:
        return name.removesuffix(_SECONDS), value
    return name.removesuffix(_SECONDS), f"{value:.6f} seconds"
