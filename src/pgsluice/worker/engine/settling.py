"""Group commit of outcomes: the settlements of many messages in one call."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from pgsluice.backoff import Backoff, Complaints, described
from pgsluice.errors import TRANSIENT
from pgsluice.worker.engine.delivery import Delivery
from pgsluice.worker.engine.settlement import Settlement
from pgsluice.worker.engine.source import Source

_AT_ONCE = 1_000
# As many are worth a call of their own; fewer wait while every turn of the event loop brings more.
_WORTH_IT = 200
# How long one call waits for the row lock of another transaction, seconds; then it is the next message's turn.
_LOCK_S = 5.0


class Settler:
    """Collects what is to be said while it says the last: the group commit of acknowledgements.

    There is no timer. A single message is settled at once, and those whose handlers end at that moment join it; while
    that call is under way others gather, and go with the next. So the busier it is, the more share a commit. A call
    that fails is repeated: a claim keeps its fence, so the second says the same, or hears that the claim is over.

    Messages that another transaction has locked are settled one by one, beside the others.
    """

    def __init__(
        self,
        source: Source,
        complaints: Complaints,
        on_settled: Callable[[Mapping[Delivery, Settlement]], None],
    ) -> None:
        """Prepare it.

        Args:
            source: Is told.
            complaints: Where failures are said.
            on_settled: Called with the settlements that have results.
        """
        self._source = source
        self._on_settled = on_settled
        self._backoff = Backoff(source.name, complaints.say)
        self._complaints = complaints
        self._waiting: dict[Delivery, Settlement] = {}
        self._locked: dict[Delivery, Settlement] = {}
        self._has_locked = asyncio.Event()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._is_stopping = False

    @property
    def waiting(self) -> dict[Delivery, Settlement]:
        """Settlements that the source has not applied yet."""
        return self._waiting | self._locked

    @property
    def backlog(self) -> int:
        """The number of settlements that wait."""
        return len(self._waiting) + len(self._locked)

    def add(self, delivery: Delivery, settlement: Settlement) -> None:
        """Take one more."""
        self._waiting[delivery] = settlement
        self._filled.set()
        self._empty.clear()

    def stop(self) -> None:
        """From now on say nothing more of what cannot be said before its claim is over."""
        self._is_stopping = True

    async def drained(self) -> None:
        """Wait until there is nothing to say."""
        await self._empty.wait()

    async def run(self) -> None:
        """Go on until cancelled."""
        locked = asyncio.create_task(self._settle_locked())
        try:
            await self._settle_all()
        finally:
            locked.cancel()

    async def _settle_all(self) -> None:
        while True:
            await self._filled.wait()
            await self._gather()
            batch = dict(islice(self._waiting.items(), _AT_ONCE))
            try:
                settled = await self._source.settle(batch)
            except TRANSIENT as error:
                delay_s = self._backoff.failed(error, f"settle {len(batch)} messages")
                if self._is_stopping:
                    self._drop_lapsed()
                await asyncio.sleep(delay_s if self._waiting else 0)
            except Exception as error:  # noqa: BLE001 - one that cannot be settled must not keep the others
                await self._settle_each(batch, error)
            else:
                self._backoff.succeeded()
                self._took(settled)

    def _took(self, settled: Mapping[Delivery, Settlement]) -> None:
        """Take in the results of messages that wait."""
        locked = [each for each, settlement in settled.items() if settlement.result == "locked"]
        self._locked |= {delivery: self._waiting[delivery] for delivery in locked}
        if self._locked:
            self._has_locked.set()
        self._remove(settled)
        self._on_settled({each: settled[each] for each in settled if each not in locked})

    async def _settle_locked(self) -> None:
        """Settle each message that another transaction has locked when that transaction ends."""
        while True:
            await self._has_locked.wait()
            delivery, settlement = next(iter(self._locked.items()))
            try:
                async with self._source.lock_waits.turn(_LOCK_S) as wait_s:
                    settled = await self._source.settle({delivery: settlement}, wait_s=wait_s)
            except Exception as error:  # noqa: BLE001 - among the others it is found whether it can be settled
                await asyncio.sleep(self._backoff.failed(error, "settle a locked message"))
                self.add(delivery, self._locked.pop(delivery))
            else:
                del self._locked[delivery]
                if settled[delivery].result == "locked":
                    self._locked[delivery] = settlement
                    self._complaints.say(
                        logging.WARNING,
                        "%s: message %d is locked by another transaction, and is settled when that ends",
                        *(self._source.name, delivery.message_id),
                    )
                else:
                    self._remove(())
                    self._on_settled(settled)
            if not self._locked:
                self._has_locked.clear()

    async def _gather(self) -> None:
        """Let handlers that end at this very moment join; those that take time are not waited for."""
        before = 0
        while before < len(self._waiting) < _WORTH_IT:
            before = len(self._waiting)
            await asyncio.sleep(0)

    async def _settle_each(self, batch: dict[Delivery, Settlement], error: Exception) -> None:
        """Find the one that the call fails for, and leave it to the end of its claim."""
        if len(batch) > 1:
            self._backoff.failed(error, f"settle {len(batch)} messages at once")
        for delivery, settlement in batch.items():
            try:
                settled = await self._source.settle({delivery: settlement})
            except TRANSIENT:
                return  # the next round waits
            except Exception as reason:  # noqa: BLE001 - as above
                self._complaints.say(
                    logging.ERROR,
                    "%s: message %d cannot be settled, and comes again when its claim is over: %s",
                    *(self._source.name, delivery.message_id, described(reason)),
                )
                settled = {delivery: settlement.with_result("lost")}
            self._took(settled)

    def _drop_lapsed(self) -> None:
        now_s = time.monotonic()
        lapsed = {
            delivery: settlement.with_result("lost")
            for delivery, settlement in self._waiting.items()
            if delivery.lease_end_s <= now_s
        }
        self._remove(lapsed)
        self._on_settled(lapsed)

    def _remove(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            self._waiting.pop(delivery, None)
        if not self._waiting:
            self._filled.clear()
            if not self._locked:
                self._empty.set()
