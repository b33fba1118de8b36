"""Offsets of an event log in Spark, and starting offsets of a new stream.

An offset identifies its log, as each log numbers its ticks from 1, and a snapshot is valid only within one cluster. A
tick offset includes the tick's snapshot, as tick numbers are reused if the cluster is restored to an earlier point in
time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pgsluice.errors import ArgumentError, ConfigurationError, LogStateError
from pgsluice.spark.snapshots import Snapshot

_NAMED_STARTS = ("earliest", "latest", "committed")


@dataclass(frozen=True, slots=True)
class Offset:
    """Position in a log: all events visible to a snapshot.

    Attributes:
        log: Globally unique id of the log from `sluice.log_incarnation`.
        tick: The tick with this snapshot; None for snapshot offsets.
        snapshot: The snapshot.
    """

    log: str
    tick: int | None
    snapshot: Snapshot

    def to_dict(self) -> dict[str, str | int]:
        """Return the offset for Spark's checkpoint; Spark compares the JSON text, so the key order matters."""
        if self.tick is None:
            return {"log": self.log, "snapshot": str(self.snapshot)}
        return {"log": self.log, "tick": self.tick, "snapshot": str(self.snapshot)}

    @classmethod
    def from_dict(cls, offset: Mapping[str, Any], *, by_ticks: bool) -> Offset:
        """Parse an offset from a checkpoint.

        Raises:
            LogStateError: It is not a log offset, or it has the other kind of offsets.
        """
        try:
            tick = int(offset["tick"]) if "tick" in offset else None
            found = cls(str(offset["log"]), tick, Snapshot.parse(offset["snapshot"]))
        except (KeyError, TypeError, ValueError, ArgumentError):
            raise LogStateError(
                f"the checkpoint holds {json.dumps(offset)}, which is not an offset of an event log; use "
                "another checkpoint folder"
            ) from None
        if (tick is not None) != by_ticks:
            kind = "snapshots" if tick is None else "ticks"
            raise LogStateError(
                f"the checkpoint was written with the option offsets={kind}; keep that option, or use another "
                "checkpoint folder"
            )
        return found


@dataclass(frozen=True, slots=True)
class Start:
    """Starting offset of a new stream; one of `word`, `tick`, `snapshot` and `moment` is set.

    Attributes:
        word: `earliest`, `latest` or `committed`.
        tick: Start after this tick.
        snapshot: Start after the events visible to this snapshot.
        moment: Start after the last tick at or before this time.
        log: Log of the tick or snapshot, if given.
        latest_if_later: Treat a time in the future as `latest` instead of an error.
    """

    word: str | None = None
    tick: int | None = None
    snapshot: Snapshot | None = None
    moment: datetime | None = None
    log: str | None = None
    latest_if_later: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Start:
        """Read `startingOffsets` or `startingTimestamp` with `startingOffsetsByTimestampStrategy`.

        Raises:
            ConfigurationError: Both are given, or one is invalid.
        """
        offsets, timestamp = options.get("startingOffsets"), options.get("startingTimestamp")
        if not timestamp:
            return starting(offsets or "earliest")
        if offsets:
            raise ConfigurationError(
                "the options startingOffsets and startingTimestamp are mutually exclusive; set only one"
            )
        strategy = options.get("startingOffsetsByTimestampStrategy", "error").lower()
        if strategy not in ("error", "latest"):
            raise ConfigurationError(
                f"startingOffsetsByTimestampStrategy is {strategy!r}; use error or latest"
            )
        return cls(
            moment=moment("startingTimestamp", timestamp), latest_if_later=strategy == "latest"
        )

    @property
    def is_latest(self) -> bool:
        """True if the position depends on the time of the call, unless a consumer stores it."""
        return self.word == "latest" or self.latest_if_later


def starting(text: str, *, option: str = "startingOffsets", by_ticks: bool = False) -> Start:
    """Parse `startingOffsets`: `earliest`, `latest`, `committed`, `{"tick": n}` or `{"snapshot": "a:b:"}`.

    Offsets of a checkpoint are also valid.

    Args:
        text: The text.
        option: Name of the option, for the error.
        by_ticks: True if the offsets of the stream are ticks: a snapshot is then invalid.

    Raises:
        ConfigurationError: It is invalid.
    """
    if text.lower() in _NAMED_STARTS:
        return Start(word=text.lower())
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, dict) and set(value) <= {"tick", "snapshot", "log"}:
        tick, snapshot, log = value.get("tick"), value.get("snapshot"), value.get("log")
        if isinstance(tick, int) and not isinstance(tick, bool):
            return Start(tick=tick, log=log)
        if isinstance(snapshot, str) and not by_ticks:
            try:
                return Start(snapshot=Snapshot.parse(snapshot), log=log)
            except ArgumentError as error:
                raise ConfigurationError(f"{option}: {error}") from None
    positions = '{"tick": 12}' + ("" if by_ticks else ' or {"snapshot": "1005:1008:1005"}')
    raise ConfigurationError(
        f"{option} is {text!r}; use earliest, latest, committed{' or' if by_ticks else ','} {positions}"
    )


def moment(name: str, text: str) -> datetime:
    """Parse a timestamp option: milliseconds since 1970, or ISO 8601 with UTC offset.

    Raises:
        ConfigurationError: It is neither.
    """
    try:
        if text.isascii() and text.isdigit():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        found = None
    if found is None or found.tzinfo is None:
        raise ConfigurationError(
            f"{name} is {text!r}; use milliseconds since 1970, or a time such as "
            "2026-01-31T12:00:00+00:00"
        )
    return found
