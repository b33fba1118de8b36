"""Renews leases while handlers run, and detects lost claims."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from pgsluice.backoff import Backoff, Complaints
from pgsluice.errors import ConnectionFailedError
from pgsluice.worker.engine.claim.source import Source
from pgsluice.worker.engine.delivery import Delivery

_Result = TypeVar("_Result")
# Lock timeout of one call in seconds; then the next message's lock is tried.
_LOCK_S = 5.0


class Heartbeat:
    """Renews the leases of a lane's messages, in one call, after a third of their duration.

    Calls can fail and be retried for half a lease before one expires. The source skips messages locked by another
    transaction. No other worker can claim a locked message; one call at a time waits for such a lock, to renew the
    lease when it is released.
    """

    def __init__(
        self,
        source: Source,
        lease_s: float,
        complaints: Complaints,
        claimed: Callable[[], Iterable[Delivery]],
        lose: Callable[[Delivery], None],
    ) -> None:
        """Prepare a heartbeat.

        Args:
            source: Renews the leases.
            lease_s: Lease duration.
            complaints: Receives failures to log.
            claimed: Returns the messages whose leases to renew.
            lose: Called for messages whose lease has expired, or may have: the server did not respond before its end.
        """
        self._source = source
        self._lease_s = lease_s
        self._complaints = complaints
        self._backoff = Backoff(source.name, complaints.log)
        self._claimed = claimed
        self._lose = lose
        self._waiting: asyncio.Task[None] | None = None  # for a row lock
        self._beat_s = time.monotonic()

    async def run(self) -> None:
        """Renew leases until cancelled."""
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
        """Renew leases now if the process was suspended: a claim could return its own messages with expired leases."""
        if time.monotonic() - self._beat_s > self._lease_s / 2:
            await self._beat()

    async def _beat(self) -> list[Delivery]:
        """Renew due leases; return their deliveries."""
        self._beat_s = time.monotonic()
        due = self._due()
        for delivery in await self._extend(due):
            self._lose(delivery)
        return due

    async def _wait_for(self, delivery: Delivery) -> None:
        """Renew the lease of one message when the transaction that locks it ends."""
        try:
            async with self._source.lock_waits.turn(min(self._lease_s, _LOCK_S)) as wait_s:
                lost = await self._source.extend([delivery], self._lease_s, wait_s=wait_s)
        except Exception as error:  # noqa: BLE001 - retried by the next heartbeat
            self._backoff.failed(error, "renew leases")
            return
        if lost:
            self._lose(delivery)

    def _notice(self, late_s: float) -> None:
        if late_s > self._lease_s / 3:
            self._complaints.log(
                logging.WARNING,
                'event loop blocked source="%s" seconds=%.1f reason="an `async def` handler computes or waits without '
                '`await`" hint="make it a `def`"',
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
        except Exception as error:  # noqa: BLE001 - also permanent errors, until an operator fixes the cause
            self._backoff.failed(error, "renew leases")
            now_s = time.monotonic()
            return [delivery for delivery in due if delivery.lease_end_s <= now_s]
        self._backoff.succeeded()
        return lost


async def _within(seconds: float, work: Awaitable[_Result]) -> _Result:
    """Await a database call with a timeout.

    Raises:
        ConnectionFailedError: The call timed out. It may have been executed.
    """
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise ConnectionFailedError(
            f"no response within {seconds:.1f} s; check that the server is running and reachable"
        ) from None
