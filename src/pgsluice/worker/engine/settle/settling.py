"""Group commit of settlements: many messages in one call."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from pgsluice.backoff import Backoff, Complaints, described
from pgsluice.errors import TRANSIENT
from pgsluice.worker.engine.claim.source import Source
from pgsluice.worker.engine.delivery import Delivery, Settlement

_AT_ONCE = 1_000
# A batch this large is sent immediately; a smaller one waits while each turn of the event loop adds more.
_WORTH_IT = 200
# Lock timeout of one call in seconds; then the next locked message is tried.
_LOCK_S = 5.0


class Settler:
    """Collects settlements while the previous ones are applied: group commit of acknowledgements.

    There is no timer. A single message is settled immediately, together with messages whose handlers end in the same
    turn of the event loop; others gather during that call and go with the next. So batches grow with load. A failed
    call is repeated, which is safe: the fencing token is unchanged, so the second call has the same effect or reports a
    stale claim.

    Messages locked by another transaction are settled one by one, concurrently with the others.
    """

    def __init__(
        self,
        source: Source,
        complaints: Complaints,
        on_settled: Callable[[Mapping[Delivery, Settlement]], None],
    ) -> None:
        """Prepare a settler.

        Args:
            source: Applies the settlements.
            complaints: Receives failures to log.
            on_settled: Called with the settlements that have results.
        """
        self._source = source
        self._on_settled = on_settled
        self._backoff = Backoff(source.name, complaints.log)
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
        """Settlements not applied yet."""
        return self._waiting | self._locked

    @property
    def backlog(self) -> int:
        """Number of settlements not applied yet."""
        return len(self._waiting) + len(self._locked)

    def add(self, delivery: Delivery, settlement: Settlement) -> None:
        """Add a settlement."""
        self._waiting[delivery] = settlement
        self._filled.set()
        self._empty.clear()

    def stop(self) -> None:
        """From now on drop settlements that fail until lease expiry."""
        self._is_stopping = True

    async def drained(self) -> None:
        """Wait until all settlements are applied."""
        await self._empty.wait()

    async def run(self) -> None:
        """Settle until cancelled."""
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
                    self._drop_expired()
                await asyncio.sleep(delay_s if self._waiting else 0)
            except Exception as error:  # noqa: BLE001 - a message that cannot be settled must not block the others
                await self._settle_each(batch, error)
            else:
                self._backoff.succeeded()
                self._took(settled)

    def _took(self, settled: Mapping[Delivery, Settlement]) -> None:
        """Process the results of a batch."""
        locked = {each for each, settlement in settled.items() if settlement.result == "locked"}
        if locked:
            self._locked |= {each: self._waiting[each] for each in settled if each in locked}
            self._has_locked.set()
        self._remove(settled)
        if locked:
            settled = {each: settled[each] for each in settled if each not in locked}
        self._on_settled(settled)

    async def _settle_locked(self) -> None:
        """Settle each locked message when the transaction that locks it ends."""
        while True:
            await self._has_locked.wait()
            delivery, settlement = next(iter(self._locked.items()))
            try:
                async with self._source.lock_waits.turn(_LOCK_S) as wait_s:
                    settled = await self._source.settle({delivery: settlement}, wait_s=wait_s)
            except Exception as error:  # noqa: BLE001 - _settle_all decides whether it can be settled
                await asyncio.sleep(self._backoff.failed(error, "settle a locked message"))
                self.add(delivery, self._locked.pop(delivery))
            else:
                del self._locked[delivery]
                if settled[delivery].result == "locked":
                    self._locked[delivery] = settlement
                    self._complaints.log(
                        logging.WARNING,
                        'settlement delayed source="%s" message_id=%d reason="row locked by another transaction"',
                        *(self._source.name, delivery.message_id),
                    )
                else:
                    self._remove(())
                    self._on_settled(settled)
            if not self._locked:
                self._has_locked.clear()

    async def _gather(self) -> None:
        """Let handlers that end in this turn of the event loop join the batch."""
        before = 0
        while before < len(self._waiting) < _WORTH_IT:
            before = len(self._waiting)
            await asyncio.sleep(0)

    async def _settle_each(self, batch: dict[Delivery, Settlement], error: Exception) -> None:
        """Settle messages one by one; leave those that fail to expire."""
        if len(batch) > 1:
            self._backoff.failed(error, f"settle {len(batch)} messages at once")
        for delivery, settlement in batch.items():
            try:
                settled = await self._source.settle({delivery: settlement})
            except TRANSIENT:
                return  # retried by the next round
            except Exception as reason:  # noqa: BLE001 - as in _settle_all
                self._complaints.log(
                    logging.ERROR,
                    'settlement failed source="%s" message_id=%d hint="redelivered after lease expiry" error="%s"',
                    *(self._source.name, delivery.message_id, described(reason)),
                )
                settled = {delivery: settlement.with_result("lost")}
            self._took(settled)

    def _drop_expired(self) -> None:
        now_s = time.monotonic()
        expired = {
            delivery: settlement.with_result("lost")
            for delivery, settlement in self._waiting.items()
            if delivery.lease_end_s <= now_s
        }
        self._remove(expired)
        self._on_settled(expired)

    def _remove(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            self._waiting.pop(delivery, None)
        if not self._waiting:
            self._filled.clear()
            if not self._locked:
                self._empty.set()
