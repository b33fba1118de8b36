"""Validation of arguments before the statement is sent, so that an error names the argument."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any, LiteralString, TypeVar

from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.unloadable import UnloadableJson
from pgsluice.errors import ArgumentError
from pgsluice.ranges import is_number

INTEGER_MAX = 2**31 - 1
Value = TypeVar("Value")


def require_options(options: Mapping[str, object], known: Iterable[str], function: str) -> None:
    """Refuse keyword arguments that a function with options of a TypedDict does not know."""
    if unknown := sorted(options.keys() - set(known)):
        raise ArgumentError(f"{function}() has no option {unknown[0]!r}; use {', '.join(known)}")


def several(values: Iterable[Value], name: str, of: str) -> list[Value]:
    """Return values as a list; refuse a single one, also a text or a mapping, which would be taken apart."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise ArgumentError(f"{name} is of type {type(values).__name__}; pass a list of {of}")
    return list(values)


def in_order(values: Iterable[Value], name: str, of: str) -> list[Value]:
    """Like `several`, for values whose position counts: a set has no order."""
    if isinstance(values, AbstractSet):
        raise ArgumentError(
            f"{name} is of type {type(values).__name__}, which has no order; pass a list of {of}"
        )
    return several(values, name, of)


def one_per(values: Iterable[Value], name: str, of: str, qty: int, *, per: str) -> list[Value]:
    """Return a list with one value for each message or payload."""
    if isinstance(values, Iterator):  # it may be needed twice
        raise ArgumentError(f"{name} is of type {type(values).__name__}; pass a list of {of}")
    found = in_order(values, name, of)
    if len(found) != qty:
        raise ArgumentError(
            f"there are {len(found)} {of} for {qty} {per}s; pass one per {per}, or None"
        )
    return found


def text(value: str | None, name: str) -> str | None:
    """Return a text, or None."""
    if value is not None and not isinstance(value, str):
        raise ArgumentError(f"{name} is of type {type(value).__name__}; use a str")
    return value


def whole(value: int, name: str, least: int) -> int:
    """Return a whole number from `least` to the largest SQL integer."""
    if not is_number(value, -math.inf, is_whole=True):
        raise ArgumentError(f"{name} is {value!r}; use a whole number")
    if not least <= value <= INTEGER_MAX:
        raise ArgumentError(f"{name} is {value}; use {least} to {INTEGER_MAX}")
    return value


def seconds(value: float | None, name: str) -> timedelta | None:
    """Return seconds, 0 or more, as an interval; None stays None."""
    if value is None:
        return None
    if not is_number(value, -math.inf):
        raise ArgumentError(f"{name} is {value!r}; use a number of seconds")
    if not 0 <= value <= INTEGER_MAX:
        raise ArgumentError(f"{name} is {value}; use 0 to {INTEGER_MAX}")
    return timedelta(seconds=value)


def duration(value: timedelta | None, name: str) -> timedelta | None:
    """Return a timedelta of 0 or more; None stays None."""
    if value is not None and (not isinstance(value, timedelta) or value < timedelta()):
        raise ArgumentError(f"{name} is {value!r}; use a timedelta of 0 or more, or None")
    return value


def point(value: int | datetime, name: str) -> int | datetime:
    """Return seconds from now, or a time with a time zone."""
    if isinstance(value, datetime):
        zoned_time(value, name)
        return value
    return whole(value, name, 0)


def point_or_now(value: int | datetime | None, name: str) -> int | datetime:
    """Return seconds from now, or a time with a time zone; None is now."""
    return 0 if value is None else point(value, name)


def int_or_time(value: int | datetime | None) -> LiteralString:
    """Return the placeholder that selects the SQL overload for a result of `point` or `point_or_now`."""
    return "%s::timestamptz" if isinstance(value, datetime) else "%s::integer"


def claim_parameters(queue_name: str, vt: int, qty: int) -> tuple[str, int, int]:
    """Return the parameters that all reads of messages share."""
    return queue_name, whole(vt, "vt", 0), whole(qty, "qty", 1)


def poll_parameters(
    queue_name: str, vt: int, qty: int, max_poll_seconds: int, poll_interval_ms: int
) -> tuple[str, int, int, int, int]:
    """Return the parameters that all reads with polling share."""
    return (
        *claim_parameters(queue_name, vt, qty),
        whole(max_poll_seconds, "max_poll_seconds", 1),
        whole(poll_interval_ms, "poll_interval_ms", 1),
    )


def one_id(value: int) -> int:
    """Return a valid msg_id."""
    return checked_id(value, "msg_id", "the msg_id that send or read returned")


def many_ids(values: Sequence[int]) -> list[int]:
    """Return valid msg_ids."""
    return [one_id(value) for value in several(values, "msg_ids", "ids")]


def is_bigint(value: object) -> bool:
    """True if this is a whole number within the range of bigint."""
    return is_number(value, -(2**63), 2**63 - 1, is_whole=True)


def checked_id(value: int, name: str, expected: str = "one that the server returned") -> int:
    """Return an id within the range of bigint."""
    if not is_bigint(value):
        raise ArgumentError(f"{name} is {value!r}; use {expected}")
    return value


def checked_ids(values: Sequence[int], name: str) -> list[int]:
    """Return ids within the range of bigint; `name` is that of the argument."""
    return [checked_id(value, name.removesuffix("s")) for value in several(values, name, "ids")]


def after_id(value: int | None, name: str) -> int | None:
    """Return the last id of the previous page, or None for the first page."""
    return None if value is None else checked_id(value, name)


def zoned_time(value: datetime | None, name: str) -> datetime | None:
    """Return a time with a time zone, or None."""
    if value is not None and not isinstance(value, datetime):
        raise ArgumentError(f"{name} is {value!r}; use a datetime with a time zone")
    if value is not None and value.utcoffset() is None:
        raise ArgumentError(
            f"{name} is a datetime without a time zone; pass an aware one, such as datetime.now(timezone.utc)"
        )
    return value


def headers_parameter(value: Any, name: str) -> Any:
    """Return headers of a message: a dict, or None, or those of a message that was read."""
    if value is not None and not isinstance(value, dict | UnloadableJson):
        raise ArgumentError(
            f"{name} is a {type(value).__name__}; use a dict, or None for no headers"
        )
    return json_parameter(value, name)


def payloads(
    msgs: Sequence[Any], headers: Sequence[Any] | None
) -> tuple[list[Any], list[Any] | None]:
    """Return one or more messages, and their headers: one for each message, or None."""
    msgs = in_order(msgs, "messages", "messages")
    if not msgs:
        raise ArgumentError("messages is empty; send at least one")
    if headers is not None:
        headers = one_per(headers, "headers", "headers", len(msgs), per="message")
    return (
        [json_parameter(msg, f"messages[{i}]") for i, msg in enumerate(msgs)],
        None
        if headers is None
        else [headers_parameter(header, f"headers[{i}]") for i, header in enumerate(headers)],
    )


def conditions(
    conditional: dict[str, Any] | None,
    conditional_headers: dict[str, Any] | None,
    since: datetime | None,
    until: datetime | None,
) -> tuple[Any, ...]:
    """Return the parameters of a filter; None matches everything."""
    return (
        json_parameter(conditional, "conditional"),
        json_parameter(conditional_headers, "conditional_headers"),
        zoned_time(since, "since"),
        zoned_time(until, "until"),
    )
