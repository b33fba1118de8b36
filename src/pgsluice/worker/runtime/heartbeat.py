"""Keeps claims while their handlers run, and finds those that are lost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from pgsluice.worker.runtime.delivery import Delivery
from pgsluice.worker.runtime.patience import Complaints, Patience, within
from pgsluice.worker.runtime.source import Source


class Heartbeat:
    """Extends the leases of a lane's messages when a third of their time is over, all in one call.

    So a call may fail, and be repeated, for a time of half a lease before anything is lost. A call that takes longer
    than a third of a lease is given up: it waits for a row that a handler's own transaction has just locked, and the
    other messages are not to wait for that one.
    """

    def __init__(
        self,
        source: Source,
        lease_s: float,
        complaints: Complaints,
        claimed: Callable[[], Iterable[Delivery]],
        lose: Callable[[Delivery], None],
    ) -> None:
        """Prepare it.

        Args:
            source: Is asked.
            lease_s: How long a lease is.
            complaints: Where failures are said.
            claimed: The messages to keep.
            lose: Hears of those whose claim is over, or may be: the server could not be asked until its end, and
                others may have asked it.
        """
        self._source = source
        self._lease_s = lease_s
        self._complaints = complaints
        self._patience = Patience(source.name, complaints)
        self._claimed = claimed
        self._lose = lose

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(self._lease_s / 6)
            self._notice(time.monotonic() - began_s - self._lease_s / 6)
            for delivery in await self._extend(self._due()):
                self._lose(delivery)

    def _notice(self, late_s: float) -> None:
        if late_s > self._lease_s / 3:
            self._complaints.say(
                logging.WARNING,
                "%s: this process stood still for %.1f s, and no claim could be extended; an `async def` that computes "
                "or waits without `await` does that: make it a `def`",
                *(self._source.name, late_s),
            )

    def _due(self) -> list[Delivery]:
        limit_s = time.monotonic() + self._lease_s * 2 / 3
        return [delivery for delivery in self._claimed() if delivery.lease_end_s < limit_s]

    async def _extend(self, due: list[Delivery]) -> list[Delivery]:
        if not due:
            return []
        try:
            lost = await within(self._lease_s / 3, self._source.extend(due, self._lease_s))
        except Exception as error:  # noqa: BLE001 - what does not pass by itself is mended by somebody
            self._patience.failed("extend claims", error)
            now_s = time.monotonic()
            return [delivery for delivery in due if delivery.lease_end_s <= now_s]
        self._patience.succeeded()
        return lost
