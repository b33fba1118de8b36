"""Options of Spark's formats, which are always text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pgsluice.errors import ConfigurationError

PARTITIONS_DEFAULT = 4


def whole_number(options: Mapping[str, str], name: str, default: int) -> int:
    """Read an option that is a whole number of 1 or more.

    Raises:
        ConfigurationError: It is not.
    """
    text = options.get(name)
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ConfigurationError(f"{name} is {text!r}; use a whole number of 1 or more")
    return int(text)


def truth(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Read an option that is true or false.

    Raises:
        ConfigurationError: It is neither.
    """
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise ConfigurationError(f"{name} is {text!r}; use true or false")
    return text == "true"


def duration_s(options: Mapping[str, str], name: str, default: float) -> float:
    """Read an option that is a duration such as `500ms`, `30s`, `15m` or `2h`, in seconds.

    Raises:
        ConfigurationError: It is not.
    """
    text = options.get(name)
    if not text:
        return default
    match = re.fullmatch(r"(\d+) ?(ms|s|m|h)", text, re.ASCII)
    if match is None:
        raise ConfigurationError(
            f"{name} is {text!r}; use a duration such as 500ms, 30s, 15m or 2h"
        )
    return int(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}[match[2]]


def whole_number_or_zero(options: Mapping[str, str], name: str) -> int | None:
    """Read an option that is a whole number of 0 or more; None when it is not given.

    Raises:
        ConfigurationError: It is something else.
    """
    text = options.get(name)
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise ConfigurationError(f"{name} is {text!r}; use a whole number of 0 or more")
    return int(text)
