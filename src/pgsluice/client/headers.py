"""Headers of messages: the ordering key and the priority. No I/O."""

from __future__ import annotations

from typing import Any

from pgsluice.client.calls.arguments import whole
from pgsluice.errors import ArgumentError

# The header in which PGMQ stores the ordering key of a message.
KEY_HEADER = "x-pgmq-group"
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
