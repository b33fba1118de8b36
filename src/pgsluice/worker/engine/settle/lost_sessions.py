"""Release attempts that failed with a lost session without counting them, up to a limit."""

from __future__ import annotations

from dataclasses import replace

from pgsluice.backoff import jittered, next_delay_s
from pgsluice.outcome import Release
from pgsluice.worker.engine.delivery import Delivery, Settlement

# The handler may itself end its session: after this many uncounted deliveries, a lost session counts as an attempt.
UNCOUNTED_MAX = 20
_DELAY_MAX_S = 60.0
_REMEMBERED_MAX = 10_000


class LostSessions:
    """Release deliveries that failed because their session was lost.

    A work queue knows a message's uncounted deliveries: `read_ct` minus attempts. A share group does not count
    releases, so this process does.
    """

    def __init__(self) -> None:
        """Start with no losses."""
        self._losses: dict[tuple[str, int], int] = {}

    def settlement(
        self, delivery: Delivery, settlement: Settlement, *, is_unlimited: bool = False
    ) -> Settlement:
        """Return the settlement of an attempt with a lost session: a delayed release, or unchanged at the limit.

        Args:
            delivery: The message.
            settlement: The settlement if the attempt counts.
            is_unlimited: True if its handler cannot be the cause.
        """
        key = delivery.source_name, delivery.message_id
        losses = self._losses.pop(key, 0)
        uncounted = max(losses, delivery.uncounted)
        if uncounted >= UNCOUNTED_MAX and not is_unlimited:
            return settlement
        if len(self._losses) >= _REMEMBERED_MAX:
            del self._losses[next(iter(self._losses))]
        self._losses[key] = losses + 1
        delay_s = jittered(next_delay_s(uncounted + 1, 1.0, _DELAY_MAX_S))
        return replace(settlement, outcome=Release(delay_s))
