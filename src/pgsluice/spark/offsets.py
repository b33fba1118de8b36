"""Spark's offsets of an event log, and where a new stream begins.

An offset says which log it is of: ticks count from 1 in each log, and snapshots mean something in one cluster only. One
of a tick also has the tick's snapshot: should the cluster have been restored to an earlier moment, the same number
comes again and stands for something else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pgsluice.errors import ArgumentError, ConfigurationError, LogStateError
from pgsluice.spark.snapshots import Snapshot

_WORDS = ("earliest", "latest", "committed")


@dataclass(frozen=True, slots=True)
class Offset:
    """Everything that a snapshot sees.

    Attributes:
        log: Which log, wherever it is: from `sluice.log_incarnation`.
        tick: The tick that took the snapshot; None where snapshots are the offsets.
        snapshot: What it sees.
    """

    log: str
    tick: int | None
    snapshot: Snapshot

    def to_dict(self) -> dict[str, str | int]:
        """What Spark writes into its checkpoint. It compares the text, so the order of keys counts."""
        if self.tick is None:
            return {"log": self.log, "snapshot": str(self.snapshot)}
        return {"log": self.log, "tick": self.tick, "snapshot": str(self.snapshot)}

    @classmethod
    def from_dict(cls, offset: Mapping[str, Any], *, by_ticks: bool) -> Offset:
        """Read an offset back from a checkpoint.

        Raises:
            LogStateError: It is none of a log, or one of the other kind.
        """
        try:
            tick = int(offset["tick"]) if "tick" in offset else None
            found = cls(str(offset["log"]), tick, Snapshot.parse(offset["snapshot"]))
        except (KeyError, TypeError, ValueError, ArgumentError):
            raise LogStateError(
                f"the checkpoint holds {json.dumps(offset)}, which is no offset of an event log; use "
                "another checkpoint folder"
            ) from None
        if (tick is not None) != by_ticks:
            kind = "snapshots" if tick is None else "ticks"
            raise LogStateError(
                f"the checkpoint was written with the option offsets={kind}; keep it, or use another "
                "checkpoint folder"
            )
        return found


@dataclass(frozen=True, slots=True)
class Start:
    """Where a new stream begins: one of these.

    Attributes:
        word: `earliest`, `latest` or `committed`.
        tick: A tick's number.
        snapshot: What not to read.
        moment: The last tick at or before it.
        log: The log that the tick or the snapshot is of, if that was given.
        latest_if_later: A moment that has not come yet is `latest`, and no error.
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
            ConfigurationError: Both are given, or one cannot be read.
        """
        offsets, timestamp = options.get("startingOffsets"), options.get("startingTimestamp")
        if not timestamp:
            return starting(offsets or "earliest")
        if offsets:
            raise ConfigurationError(
                "the options startingOffsets and startingTimestamp are given; give one of them"
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
        """Whether it is another place each time it is asked for, until a consumer remembers it."""
        return self.word == "latest" or self.latest_if_later


def starting(text: str) -> Start:
    """Read `startingOffsets`: `earliest`, `latest`, `committed`, `{"tick": n}` or `{"snapshot": "a:b:"}`.

    An offset of a checkpoint is one too.

    Raises:
        ConfigurationError: It is none of these.
    """
    if text.lower() in _WORDS:
        return Start(word=text.lower())
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, dict) and set(value) <= {"tick", "snapshot", "log"}:
        tick, snapshot, log = value.get("tick"), value.get("snapshot"), value.get("log")
        if isinstance(tick, int) and not isinstance(tick, bool):
            return Start(tick=tick, log=log)
        if isinstance(snapshot, str):
            try:
                return Start(snapshot=Snapshot.parse(snapshot), log=log)
            except ArgumentError as error:
                raise ConfigurationError(f"startingOffsets: {error}") from None
    raise ConfigurationError(
        f"startingOffsets is {text!r}; use earliest, latest, committed, "
        '{"tick": 12} or {"snapshot": "1005:1008:1005"}'
    )


def moment(name: str, text: str) -> datetime:
    """Read an option that is a moment: milliseconds since 1970, or ISO 8601 with its offset from UTC.

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
