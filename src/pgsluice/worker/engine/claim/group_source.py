"""A share group of an event log as a source of deliveries."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from psycopg_pool import AsyncConnectionPool

from pgsluice.client import AsyncShareGroup, ClaimedEvent
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import Call, retries, share_groups
from pgsluice.client.group_records import GroupInfo
from pgsluice.client.records import ClaimOutcome
from pgsluice.errors import (
    TRANSIENT,
    ClaimNotFoundError,
    GroupNotFoundError,
    GroupStateError,
    LeaseLostError,
    LogNotFoundError,
    RetryableError,
)
from pgsluice.outcome import Done, Release
from pgsluice.worker.engine.claim.declared_limits import compare_attempts, group_options
from pgsluice.worker.engine.claim.group_types import GroupTypes
from pgsluice.worker.engine.claim.polling import Polling
from pgsluice.worker.engine.claim.row_locks import LockWaits, is_locked, limited, merged
from pgsluice.worker.engine.connections.sessions import unhurried
from pgsluice.worker.engine.delivery import (
    ACKNOWLEDGED,
    DONE,
    Delivery,
    Result,
    Settlement,
    delivery_of_event,
    failed_message,
)
from pgsluice.worker.handlers.handler import GroupRoute, HandlerSpec, source_name
from pgsluice.worker.handlers.retry import RetryPolicy
from pgsluice.worker.wakeups.listener import AsyncListener

_log = logging.getLogger(__name__)
# Consecutive claims with only unhandled events; then the process's other lanes get a turn.
_PASSED_OVER_MAX = 10
# A statement without a result after this long may wait for a lock. Then claims are settled one by one for a while, with
# a short lock timeout each.
_WAIT_S = 1.0
_CAREFUL_S = 10.0
_LOCK_S = 0.1
# Errors of an expired claim, or one so old that its record is removed.
_OVER = (LeaseLostError, ClaimNotFoundError)


@dataclass(slots=True)
class _Claim:
    """A claim of this process.

    Attributes:
        lease_s: Lease duration.
        lease_end_s: Lease expiry, on `time.monotonic`.
        open: The ev_ids not settled yet.
        has_lost: True if other events of it may be open on the server too.
        is_renewed: True once a renewal confirmed to the server that the claim was received.
        keys_back: Ordering keys with an event returned for redelivery; their later events are returned too.
    """

    lease_s: float
    lease_end_s: float
    open: set[int]
    has_lost: bool = False
    is_renewed: bool = False
    keys_back: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Acknowledgement:
    """One acknowledgement, shared by several events of a claim."""

    claim_id: int
    outcome: Literal["accept", "release"]
    delay_s: float | None = None


class GroupSource:
    """The events of a share group, for all its handlers. See `Source`.

    Events that other members handle are left to them. Events of types that no handler is declared for are treated by
    the option `unhandled` of the group.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        route: GroupRoute,
        specs: Sequence[HandlerSpec],
        listener: AsyncListener | None,
        lock_waits: LockWaits,
        types: GroupTypes,
        worker_id: str,
    ) -> None:
        """Prepare a source without database access.

        Args:
            pool: Provides a connection per call, of a role that may read the log (`sluice_reader`).
            route: The log and group.
            specs: Its handlers.
            listener: Notifies of new events; None: the source polls.
            lock_waits: Limit on lock waits, shared by all sources of the pool.
            types: The event types of the group.
            worker_id: Display name of the worker.
        """
        self.lock_waits = lock_waits
        self.announces = False  # a claim ends with its window, and the next one may have events
        self.has_more = False
        self._specs = specs
        self._types = types
        self._worker_id = worker_id
        self._runner = AsyncRunner(pool)
        self._names = (route.log_name, route.group_name)
        self._name = source_name(route)
        self._group = AsyncShareGroup(pool, *self._names)
        self._info: GroupInfo | None = None
        self._is_missing = False  # True if the last claim found no log or group
        self._claims: dict[int, _Claim] = {}
        # True if the last claim had an event that may have killed its process: then claim one event at a time.
        self._is_careful = False
        self._careful_until_s = 0.0  # until then, settle each claim in a transaction of its own
        self._polling = Polling(
            (listener or AsyncListener("")).subscribe_log(route.log_name),
            types.next_due,
            is_notified_when_due=False,
        )

    @property
    def name(self) -> str:
        """As in `Source`."""
        return self._name

    def spec_of(self, delivery: Delivery) -> HandlerSpec:
        """Return the handler of a delivery."""
        return self._types.spec_of(delivery.raw.ev_type)

    async def prepare(self) -> None:
        """As in `Source`; creates the group if it does not exist."""
        try:
            self._info = await self._group.info()
        except GroupNotFoundError:
            # GroupStateError: another process created it meanwhile; its options apply.
            with contextlib.suppress(GroupStateError):
                await self._group.create(**group_options(self._specs))
            self._info = await self._group.info()
        compare_attempts(self.name, self._names, self._specs, self._info)
        await self._types.declare()
        await self._polling.query_due()
        if self._is_missing:
            _log.warning('share group found or created again source="%s"', self.name)
        self._is_missing = False

    async def claim(self, qty: int, lease_s: float) -> list[Delivery]:
        """As in `Source`. An empty claim may have moved delayed events into the log for the next claim."""
        handled: list[ClaimedEvent] = []
        self.has_more = False
        for _ in range(_PASSED_OVER_MAX):
            began_s = time.monotonic()
            events = await self._claim(1 if self._is_careful else qty, lease_s)
            self._polling.claimed(len(events))
            handled = await self._types.settle_unhandled(self._group, events)
            is_due = not events and (self._polling.take_due() or await self._types.has_more())
            self.has_more = not handled and (self.has_more or is_due)
            if handled or not (events or is_due):
                break
        lease_end_s = began_s + lease_s
        deliveries = [
            delivery_of_event(
                self.name, event, event.claim_id, event.attempt, event.key, lease_end_s
            )
            for event in handled
        ]
        suspect = await self._suspect(deliveries)
        self._is_careful = suspect is not None
        if suspect is not None:
            deliveries = await self._keep_one(deliveries, suspect)
        if deliveries:
            ev_ids = {delivery.message_id for delivery in deliveries}
            self._claims[deliveries[0].fence] = _Claim(lease_s, lease_end_s, ev_ids)
        return deliveries

    async def _claim(self, qty: int, lease_s: float) -> list[ClaimedEvent]:
        """Claim; after the log or group was missing, prepare first: it may have other options, or none."""
        if self._is_missing:
            with unhurried():
                await self.prepare()
        try:
            await self._types.keep_declared()
            return await self._group.claim(
                qty, lease_s=lease_s, types=self._types.names, others=self._types.has_others
            )
        except (LogNotFoundError, GroupNotFoundError):
            self._is_missing = True
            raise

    async def _suspect(self, deliveries: Sequence[Delivery]) -> Delivery | None:
        """Return the first delivery that may have killed its process."""
        if all(delivery.attempt == 1 for delivery in deliveries):
            return None
        try:
            expired = await self._group.unfinished_attempts(deliveries[0].fence)
        except TRANSIENT:
            return None  # already claimed: run them concurrently
        return next((each for each in deliveries if each.message_id in expired), None)

    async def _keep_one(self, deliveries: Sequence[Delivery], suspect: Delivery) -> list[Delivery]:
        """Release all but a suspect: a claim expires as a whole, and would cost each of its events an attempt."""
        # Keep the earliest event of the suspect's ordering key.
        kept = (
            suspect if suspect.key is None else next(d for d in deliveries if d.key == suspect.key)
        )
        rest = [delivery.raw for delivery in deliveries if delivery is not kept]
        if rest:
            try:
                await self._group.release(rest)
            except _OVER:
                return []
        kept.is_suspect = True
        return [kept]

    async def begin(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """As in `Source`. A renewed claim is known to be received, so its expiry counts as an attempt."""
        over = set()
        for claim_id in sorted({delivery.fence for delivery in deliveries}):
            if (claim := self._claims.get(claim_id)) is not None and not claim.is_renewed:
                await self._renew(claim_id, claim, claim.lease_s, is_receipt=True)
            if claim_id not in self._claims:
                over.add(claim_id)
        begun = []
        for delivery in deliveries:
            if delivery.fence not in over and not self._is_back(delivery):
                begun.append(delivery)
            else:
                self._forget(delivery)
        return begun

    async def extend(
        self, deliveries: Sequence[Delivery], lease_s: float, *, wait_s: float | None = None
    ) -> list[Delivery]:
        """As in `Source`. Leases are renewed, and locked, per claim."""
        lost = []
        claim_ids = sorted({delivery.fence for delivery in deliveries})
        wait_s = wait_s or min(_WAIT_S, lease_s / 6) / max(1, len(claim_ids))
        for claim_id in claim_ids:
            claim = self._claims.get(claim_id)
            try:
                is_held = claim is not None and await self._renew(
                    claim_id, claim, lease_s, wait_s=wait_s
                )
            except RetryableError as error:
                if not is_locked(error):
                    raise
                for delivery in deliveries:
                    delivery.is_locked |= delivery.fence == claim_id
                continue
            for delivery in deliveries:
                if delivery.fence != claim_id:
                    continue
                delivery.is_locked = False
                if claim is not None and is_held and not self._is_back(delivery):
                    delivery.lease_end_s = claim.lease_end_s
                else:
                    lost.append(delivery)
        return lost

    async def settle(
        self, settlements: Mapping[Delivery, Settlement], *, wait_s: float | None = None
    ) -> dict[Delivery, Settlement]:
        """As in `Source`."""
        if wait_s is None and time.monotonic() >= self._careful_until_s:
            try:
                async with asyncio.timeout(_WAIT_S) as limit:
                    return await self._settle_at_once(settlements, None)
            except TimeoutError:
                if not limit.expired():
                    raise
        settled: dict[Delivery, Settlement] = {}
        for claim_id in sorted({delivery.fence for delivery in settlements}):
            of_claim = {each: how for each, how in settlements.items() if each.fence == claim_id}
            try:
                settled |= await self._settle_at_once(of_claim, wait_s or _LOCK_S)
            except RetryableError as error:
                if not is_locked(error):
                    raise
                self._careful_until_s = time.monotonic() + _CAREFUL_S
                settled |= {each: settlements[each].with_result("locked") for each in of_claim}
        return {delivery: settled[delivery] for delivery in settlements}

    async def _settle_at_once(
        self, settlements: Mapping[Delivery, Settlement], wait_s: float | None
    ) -> dict[Delivery, Settlement]:
        """Settle in one transaction, or one by one if a claim is stale."""
        calls = list(self._calls(settlements))
        try:
            if len(calls) == 1 and wait_s is None:
                settled = await self._runner.run(calls[0])
            else:
                settled = await self._runner.run_steps(merged(calls, wait_s))
        except _OVER:
            settled = await self._settle_apart(settlements)
        for delivery in settlements:
            self._track_result(delivery, settled[delivery].result)
        return {delivery: settled[delivery] for delivery in settlements}

    def acknowledgement(self, delivery: Delivery) -> Call[Result]:
        """As in `Source`.

        Raises:
            LeaseLostError: On execution, if the claim is stale.
        """
        call = share_groups.acknowledge(
            *self._names, delivery.fence, "accept", ev_ids=[delivery.message_id]
        )

        # Not counted: already settled, so this handler's writes are committed.
        return call.then(lambda count: "done" if count > 0 else "lost")

    def storing(self, _delivery: Delivery, _returned: str) -> Call[None] | None:
        """As in `Source`."""
        return None

    def forget(self, delivery: Delivery) -> None:
        """As in `Source`. A lost event is open on the server: the whole claim is not to be acknowledged any more."""
        if (claim := self._claims.get(delivery.fence)) is not None:
            claim.has_lost = True
        self._forget(delivery)

    async def wait(self, timeout_s: float) -> None:
        """As in `Source`."""
        await self._polling.wait(timeout_s)

    async def close(self) -> None:
        """As in `Source`."""
        self._polling.subscription.close()
        await self._types.close()

    async def _renew(
        self,
        claim_id: int,
        claim: _Claim,
        lease_s: float,
        *,
        wait_s: float | None = None,
        is_receipt: bool = False,
    ) -> bool:
        """Renew a claim; True if it is still held. A receipt may be lost in a server crash."""
        began_s = time.monotonic()
        renew = share_groups.record_receipt if is_receipt else share_groups.renew
        call = renew(*self._names, claim_id, lease_s=lease_s)
        try:
            if wait_s is None:
                await self._runner.run(call)
            else:
                await self._runner.run_steps(limited(call, wait_s))
        except _OVER:
            self._claims.pop(claim_id, None)
            return False
        claim.is_renewed = True
        if not is_receipt:
            claim.lease_end_s = max(claim.lease_end_s, began_s + lease_s)
        return True

    async def _settle_apart(
        self, settlements: Mapping[Delivery, Settlement]
    ) -> dict[Delivery, Settlement]:
        """Settle each delivery in its own transaction; those with stale claims are lost."""
        settled: dict[Delivery, Settlement] = {}
        for delivery, settlement in settlements.items():
            try:
                for call in self._calls({delivery: settlement}):
                    one: dict[Delivery, Settlement] = await self._runner.run(call)
                    settled |= one
            except _OVER:
                settled[delivery] = settlement.with_result("lost")
        return settled

    def _calls(
        self, settlements: Mapping[Delivery, Settlement]
    ) -> Iterator[Call[dict[Delivery, Settlement]]]:
        """Yield acceptances first: a returned event also returns the later open events of its key."""
        alike: dict[_Acknowledgement, list[Delivery]] = {}
        failed: dict[tuple[int, RetryPolicy | None], list[Delivery]] = {}
        for delivery, settlement in settlements.items():
            match settlement.outcome:
                case Done():
                    acknowledgement = _Acknowledgement(delivery.fence, "accept")
                case Release(delay_s=delay_s):
                    acknowledgement = _Acknowledgement(delivery.fence, "release", delay_s)
                case _:
                    of_policy = (delivery.fence, self.spec_of(delivery).retry)
                    failed.setdefault(of_policy, []).append(delivery)
                    continue
            alike.setdefault(acknowledgement, []).append(delivery)
        for acknowledgement in sorted(alike, key=lambda each: each.outcome):
            yield self._acknowledge(
                acknowledgement, {each: settlements[each] for each in alike[acknowledgement]}
            )
        for (claim_id, retry), deliveries in failed.items():
            yield self._fail(claim_id, retry, {each: settlements[each] for each in deliveries})

    def _acknowledge(
        self, acknowledgement: _Acknowledgement, settlements: Mapping[Delivery, Settlement]
    ) -> Call[dict[Delivery, Settlement]]:
        claim = self._claims.get(acknowledgement.claim_id)
        ev_ids = [delivery.message_id for delivery in settlements]
        is_whole = claim is not None and not claim.has_lost and claim.open == set(ev_ids)
        call = share_groups.acknowledge(
            *self._names,
            acknowledgement.claim_id,
            acknowledgement.outcome,
            # Acknowledging the whole claim is cheaper.
            ev_ids=None if is_whole and acknowledgement.outcome == "accept" else ev_ids,
            delay_s=acknowledgement.delay_s,
        )
        settled = {
            delivery: ACKNOWLEDGED
            if settlement is DONE  # nearly always
            else settlement.with_result(settlement.requested, acknowledgement.delay_s)
            for delivery, settlement in settlements.items()
        }
        return call.then(lambda _count: settled)

    def _fail(
        self,
        claim_id: int,
        retry: RetryPolicy | None,
        settlements: Mapping[Delivery, Settlement],
    ) -> Call[dict[Delivery, Settlement]]:
        """Return the call that retries or dead-letters events, as the server decides."""
        call = retries.fail_events(
            *self._names,
            claim_id,
            [failed_message(delivery, settlement) for delivery, settlement in settlements.items()],
            worker=self._worker_id,
            policy=None if retry is None else retry.options,
        )

        def read(outcomes: Sequence[ClaimOutcome]) -> dict[Delivery, Settlement]:
            decided = {each.msg_id: each for each in outcomes}
            return {
                delivery: _settled(settlement, decided[delivery.message_id])
                for delivery, settlement in settlements.items()
            }

        return call.then(read)

    def _is_back(self, delivery: Delivery) -> bool:
        claim = self._claims.get(delivery.fence)
        return claim is not None and delivery.key in claim.keys_back

    def _track_result(self, delivery: Delivery, result: Result | None) -> None:
        """Track that the server also returned the later events of the same key."""
        claim, info = self._claims.get(delivery.fence), self._info
        is_in_order = info is not None and info.when_waiting != "skip"
        is_again = result in ("retry", "released")
        if claim is not None and delivery.key is not None and is_in_order and is_again:
            claim.keys_back.add(delivery.key)
        self._forget(delivery)

    def _forget(self, delivery: Delivery) -> None:
        if (claim := self._claims.get(delivery.fence)) is not None:
            claim.open.discard(delivery.message_id)
            if not claim.open:
                del self._claims[delivery.fence]


def _settled(settlement: Settlement, decided: ClaimOutcome) -> Settlement:
    match decided.outcome:
        case "retry" | "dead" | "released" as result:
            return settlement.with_result(result, decided.delay_s)
        case _:
            raise AssertionError(f"invalid outcome {decided.outcome!r}")
