"""What a handler may say of a message: a closed set, each to be returned or raised."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

from pgsluice.errors import ArgumentError


class Answer(Exception):  # noqa: N818 - returned as often as raised
    """One of `Done`, `RetryAfter`, `Release` and `Reject`. To return it and to raise it means the same."""

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), astuple(self))  # type: ignore[call-overload]  # each of the four is a dataclass


@dataclass(eq=True, unsafe_hash=True)
class Done(Answer):
    """It is handled. To return nothing means the same."""


@dataclass(eq=True, unsafe_hash=True)
class RetryAfter(Answer):
    """It failed, and is to be tried again: this attempt counts, and after the last one it goes to the dead letters.

    Attributes:
        delay_s: Seconds until the next attempt, 0 or more; None: as the retry policy says.
        reason: Why; kept with the message.
    """

    delay_s: float | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        """Refuse a delay that could not be waited for."""
        _require_delay(self.delay_s)


@dataclass(eq=True, unsafe_hash=True)
class Release(Answer):
    """It is not for now: given back as if it had never been claimed; this attempt does not count.

    Attributes:
        delay_s: Seconds until it can be claimed again, 0 or more.
    """

    delay_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a delay that could not be waited for."""
        _require_delay(self.delay_s)


@dataclass(eq=True, unsafe_hash=True)
class Reject(Answer):
    """It can never be handled: it goes to the dead letters at once.

    Attributes:
        reason: Why, in a few words.
    """

    reason: str = "rejected"


def _require_delay(delay_s: float | None) -> None:
    if delay_s is not None and not 0 <= delay_s < math.inf:  # also refuses NaN
        raise ArgumentError(f"delay_s is {delay_s}; use 0 or more seconds")
