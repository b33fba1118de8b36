"""Numbers of options. No I/O."""

from __future__ import annotations

import math

from pgsluice.errors import ArgumentError


def is_number(
    value: object, least: float, most: float = math.inf, *, is_whole: bool = False
) -> bool:
    """True for a finite number in this range, an int if `is_whole`; False for NaN, infinity, a bool and other types."""
    kinds = int if is_whole else int | float
    return (
        isinstance(value, kinds)
        and not isinstance(value, bool)
        and least <= value <= most
        and -math.inf < value < math.inf
    )


def require_positive_s(seconds: object, name: str) -> None:
    """Refuse an interval that is not a finite number of seconds, more than 0.

    Raises:
        ArgumentError: It is 0 or less, infinite, NaN or of another type.
    """
    if not is_number(seconds, 0) or seconds == 0:
        raise ArgumentError(f"{name} is {seconds!r}; use more than 0 seconds")
