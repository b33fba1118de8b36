"""What a handler may say of a message: a closed set, each to be returned or raised."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from pgsluice.errors import ArgumentError

# Seconds as an integer of PostgreSQL, as the functions of queues take them.
DELAY_MAX_S = 2_147_483_647


class Outcome(Exception):  # noqa: N818 - returned as often as raised
    """One of `Done`, `Retry`, `Release` and `Reject`. To return it and to raise it means the same."""

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), astuple(self))  # type: ignore[call-overload]  # each of the four is a dataclass


@dataclass(eq=True, unsafe_hash=True)
class Done(Outcome):
    """It is handled. To return nothing means the same."""


@dataclass(eq=True, unsafe_hash=True)
class Retry(Outcome):
    """It failed, and is to be tried again: this attempt counts, and after the last one it goes to the dead letters.

    Attributes:
        delay_s: Seconds until the next attempt, 0 to `DELAY_MAX_S`; None: as the retry policy says.
        reason: Why; kept with the message. Of an exception, its class and text.
    """

    delay_s: float | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        """Refuse a delay that could not be waited for."""
        require_delay(self.delay_s)
        self.reason = None if self.reason is None else _text_of(self.reason)


@dataclass(eq=True, unsafe_hash=True)
class Release(Outcome):
    """It is not for now: given back as if it had never been claimed; this attempt does not count.

    Attributes:
        delay_s: Seconds until it can be claimed again, 0 to `DELAY_MAX_S`.
    """

    delay_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a delay that could not be waited for."""
        require_delay(self.delay_s)


@dataclass(eq=True, unsafe_hash=True)
class Reject(Outcome):
    """It can never be handled: it goes to the dead letters at once.

    Attributes:
        reason: Why, in a few words. Of an exception, its class and text.
    """

    reason: str = "rejected"

    def __post_init__(self) -> None:
        """Keep the text of an exception."""
        self.reason = _text_of(self.reason)


def require_delay(delay_s: float | None, name: str = "delay_s") -> None:
    """Refuse a delay that PostgreSQL cannot add to a time.

    Args:
        delay_s: Seconds, or None.
        name: What the error calls it.

    Raises:
        ArgumentError: It is negative, longer than `DELAY_MAX_S`, or not a number.
    """
    if delay_s is not None and not 0 <= delay_s <= DELAY_MAX_S:  # also refuses NaN
        raise ArgumentError(f"{name} is {delay_s}; use 0 to {DELAY_MAX_S} seconds (68 years)")


def _text_of(reason: object) -> str:
    """Return a reason as text; an exception with its class."""
    return (
        f"{type(reason).__name__}: {reason}" if isinstance(reason, BaseException) else str(reason)
    )
