"""Deduplication of messages by key: the lifetime of a key, and the effect of a duplicate. No I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args

from pgsluice.errors import ArgumentError
from pgsluice.ranges import require_positive_s

Until = Literal["claimed", "done"]
OnDuplicate = Literal["keep", "debounce", "replace"]


class DeduplicationOptions(TypedDict):
    """The options of `QueueOptions` that a `Unique` stands for."""

    deduplication_window: timedelta | None
    deduplication_until: Until | None
    on_duplicate: OnDuplicate | None


@dataclass(frozen=True, slots=True)
class Unique:
    """Deduplication of messages by key: a message whose key is known is not stored.

    Attributes:
        until: What ends a key: `claimed`, when a worker claims the message, so that a later send is handled too;
            `done`, when the message has left the queue: acknowledged, dead-lettered or cancelled. Default: `done`, or
            the window.
        window_s: The time after sending that ends a key instead, in seconds, more than 0. The key outlives its message.
        on_duplicate: Effect of a duplicate on a message that is not claimed: `debounce` moves its delivery time to that
            of the duplicate, `replace` also replaces its payload and headers, `keep` changes nothing.
        key: Returns the key of a payload, for messages that are sent to a handler without `deduplication_key`. Default:
            a hash of the payload.
    """

    until: Until | None = None
    window_s: float | None = None
    on_duplicate: OnDuplicate = "keep"
    key: Callable[[Any], str] | None = None

    def __post_init__(self) -> None:
        """Validate the options.

        Raises:
            ArgumentError: An option is invalid, or both a window and `until` are given.
        """
        if self.until not in (None, *get_args(Until)):
            raise ArgumentError(f"until is {self.until!r}; use {', '.join(get_args(Until))}")
        if self.on_duplicate not in get_args(OnDuplicate):
            raise ArgumentError(
                f"on_duplicate is {self.on_duplicate!r}; use {', '.join(get_args(OnDuplicate))}"
            )
        if self.window_s is not None:
            require_positive_s(self.window_s, "window_s")
        if self.key is not None and not callable(self.key):
            raise ArgumentError(
                f"key is {self.key!r}; use a function of the payload, or pass deduplication_key= to send()"
            )
        if self.window_s is not None and self.until is not None:
            raise ArgumentError("until and window_s are mutually exclusive; use one")

    @property
    def options(self) -> DeduplicationOptions:
        """The options of a queue that it stands for."""
        window = None if self.window_s is None else timedelta(seconds=self.window_s)
        return {
            "deduplication_window": window,
            "deduplication_until": self.until or ("done" if window is None else None),
            "on_duplicate": None if self.on_duplicate == "keep" else self.on_duplicate,
        }

    def key_of(self, payload: Any, message: Any) -> str:
        """Return the key of a payload.

        Args:
            payload: As passed to `Handler.send`.
            message: The JSON value that is stored for it.

        Raises:
            ArgumentError: `key` returns no text, or duplicates replace the payload, whose hash is then no key.
        """
        if self.key is not None:
            key = self.key(payload)
            if not isinstance(key, str):
                raise ArgumentError(
                    f"the key of the payload is of type {type(key).__name__}; return a str"
                )
            return key
        if self.on_duplicate == "replace":
            raise ArgumentError(
                "on_duplicate='replace' needs Unique(key=…) or deduplication_key=: another payload has another hash"
            )
        text = json.dumps(message, sort_keys=True, separators=(",", ":"), default=str)
        return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def checked_unique(unique: Unique) -> Unique:
    """Return the options of deduplication.

    Raises:
        ArgumentError: They are of another type.
    """
    if not isinstance(unique, Unique):
        raise ArgumentError(f"unique is {unique!r}; use Unique(…), such as Unique(until='done')")
    return unique
