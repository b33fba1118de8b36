"""Durations as text, in the command line, forms, Spark options and environment variables."""

from __future__ import annotations

import re

EXAMPLES = "30, 500ms, 30s, 5m, 2h, 1d, 1w"
SECONDS_MAX = 2**31 - 1  # what the functions of the database accept

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?(ms|[smhdw])?", re.ASCII)


def parse_duration(text: str) -> float | None:
    """Parse a number of seconds, or a number with one of the units ms, s, m, h, d and w.

    Returns:
        Seconds, to the microsecond; None if the text is not a duration.
    """
    parts = _DURATION.fullmatch(text.strip())
    if parts is None:
        return None
    return round(float(parts[1]) * _SECONDS[parts[2] or "s"], 6)
