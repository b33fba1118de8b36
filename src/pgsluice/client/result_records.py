"""Records of kept results."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

ResultState = Literal["waiting", "running", "retrying", "done", "dead", "gone"]


@dataclass(frozen=True, slots=True)
class MessageResult:
    """State of a message, and the result of its handler if one is kept.

    Attributes:
        state: `waiting`, to be claimed; `running`, claimed; `retrying`, failed or released, with a delay; `done`;
            `dead`; `gone`: it was deleted or never sent, or its result has expired.
        result: The JSON value that the handler returned; None for null, and without a kept result.
        expires_at: When the result expires; None: no result is kept.
        error_type: For `dead`, the type of the last error, or None.
        error: For `dead`, the last error, or the reason.
    """

    state: ResultState
    result: Any
    expires_at: datetime | None
    error_type: str | None
    error: str | None

    @property
    def is_final(self) -> bool:
        """True if the message is done, dead or gone."""
        return self.state in ("done", "dead", "gone")
