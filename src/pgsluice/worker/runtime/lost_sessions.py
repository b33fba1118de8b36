"""Attempts that failed because the handler's session was lost: released and not counted, but not without end."""

from __future__ import annotations

import random
from dataclasses import replace

import psycopg

from pgsluice.errors import ConnectionFailedError
from pgsluice.worker.answer import Release
from pgsluice.worker.runtime.delivery import Delivery
from pgsluice.worker.runtime.ending import Ending

# A handler may be what ends its session: after as many deliveries that did not count, a lost session counts.
UNCOUNTED_MAX = 20
_DELAY_MAX_S = 60.0
_REMEMBERED_MAX = 10_000


def is_of_session(error: BaseException | None) -> bool:
    """Return whether a connection failed, or could not be had, in this error or one that it was raised for."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, psycopg.OperationalError | ConnectionFailedError):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


class LostSessions:
    """Release what failed because its session was lost.

    The deliveries of a message that did not count are known to a work queue, `read_ct` less the attempts. A share group
    does not count releases, so this process does.
    """

    def __init__(self) -> None:
        """Prepare it; nothing was lost yet."""
        self._losses: dict[tuple[str, int], int] = {}

    def ending(self, delivery: Delivery, ending: Ending) -> Ending:
        """Return the ending of an attempt whose session was lost: released with a delay, or as it is."""
        key = delivery.source_name, delivery.message_id
        losses = self._losses.pop(key, 0)
        uncounted = max(losses, delivery.uncounted)
        if uncounted >= UNCOUNTED_MAX:
            return ending
        if len(self._losses) >= _REMEMBERED_MAX:
            del self._losses[next(iter(self._losses))]
        self._losses[key] = losses + 1
        delay_s = min(_DELAY_MAX_S, 2.0**uncounted) * random.uniform(0.5, 1.0)  # noqa: S311 - not all at once
        return replace(ending, answer=Release(delay_s))
