"""Declare the options of our Spark data sources, and parse them; their values are always text."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from pgsluice.durations import parse_duration
from pgsluice.errors import ConfigurationError

PARTITIONS_DEFAULT = 4

_TRANSACTION = ("txnAppId", "txnVersion")
_LAKE = (
    "failOnDataLoss",
    "ignoreDeletes",
    "maxFilesPerTrigger",
    "mergeSchema",
    "partitionBy",
    "partitionOverwriteMode",
    "pushdown",
    "skipChangeCommits",
    "startingTimestamp",
    "startingVersion",
    *_TRANSACTION,
)
# All options by format. The docstrings of the modules that read them describe them.
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "pgsluice": (
        "autoTick",
        "commitOffsets",
        "connect.retries",
        "connect.retryIntervalMs",
        "consumer",
        "delivery",
        "dsn",
        "dsnEnv",
        "dsnFile",
        "endingOffsets",
        "endingTimestamp",
        "export",
        "failOnDataLoss",
        "log",
        "lossPermittedAfter",
        "lossHint",
        "lowLatency",
        "maxOffsetsPerTrigger",
        "maxRowsPerTrigger",
        "maxTriggerDelay",
        "minOffsetsPerTrigger",
        "numPartitions",
        "offsets",
        "onCommit",
        "pushdown",
        "queue",
        "reader",
        "shards",
        "sliceEventsMin",
        "snapshot",
        "startingOffsets",
        "startingOffsetsByTimestampStrategy",
        "startingTimestamp",
        "table",
        *_TRANSACTION,
    ),
    "pgsluice-delta": (*_LAKE, "timestampAsOf", "versionAsOf"),
    "pgsluice-iceberg": (*_LAKE, "as-of-timestamp", "snapshot-id"),
}
# Options that Spark itself passes to a data source.
_SPARKS = ("checkpointLocation", "path", "paths", "queryName")
# For a table of SQL's `create table … using`, Spark passes its properties, too, and each option a second time so.
_TABLE, _IN_TABLE = "provider", "option."


def require_known(options: Iterable[str], format_name: str) -> None:
    """Refuse unknown and misspelt options, which would otherwise have no effect.

    Args:
        options: Names of the options, in any case; Spark passes them in lower case.
        format_name: Name of our format.

    Raises:
        ConfigurationError: An option is unknown; the message suggests the closest name.
    """
    known = {name.lower(): name for name in (*OPTIONS[format_name], *_SPARKS)}
    names = [option.lower() for option in options]
    if _TABLE in names:
        names = [name.removeprefix(_IN_TABLE) for name in names if name.startswith(_IN_TABLE)]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {known[close[0]]}?" if close else "omit it"
            raise ConfigurationError(f"unknown option {name!r} of the format {format_name}; {hint}")


def whole_number(options: Mapping[str, str], name: str, default: int) -> int:
    """Parse an integer option, 1 or more.

    Raises:
        ConfigurationError: It is invalid.
    """
    text = options.get(name)
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ConfigurationError(f"{name} is {text!r}; use a whole number of 1 or more")
    return int(text)


def truth(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Parse a boolean option: `true` or `false`.

    Raises:
        ConfigurationError: It is invalid.
    """
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise ConfigurationError(f"{name} is {text!r}; use true or false")
    return text == "true"


def one_of(options: Mapping[str, str], name: str, choices: Sequence[str]) -> str:
    """Parse an option with fixed values, in any case; the first is the default.

    Raises:
        ConfigurationError: It is invalid.
    """
    text = options.get(name) or choices[0]
    if text.lower() not in choices:
        raise ConfigurationError(f"{name} is {text!r}; use {' or '.join(choices)}")
    return text.lower()


def duration_s(options: Mapping[str, str], name: str, default: float) -> float:
    """Parse a duration option such as `500ms`, `30s`, `15m` or `2h` into seconds.

    Raises:
        ConfigurationError: It is invalid.
    """
    text = options.get(name)
    if not text:
        return default
    seconds = parse_duration(text)
    if seconds is None:
        raise ConfigurationError(
            f"{name} is {text!r}; use a duration such as 500ms, 30s, 15m or 2h"
        )
    return seconds


def transaction(options: Mapping[str, str]) -> tuple[str | None, int | None]:
    """Parse txnAppId and txnVersion: the writing app, and a version that increases with each of its writes.

    Raises:
        ConfigurationError: Only one is set, or the version is not an integer of 0 or more.
    """
    app_id = options.get("txnAppId") or None
    version = whole_number_or_zero(options, "txnVersion")
    if (app_id is None) != (version is None):
        raise ConfigurationError("txnAppId and txnVersion belong together; set both or neither")
    return app_id, version


def whole_number_or_zero(options: Mapping[str, str], name: str) -> int | None:
    """Parse an integer option, 0 or more; None if it is not set.

    Raises:
        ConfigurationError: It is invalid.
    """
    text = options.get(name)
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise ConfigurationError(f"{name} is {text!r}; use a whole number of 0 or more")
    return int(text)
