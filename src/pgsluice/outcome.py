"""Outcomes of a message: the closed set that a handler returns or raises."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from pgsluice.errors import ArgumentError
from pgsluice.ranges import is_number

# The queue functions take seconds as PostgreSQL's integer.
DELAY_MAX_S = 2_147_483_647


class Outcome(Exception):  # noqa: N818 - returned as often as raised
    """One of `Done`, `Retry`, `Release` and `Reject`. A handler may return or raise it."""

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), astuple(self))  # type: ignore[call-overload]  # each of the four is a dataclass


@dataclass(eq=True, unsafe_hash=True)
class Done(Outcome):
    """Acknowledge the message. Returning nothing means the same."""


@dataclass(eq=True, unsafe_hash=True)
class Retry(Outcome):
    """Retry the message after a failure. The attempt counts; the last one dead-letters the message.

    Attributes:
        delay_s: Seconds until the next attempt, 0 to `DELAY_MAX_S`; None: by the retry policy.
        reason: Reason, stored with the message. An exception is stored as its class and text.
    """

    delay_s: float | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        """Validate the delay."""
        require_delay(self.delay_s)
        self.reason = None if self.reason is None else _text_of(self.reason)


@dataclass(eq=True, unsafe_hash=True)
class Release(Outcome):
    """Release the message unprocessed: its claim is undone and the attempt does not count.

    Attributes:
        delay_s: Seconds until it is visible again, 0 to `DELAY_MAX_S`.
    """

    delay_s: float = 0.0

    def __post_init__(self) -> None:
        """Validate the delay."""
        require_delay(self.delay_s)


@dataclass(eq=True, unsafe_hash=True)
class Reject(Outcome):
    """Dead-letter the message without further attempts.

    Attributes:
        reason: Reason, in a few words. An exception is stored as its class and text.
    """

    reason: str = "rejected"

    def __post_init__(self) -> None:
        """Convert an exception to text."""
        self.reason = _text_of(self.reason)


def require_delay(delay_s: float | None) -> None:
    """Raise if PostgreSQL cannot add this delay to a timestamp.

    Args:
        delay_s: Seconds, or None.

    Raises:
        ArgumentError: It is negative, longer than `DELAY_MAX_S`, or not a number.
    """
    if delay_s is not None and not is_number(delay_s, 0, DELAY_MAX_S):
        raise ArgumentError(f"delay_s is {delay_s!r}; use 0 to {DELAY_MAX_S} seconds (68 years)")


def _text_of(reason: object) -> str:
    """Return a reason as text; an exception with its class."""
    return (
        f"{type(reason).__name__}: {reason}" if isinstance(reason, BaseException) else str(reason)
    )
