"""A share group of an event log as a source of deliveries."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from psycopg_pool import AsyncConnectionPool

from pgsluice.client import AsyncShareGroup, ClaimedEvent
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import Call, share_groups
from pgsluice.client.group_records import AcknowledgeType, GroupInfo
from pgsluice.errors import (
    TRANSIENT,
    ClaimNotFoundError,
    GroupNotFoundError,
    GroupStateError,
    LeaseLostError,
    LogNotFoundError,
    RetryableError,
)
from pgsluice.outcome import Done, Reject, Release, Retry
from pgsluice.worker.engine.connections import unhurried
from pgsluice.worker.engine.declared_limits import compare_attempts, group_options
from pgsluice.worker.engine.delivery import Delivery, Failure
from pgsluice.worker.engine.failures import TOO_MANY
from pgsluice.worker.engine.group_types import GroupTypes
from pgsluice.worker.engine.lock_waits import LockWaits
from pgsluice.worker.engine.polling import Polling
from pgsluice.worker.engine.row_locks import is_locked, limited, summed
from pgsluice.worker.engine.settlement import Result, Settlement
from pgsluice.worker.handlers.handler import GroupRoute, HandlerSpec
from pgsluice.worker.handlers.retry import Backoff, RetryPolicy
from pgsluice.worker.wakeups.listener import AsyncListener

_log = logging.getLogger(__name__)
_FIELDS = ("ev_type", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")
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
        is_renewed: True once a renewal told the server that the claim was received.
        keys_back: Ordering keys with an event returned for redelivery; their later events are returned too.
    """

    lease_s: float
    lease_end_s: float
    open: set[int]
    has_lost: bool = False
    is_renewed: bool = False
    keys_back: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Said:
    """One acknowledgement, shared by several events of a claim."""

    claim_id: int
    outcome: AcknowledgeType
    delay_s: float | None = None
    error: str | None = None
    reason: str | None = None


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
    ) -> None:
        """Prepare a source without database access.

        Args:
            pool: Provides a connection per call, of a role that may read the log (`sluice_reader`).
            route: The log and group.
            specs: Its handlers.
            listener: Notifies of new events; None: the source polls.
            lock_waits: Limit on lock waits, shared by all sources of the pool.
            types: The event types of the group.
        """
        self.lock_waits = lock_waits
        self.announces = False  # a claim ends with its window, and the next one may have events
        self.has_more = False
        self._specs = specs
        self._types = types
        self._runner = AsyncRunner(pool)
        self._names = (route.log_name, route.group_name)
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
        return f"group {self._names[1]} of log {self._names[0]}"

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
        wanted: list[ClaimedEvent] = []
        self.has_more = False
        for _ in range(_PASSED_OVER_MAX):
            began_s = time.monotonic()
            events = await self._claim(1 if self._is_careful else qty, lease_s)
            self._polling.claimed(len(events))
            wanted = await self._types.settle_unhandled(self._group, events)
            is_due = not events and (self._polling.take_due() or await self._types.has_more())
            self.has_more = not wanted and (self.has_more or is_due)
            if wanted or not (events or is_due):
                break
        lease_end_s = began_s + lease_s
        deliveries = [self._delivery(event, lease_end_s) for event in wanted]
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
            expired = await self._group.lapsed_events(deliveries[0].fence)
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
        said = {delivery: self._said(delivery, each) for delivery, each in settlements.items()}
        if wait_s is None and time.monotonic() >= self._careful_until_s:
            try:
                async with asyncio.timeout(_WAIT_S) as limit:
                    over = await self._settle_at_once(said, None)
            except TimeoutError:
                if not limit.expired():
                    raise
            else:
                return self._settled(settlements, said, over)
        settled: dict[Delivery, Settlement] = {}
        for claim_id in sorted({what.claim_id for what in said.values()}):
            of_claim = {each: what for each, what in said.items() if what.claim_id == claim_id}
            try:
                over = await self._settle_at_once(of_claim, wait_s or _LOCK_S)
            except RetryableError as error:
                if not is_locked(error):
                    raise
                self._careful_until_s = time.monotonic() + _CAREFUL_S
                settled |= {each: settlements[each].with_result("locked") for each in of_claim}
            else:
                settled |= self._settled(settlements, of_claim, over)
        return {delivery: settled[delivery] for delivery in settlements}

    async def _settle_at_once(
        self, said: dict[Delivery, _Said], wait_s: float | None
    ) -> set[Delivery]:
        """Settle in one transaction, or one by one if a claim is stale; return deliveries with stale claims."""
        calls = list(self._calls(said))
        try:
            if len(calls) == 1 and wait_s is None:
                await self._runner.run(calls[0])
            else:
                await self._runner.run_steps(summed(calls, wait_s))
        except _OVER:
            return await self._settle_apart(said)
        return set()

    def _settled(
        self,
        settlements: Mapping[Delivery, Settlement],
        said: dict[Delivery, _Said],
        over: set[Delivery],
    ) -> dict[Delivery, Settlement]:
        settled = {}
        for delivery, what in said.items():
            self._note(delivery, what.outcome)
            settlement = settlements[delivery]
            result = "lost" if delivery in over else self._result(delivery, settlement, what)
            is_again = result in ("retry", "released")
            next_retry_s = self._next_retry_s(delivery, what) if is_again else None
            settled[delivery] = settlement.with_result(result, next_retry_s)
        return settled

    def acknowledgement(self, delivery: Delivery) -> Call[Result]:
        """As in `Source`.

        Raises:
            LeaseLostError: On execution, if the claim is stale.
        """
        call = self._call(_Said(delivery.fence, "accept"), [delivery.message_id])

        def read(rows: Sequence[tuple[Any, ...]]) -> Result:
            # Not counted: already settled, so this handler's writes are there already.
            return "done" if call.read_rows(rows) > 0 else "lost"

        return Call(call.sql, call.parameters, read, is_report=call.is_report)

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

    async def _settle_apart(self, said: dict[Delivery, _Said]) -> set[Delivery]:
        """Settle each delivery in its own transaction; return deliveries with stale claims."""
        over = set()
        for delivery, what in said.items():
            try:
                await self._runner.run(self._call(what, [delivery.message_id]))
            except _OVER:
                over.add(delivery)
        return over

    def _calls(self, said: dict[Delivery, _Said]) -> Iterator[Call[int]]:
        """Yield acceptances first: a returned event also returns the later open events of its key."""
        ev_ids: dict[_Said, list[int]] = {}
        for delivery, what in sorted(said.items(), key=lambda item: item[1].outcome != "accept"):
            ev_ids.setdefault(what, []).append(delivery.message_id)
        for what, ids in ev_ids.items():
            claim = self._claims.get(what.claim_id)
            is_whole = claim is not None and not claim.has_lost and claim.open == set(ids)
            # Acknowledging the whole claim is cheaper.
            yield self._call(what, None if is_whole and what.outcome == "accept" else ids)

    def _call(self, said: _Said, ev_ids: list[int] | None) -> Call[int]:
        return share_groups.acknowledge(
            *self._names,
            said.claim_id,
            said.outcome,
            ev_ids=ev_ids,
            delay_s=said.delay_s,
            error=said.error,
            reason=said.reason,
        )

    def _said(self, delivery: Delivery, settlement: Settlement) -> _Said:
        outcome = settlement.outcome
        error = None if settlement.failure is None else _text(settlement.failure)
        match outcome:
            case Done():
                return _Said(delivery.fence, "accept")
            case Release():
                return _Said(delivery.fence, "release", delay_s=outcome.delay_s)
            case Reject():
                return _Said(delivery.fence, "reject", error=error, reason=outcome.reason)
            case Retry():
                retry, delay_s = self.spec_of(delivery).retry, outcome.delay_s
                if retry is not None:
                    delay_s = retry.next_delay_s(delivery.attempt, delay_s)
                    if delay_s is None:
                        return _Said(delivery.fence, "reject", error=error, reason=TOO_MANY)
                return _Said(delivery.fence, "retry", delay_s, error or outcome.reason)
            case _:
                raise AssertionError(f"invalid outcome {outcome!r}")

    def _result(self, delivery: Delivery, settlement: Settlement, said: _Said) -> Result:
        event, info = delivery.raw, self._info
        is_last = info is not None and (
            event.attempt >= info.max_attempts or event.deliveries >= info.max_deliveries
        )
        if said.outcome == "reject" or (said.outcome == "retry" and is_last):
            return "dead"
        return settlement.asked

    def _next_retry_s(self, delivery: Delivery, said: _Said) -> float | None:
        """Return the maximum back-off of a failed event."""
        info = self._info
        if said.delay_s is not None or info is None:
            return said.delay_s
        longest = RetryPolicy(
            first_delay_s=info.backoff_base.total_seconds(),
            max_delay_s=info.backoff_cap.total_seconds(),
            backoff=cast("Backoff", info.backoff),
        )
        return longest.delay_s(delivery.attempt)

    def _is_back(self, delivery: Delivery) -> bool:
        claim = self._claims.get(delivery.fence)
        return claim is not None and delivery.key in claim.keys_back

    def _note(self, delivery: Delivery, outcome: AcknowledgeType) -> None:
        """Track that the server also returned the later events of the same key."""
        claim, info = self._claims.get(delivery.fence), self._info
        is_in_order = info is not None and info.when_waiting != "skip"
        is_again = outcome in ("retry", "release")
        if claim is not None and delivery.key is not None and is_in_order and is_again:
            claim.keys_back.add(delivery.key)
        self._forget(delivery)

    def _forget(self, delivery: Delivery) -> None:
        if (claim := self._claims.get(delivery.fence)) is not None:
            claim.open.discard(delivery.message_id)
            if not claim.open:
                del self._claims[delivery.fence]

    def _delivery(self, event: ClaimedEvent, lease_end_s: float) -> Delivery:
        fields = {name: getattr(event, name) for name in _FIELDS}
        return Delivery(
            source_name=self.name,
            message_id=event.ev_id,
            fence=event.claim_id,
            attempt=event.attempt,
            payload=event.ev_data,
            headers={name: value for name, value in fields.items() if value is not None},
            sent_at=event.ev_time,
            key=event.key,
            raw=event,
            lease_end_s=lease_end_s,
        )


def _text(failure: Failure) -> str:
    head = f"{failure.error_type}: {failure.message}"
    return head if failure.trace is None else f"{head}\n{failure.trace}"
