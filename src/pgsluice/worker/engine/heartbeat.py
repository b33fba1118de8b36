"""Keeps claims while their handlers run, and finds those that are lost."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from pgsluice.backoff import Backoff, Complaints
from pgsluice.errors import ConnectionFailedError
from pgsluice.worker.engine.delivery import Delivery
from pgsluice.worker.engine.source import Source

_Result = TypeVar("_Result")
# How long one call waits for a row lock, seconds; then it is another message's turn.
_LOCK_S = 5.0


class Heartbeat:
    """Extends the leases of a lane's messages when a third of their time is over, all in one call.

    So a call may fail, and be repeated, for a time of half a lease before anything is lost. The source leaves those out
    that another transaction has locked. While it is locked no other worker can claim a message; one call at a time
    waits for such a lock, to extend the lease as soon as it is released.
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
        self._backoff = Backoff(source.name, complaints.say)
        self._claimed = claimed
        self._lose = lose
        self._waiting: asyncio.Task[None] | None = None  # for a row lock
        self._beat_s = time.monotonic()

    async def run(self) -> None:
        """Go on until cancelled."""
        try:
            while True:
                began_s = time.monotonic()
                await asyncio.sleep(self._lease_s / 6)
                self._notice(time.monotonic() - began_s - self._lease_s / 6)
                due = await self._beat()
                locked = [delivery for delivery in due if delivery.is_locked]
                if locked and (self._waiting is None or self._waiting.done()):
                    self._waiting = asyncio.create_task(self._wait_for(random.choice(locked)))  # noqa: S311
        finally:
            if self._waiting is not None:
                self._waiting.cancel()

    async def catch_up(self) -> None:
        """Extend leases now if the process stood still: a claim could get its own messages, as their leases expired."""
        if time.monotonic() - self._beat_s > self._lease_s / 2:
            await self._beat()

    async def _beat(self) -> list[Delivery]:
        """Extend what is due, and return it."""
        self._beat_s = time.monotonic()
        due = self._due()
        for delivery in await self._extend(due):
            self._lose(delivery)
        return due

    async def _wait_for(self, delivery: Delivery) -> None:
        """Extend the lease of one message when the transaction that has locked it ends."""
        try:
            async with self._source.lock_waits.turn(min(self._lease_s, _LOCK_S)) as wait_s:
                lost = await self._source.extend([delivery], self._lease_s, wait_s=wait_s)
        except Exception as error:  # noqa: BLE001 - as below
            self._backoff.failed(error, "extend claims")
            return
        if lost:
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
            lost = await _within(self._lease_s / 3, self._source.extend(due, self._lease_s))
        except Exception as error:  # noqa: BLE001 - what does not pass by itself is mended by somebody
            self._backoff.failed(error, "extend claims")
            now_s = time.monotonic()
            return [delivery for delivery in due if delivery.lease_end_s <= now_s]
        self._backoff.succeeded()
        return lost


async def _within(seconds: float, work: Awaitable[_Result]) -> _Result:
    """Wait for a call of the server, but not forever.

    Raises:
        ConnectionFailedError: It took longer. It may still have been done.
    """
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise ConnectionFailedError(
            f"no answer within {seconds:.1f} s; check that the server runs and is reachable"
        ) from None
