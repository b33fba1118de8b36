"""Spark's offsets of an event log: a tick, and which log it is a tick of."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pgsluice.errors import ConfigurationError, LogStateError


@dataclass(frozen=True, slots=True)
class Offset:
    """Everything up to a tick.

    Attributes:
        log: Which log, wherever it is: from `sluice.log_incarnation`. Ticks count from 1 in each log and
            snapshots mean something in one cluster only.
        tick: The tick's id.
    """

    log: str
    tick: int

    def to_dict(self) -> dict[str, str | int]:
        """What Spark writes into its checkpoint. It compares the text, so the order of keys counts."""
        return {"log": self.log, "tick": self.tick}

    @classmethod
    def from_dict(cls, offset: dict[str, str | int], *, log: str, queue_name: str) -> Offset:
        """Read an offset back from a checkpoint.

        Args:
            offset: As `to_dict` gave it.
            log: The log that is there now.
            queue_name: Its name, for the message.

        Raises:
            LogStateError: The checkpoint belongs to another log, or to another source.
        """
        try:
            found = cls(str(offset["log"]), int(offset["tick"]))
        except (KeyError, TypeError, ValueError):
            raise LogStateError(
                f"the checkpoint holds {json.dumps(offset)}, which is no offset of an event log; use "
                "another checkpoint folder"
            ) from None
        if found.log != log:
            raise LogStateError(
                f"the checkpoint was written for another event log {queue_name!r} ({found.log}, now "
                f"{log}): it was dropped and made again, or restored elsewhere; start with another "
                "checkpoint and another lake table"
            )
        return found


def starting(text: str) -> str:
    """Check the option `startingOffsets`: `earliest`, `latest` or `{"tick": n}`.

    Returns:
        What `sluice.log_start` takes: `earliest`, `latest` or the tick's number.

    Raises:
        ConfigurationError: It is none of these.
    """
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    tick = value.get("tick") if isinstance(value, dict) and set(value) <= {"tick", "log"} else None
    if not isinstance(tick, int) or isinstance(tick, bool):
        raise ConfigurationError(
            f'startingOffsets is {text!r}; use earliest, latest or {{"tick": 12}}'
        )
    return str(tick)
