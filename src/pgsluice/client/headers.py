"""Headers of messages: the ordering key and the priority. No I/O."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from psycopg.types.json import Jsonb

from pgsluice.client.calls.arguments import whole
from pgsluice.client.calls.call import Call
from pgsluice.errors import ArgumentError

# The header in which PGMQ stores the ordering key of a message.
KEY_HEADER = "x-pgmq-group"
Result = TypeVar("Result")
_PRIORITY_HEADER = "x-pgmq-priority"


def message_headers(
    headers: dict[str, Any] | None,
    *,
    key: str | None,
    priority: int | None,
    key_header: str = KEY_HEADER,
) -> dict[str, Any] | None:
    """Return headers with the key and the priority added, or None.

    Args:
        headers: As given by the sender.
        key: Ordering key, or None.
        priority: Priority, 1 or more, or None.
        key_header: The header of the key.

    Raises:
        ArgumentError: The key is not a text, the priority out of range, or a header differs from them.
    """
    if priority is not None:
        if whole(priority, "priority", 1) != (headers or {}).get(_PRIORITY_HEADER, priority):
            raise ArgumentError(f"priority and the header {_PRIORITY_HEADER!r} differ; omit one")
        headers = {**(headers or {}), _PRIORITY_HEADER: priority}
    if key is not None:
        if not isinstance(key, str):
            raise ArgumentError(f"key is of type {type(key).__name__}; use a str")
        if headers is not None and headers.get(key_header, key) != key:
            raise ArgumentError(f"key and the header {key_header!r} differ; omit one")
        headers = {**(headers or {}), key_header: key}
    return headers


def keyed(call: Call[Result], key: str) -> Call[Result]:
    """Return a call that sends messages with the key in the headers of each; that of events is unchanged.

    Raises:
        ArgumentError: The headers of a message have another key.
    """
    sends = call.sends
    if sends is None or sends.system != "pgmq":
        return call
    value = call.parameters[sends.position]
    given = [value] if sends.qty is None else value or [None] * sends.qty
    each = [_with_key(one, key) for one in given]
    changed = each[0] if sends.qty is None else each
    before, after = call.parameters[: sends.position], call.parameters[sends.position + 1 :]
    return replace(call, parameters=(*before, changed, *after))


def _with_key(headers: Jsonb | None, key: str) -> Jsonb:
    if headers is None or headers.obj is None:
        return Jsonb({KEY_HEADER: key})
    return Jsonb(message_headers(headers.obj, key=key, priority=None), dumps=headers.dumps)
