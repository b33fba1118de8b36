"""Counts with their nouns, also those that end at a bound."""

from __future__ import annotations

from pgsluice.dashboard.rendering import quantity

COUNTED_MAX = 10_000


def counted(
    number: int | None, noun: str, plural: str = "", *, counted_max: int = COUNTED_MAX
) -> str:
    """Return a bounded count with its noun: `more than 10 000 messages`.

    Args:
        number: The count, above `counted_max` if there are more; None: it took too long.
        noun: The noun.
        plural: Its plural, if it is not the noun with an s.
        counted_max: The bound.
    """
    if number is None:
        return f"the matching {plural or noun + 's'} (they were not counted in time)"
    if number > counted_max:
        return f"more than {quantity(counted_max, noun, plural)}"
    return quantity(number, noun, plural)
