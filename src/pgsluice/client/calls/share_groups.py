"""The functions of schema `sluice` that share a log among consumers, as calls; argument names are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString

from pgsluice.client.calls.arguments import is_bigint, point, seconds, whole
from pgsluice.client.calls.call import Call, column, nothing, record, scalar
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.group_records import (
    BlockedKey,
    ClaimedEvent,
    GroupInfo,
    GroupOptions,
    OpenClaim,
    Outcome,
)
from pgsluice.errors import ArgumentError

# How a claim is named: by its id, or by events of it.
Claimed = int | ClaimedEvent | Sequence[ClaimedEvent]

_SECONDS = "_s"


def create_group(
    queue_name: str,
    group_name: str,
    start: str | int | datetime,
    key: str | None,
    when_waiting: str | None,
    options: GroupOptions,
) -> Call[bool]:
    fixed = {"start": _start(start), "key": key, "when_waiting": when_waiting}
    given = {name: value for name, value in fixed.items() if value is not None}
    return Call(
        "select sluice.create_group(%s::text, %s::text, %s::jsonb)",
        (queue_name, group_name, json_parameter(given | _changeable(options), "options")),
        scalar,
    )


def set_group_options(queue_name: str, group_name: str, options: GroupOptions) -> Call[None]:
    return Call(
        "select sluice.set_group_options(%s::text, %s::text, %s::jsonb)",
        (queue_name, group_name, json_parameter(_changeable(options), "options")),
        nothing,
    )


def drop_group(queue_name: str, group_name: str) -> Call[bool]:
    return Call("select sluice.drop_group(%s::text, %s::text)", (queue_name, group_name), scalar)


def list_groups(queue_name: str | None) -> Call[list[GroupInfo]]:
    return Call("select * from sluice.list_groups(%s::text)", (queue_name,), record(GroupInfo))


def group_info(queue_name: str, group_name: str) -> Call[GroupInfo]:
    return Call(
        "select * from sluice.group_info(%s::text, %s::text)",
        (queue_name, group_name),
        lambda rows: GroupInfo(*rows[0]),
    )


def claim(
    queue_name: str, group_name: str, qty: int, lease_s: float | None, synchronous: bool
) -> Call[list[ClaimedEvent]]:
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


def acknowledge(
    queue_name: str,
    group_name: str,
    claim: Claimed,
    outcome: Outcome,
    ev_ids: Sequence[int] | None = None,
    delay_s: float | None = None,
    error: str | None = None,
    reason: str | None = None,
) -> Call[int]:
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


def renew(
    queue_name: str, group_name: str, claim: Claimed, lease_s: float | None
) -> Call[datetime]:
    claim_id, _ = _named(claim, None)
    if claim_id is None:
        raise ArgumentError("there are no events, and so no claim to renew")
    return Call(
        "select sluice.renew(%s::text, %s::text, %s::bigint, %s::interval)",
        (queue_name, group_name, claim_id, seconds(lease_s, "lease_s")),
        scalar,
    )


def list_claims(queue_name: str, group_name: str) -> Call[list[OpenClaim]]:
    return Call(
        "select * from sluice.list_claims(%s::text, %s::text)",
        (queue_name, group_name),
        record(OpenClaim),
    )


def lapsed_events(queue_name: str, group_name: str, claim_id: int) -> Call[list[int]]:
    return Call(
        "select * from sluice.lapsed_events(%s::text, %s::text, %s::bigint)",
        (queue_name, group_name, claim_id),
        column,
    )


def list_blocked_keys(queue_name: str, group_name: str) -> Call[list[BlockedKey]]:
    return Call(
        "select * from sluice.list_blocked_keys(%s::text, %s::text)",
        (queue_name, group_name),
        record(BlockedKey),
    )


def unpark_key(queue_name: str, group_name: str, key: str) -> Call[int]:
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
        return _claim_id(claim), None if ev_ids is None else [_ev_id(ev_id) for ev_id in ev_ids]
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


def _claim_id(value: int) -> int:
    if not is_bigint(value):
        raise ArgumentError(
            f"claim_id is {value!r}; use the claim_id of events that claim returned"
        )
    return value


def _ev_id(value: int) -> int:
    if not is_bigint(value):
        raise ArgumentError(f"an ev_id is {value!r}; use the ev_ids of events that claim returned")
    return value


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
