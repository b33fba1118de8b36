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


def transaction(options: Mapping[str, str]) -> tuple[str | None, int | None]:
    """Read txnAppId and txnVersion: who writes, and a number that rises with each of its writes; or twice None.

    Raises:
        ConfigurationError: One of them is missing, or the version is no whole number of 0 or more.
    """
    app_id = options.get("txnAppId") or None
    version = whole_number_or_zero(options, "txnVersion")
    if (app_id is None) != (version is None):
        raise ConfigurationError("txnAppId and txnVersion belong together: give both or neither")
    return app_id, version


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
