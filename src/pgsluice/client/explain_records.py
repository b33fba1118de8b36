"""Records of the explain functions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class ExplainedFact:
    """A fact about a message, queue, event, consumer, share group, key, schedule or pipeline.

    Attributes:
        section: `state`: its place now; `history`: the past; `reason`: a reason why it is not running now; `next`: the
            next change; `server`: a cause of trouble in the server or database, which only `pgsluice explain` adds.
        at: Time of the fact, in the past or the future, or None.
        cause: A word for the fact, which programs compare; sentences may change.
        fact: A sentence, without its time.
        commands: Commands or SQL statements that change it.
        detail: Values of the fact by name. That of the first fact names the object and has its `state`.
    """

    section: Literal["state", "history", "reason", "next", "server"]
    at: datetime | None
    cause: str
    fact: str
    commands: tuple[str, ...]
    detail: dict[str, Any]
