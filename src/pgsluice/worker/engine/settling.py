"""Says what became of messages: many in one call."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

from pgsluice.errors import TRANSIENT
from pgsluice.worker.engine.delivery import Delivery, Settled, Settlement
from pgsluice.worker.engine.source import Source
from pgsluice.worker.pause import Backoff, Complaints, described

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
        on_settled: Callable[[Sequence[tuple[Settlement, Settled]]], None],
    ) -> None:
        """Prepare it.

        Args:
            source: Is told.
            complaints: Where failures are said.
            on_settled: Hears what became of each.
        """
        self._source = source
        self._on_settled = on_settled
        self._backoff = Backoff(source.name, complaints.say)
        self._complaints = complaints
        self._waiting: list[Settlement] = []
        self._locked: deque[Settlement] = deque()
        self._has_locked = asyncio.Event()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._is_stopping = False

    @property
    def waiting(self) -> list[Settlement]:
        """Settlements that the source has not been told of."""
        return [*self._waiting, *self._locked]

    @property
    def unsettled(self) -> list[Delivery]:
        """What it has still to say something of."""
        return [settlement.delivery for settlement in self.waiting]

    @property
    def backlog(self) -> int:
        """How many that are."""
        return len(self._waiting) + len(self._locked)

    def add(self, settlement: Settlement) -> None:
        """Take one more."""
        self._waiting.append(settlement)
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
            batch = self._waiting[:_AT_ONCE]
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
                self._took(batch, settled)

    def _took(self, batch: list[Settlement], settled: Sequence[Settled]) -> None:
        """Take in the results of the first messages that wait."""
        results = list(zip(batch, settled, strict=True))
        self._locked += [settlement for settlement, each in results if each.result == "locked"]
        if self._locked:
            self._has_locked.set()
        self._remove(len(batch))
        self._on_settled([result for result in results if result[1].result != "locked"])

    async def _settle_locked(self) -> None:
        """Settle each message that another transaction has locked when that transaction ends."""
        while True:
            await self._has_locked.wait()
            settlement = self._locked[0]
            try:
                async with self._source.lock_waits.turn(_LOCK_S) as wait_s:
                    (settled,) = await self._source.settle([settlement], wait_s=wait_s)
            except Exception as error:  # noqa: BLE001 - among the others it is found whether it can be settled
                await asyncio.sleep(self._backoff.failed(error, "settle a locked message"))
                self._waiting.append(self._locked.popleft())
                self._filled.set()
            else:
                self._locked.popleft()
                if settled.result == "locked":
                    self._locked.append(settlement)
                    self._complaints.say(
                        logging.WARNING,
                        "%s: message %d is locked by another transaction, and is settled when that ends",
                        *(self._source.name, settlement.delivery.message_id),
                    )
                else:
                    self._remove(0)
                    self._on_settled([(settlement, settled)])
            if not self._locked:
                self._has_locked.clear()

    async def _gather(self) -> None:
        """Let handlers that end at this very moment join; those that take time are not waited for."""
        before = 0
        while before < len(self._waiting) < _WORTH_IT:
            before = len(self._waiting)
            await asyncio.sleep(0)

    async def _settle_each(self, batch: list[Settlement], error: Exception) -> None:
        """Find the one that the call fails for, and leave it to the end of its claim."""
        if len(batch) > 1:
            self._backoff.failed(error, f"settle {len(batch)} messages at once")
        while batch and self._waiting and batch[0] is self._waiting[0]:
            settlement = batch.pop(0)
            try:
                settled = await self._source.settle([settlement])
            except TRANSIENT:
                return  # the next round waits
            except Exception as reason:  # noqa: BLE001 - as above
                self._complaints.say(
                    logging.ERROR,
                    "%s: message %d cannot be settled, and comes again when its claim is over: %s",
                    *(self._source.name, settlement.delivery.message_id, described(reason)),
                )
                settled = [Settled(settlement.delivery, "lost")]
            self._took([settlement], settled)

    def _drop_lapsed(self) -> None:
        now_s = time.monotonic()
        lapsed = [each for each in self._waiting if each.delivery.lease_end_s <= now_s]
        self._waiting = [each for each in self._waiting if each.delivery.lease_end_s > now_s]
        self._remove(0)
        self._on_settled([(each, Settled(each.delivery, "lost")) for each in lapsed])

    def _remove(self, qty: int) -> None:
        del self._waiting[:qty]
        if not self._waiting:
            self._filled.clear()
            if not self._locked:
                self._empty.set()
