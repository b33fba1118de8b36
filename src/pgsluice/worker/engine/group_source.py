"""A share group of an event log as a source of deliveries."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from psycopg_pool import AsyncConnectionPool

from pgsluice.client import AsyncShareGroup, ClaimedEvent
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import Call, Steps, listeners, share_groups, upkeep
from pgsluice.client.group_records import AcknowledgeType, GroupInfo, GroupOptions
from pgsluice.errors import (
    TRANSIENT,
    ClaimNotFoundError,
    GroupNotFoundError,
    GroupStateError,
    LeaseLostError,
    RetryableError,
)
from pgsluice.outcome import Done, Reject, Release, Retry
from pgsluice.worker.engine.delivery import Delivery, Failure
from pgsluice.worker.engine.lock_waits import LockWaits
from pgsluice.worker.engine.polling import Polling
from pgsluice.worker.engine.routing import Routing, key_of
from pgsluice.worker.engine.row_locks import is_locked, limited
from pgsluice.worker.engine.settlement import Result, Settlement
from pgsluice.worker.handlers.handler import GroupRoute, HandlerSpec
from pgsluice.worker.handlers.retry import Backoff, RetryPolicy
from pgsluice.worker.wakeups.listener import AsyncListener

_log = logging.getLogger(__name__)
_FIELDS = ("ev_type", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")
_TOO_MANY = "too many attempts"
# Claims in a row of nothing but events that no handler is for; then the others of the process have their turn.
_PASSED_OVER_MAX = 10
# A statement without a result after this long may wait for a lock. Then claims are settled one by one for a while, and
# each waits for its lock for a moment only.
_WAIT_S = 1.0
_CAREFUL_S = 10.0
_LOCK_S = 0.1
# What the server says of a claim that is over, or was so long ago that it is forgotten.
_OVER = (LeaseLostError, ClaimNotFoundError)


@dataclass(slots=True)
class _Claim:
    """A claim of this process.

    Attributes:
        lease_s: How long it lasts.
        lease_end_s: When it ends, on `time.monotonic`.
        open: The ev_ids that nothing was said of yet.
        is_renewed: Whether the server knows that it arrived here.
        keys_back: Keys of which an event goes back, and the later ones with it.
    """

    lease_s: float
    lease_end_s: float
    open: set[int]
    is_renewed: bool = False
    keys_back: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Said:
    """What is said of some events of a claim at once."""

    claim_id: int
    outcome: AcknowledgeType
    delay_s: float | None = None
    error: str | None = None
    reason: str | None = None


class GroupSource:
    """The events of a share group, for all handlers of it. See `Source`.

    An event that none of them is for is accepted, and counted.

    Attributes:
        passed_over: Events that no handler was for.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        route: GroupRoute,
        specs: Sequence[HandlerSpec],
        listener: AsyncListener | None,
        lock_waits: LockWaits,
    ) -> None:
        """Prepare it; nothing is looked up yet.

        Args:
            pool: Gives a connection for each call, of a role that may read the log (`sluice_reader`).
            route: Which group of which log.
            specs: Its handlers.
            listener: Tells when to look; None: it polls.
            lock_waits: Turns of all sources of the pool.

        Raises:
            ConfigurationError: Two handlers are for the same events.
        """
        self.lock_waits = lock_waits
        self.passed_over = 0
        self._specs = specs
        self._routing = Routing(specs)
        self._runner = AsyncRunner(pool)
        self._names = (route.log_name, route.group_name)
        self._group = AsyncShareGroup(pool, *self._names)
        self._info: GroupInfo | None = None
        self._claims: dict[int, _Claim] = {}
        # Since the last claim had an event that may have killed its process: then one at a time.
        self._is_careful = False
        # Until then each claim is settled in a transaction of its own, as one of them was locked.
        self._careful_until_s = 0.0
        self._polling = Polling(
            (listener or AsyncListener("")).subscribe_log(route.log_name),
            lambda after: self._runner.run(listeners.next_group_due(*self._names, after)),
            is_told_of_time=False,
        )

    @property
    def name(self) -> str:
        """As in `Source`."""
        log_name, group_name = self._names
        return f"group {group_name} of log {log_name}"

    def spec_of(self, delivery: Delivery) -> HandlerSpec:
        """The handler that a delivery is for."""
        spec = self._routing.spec_of(delivery.raw.ev_type)
        assert spec is not None  # noqa: S101 - others are not delivered
        return spec

    async def prepare(self) -> None:
        """As in `Source`; the group is made where there is none."""
        try:
            self._info = await self._group.info()
        except GroupNotFoundError:
            # Or another process makes it right now; then its options count.
            with contextlib.suppress(GroupStateError):
                await self._group.create(**self._options())
            self._info = await self._group.info()
        self._compare_attempts(self._info)
        await self._polling.ask()

    def _compare_attempts(self, info: GroupInfo) -> None:
        """Log handlers that declare more attempts than their group allows: a group keeps what it was created with."""
        for spec in self._specs:
            if spec.retry is not None and spec.retry.max_attempts > info.max_attempts:
                _log.warning(
                    "%s: allows %d attempts, and handler %s declares max_attempts=%d, of which the later ones are not "
                    "made; allow them with `pgsluice group set %s %s --max-attempts %d`",
                    *(self.name, info.max_attempts, spec.name, spec.retry.max_attempts),
                    *(*self._names, spec.retry.max_attempts),
                )

    async def claim(self, qty: int, lease_s: float) -> list[Delivery]:
        """As in `Source`. A claim that finds nothing may have let delayed events into the log, for the next one."""
        wanted: list[ClaimedEvent] = []
        began_s = time.monotonic()
        for _ in range(_PASSED_OVER_MAX):
            began_s = time.monotonic()
            events = await self._group.claim(1 if self._is_careful else qty, lease_s=lease_s)
            self._polling.claimed(len(events))
            wanted = [event for event in events if self._routing.spec_of(event.ev_type)]
            if len(wanted) < len(events):
                rest = [event for event in events if not self._routing.spec_of(event.ev_type)]
                await self._group.accept(rest if wanted else rest[0].claim_id)
                self.passed_over += len(rest)
            if wanted or not (events or self._polling.take_due()):
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

    async def _suspect(self, deliveries: Sequence[Delivery]) -> Delivery | None:
        """The first that may have killed its process."""
        if all(delivery.attempt == 1 for delivery in deliveries):
            return None
        try:
            lapsed = await self._group.lapsed_events(deliveries[0].fence)
        except TRANSIENT:
            return None  # they are claimed: so they start beside each other
        return next((each for each in deliveries if each.message_id in lapsed), None)

    async def _keep_one(self, deliveries: Sequence[Delivery], suspect: Delivery) -> list[Delivery]:
        """Give back all but a suspect: a claim lapses as a whole, and each of them would lose an attempt."""
        # Not before what comes earlier of its key.
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
        """As in `Source`. A claim that is renewed is known to have arrived: should it lapse, that counts."""
        over = set()
        for claim_id in sorted({delivery.fence for delivery in deliveries}):
            claim = self._claims.get(claim_id)
            if claim is not None and not claim.is_renewed:
                await self._renew(claim_id, claim, claim.lease_s)
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
        """As in `Source`. A claim is renewed as a whole, and locked as a whole."""
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
        """Settle in one transaction, or each apart where a claim is over; return those whose claim is over."""
        calls = list(self._calls(said))
        try:
            if len(calls) == 1 and wait_s is None:
                await self._runner.run(calls[0])
            else:
                await self._runner.run_steps(_all(calls, wait_s))
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
            LeaseLostError: When it is run: the claim is over.
        """
        call = self._call(_Said(delivery.fence, "accept"), [delivery.message_id])

        def read(rows: Sequence[tuple[Any, ...]]) -> Result:
            # None: it was settled before, and so what its handler writes is there already.
            return "done" if call.read_rows(rows) > 0 else "lost"

        return Call(call.sql, call.parameters, read)

    async def wait(self, timeout_s: float) -> None:
        """As in `Source`."""
        await self._polling.wait(timeout_s)

    async def close(self) -> None:
        """As in `Source`."""
        self._polling.subscription.close()

    async def _renew(
        self, claim_id: int, claim: _Claim, lease_s: float, *, wait_s: float | None = None
    ) -> bool:
        """Hold a claim; return whether it is still held."""
        began_s = time.monotonic()
        call = share_groups.renew(*self._names, claim_id, lease_s=lease_s)
        try:
            if wait_s is None:
                await self._runner.run(call)
            else:
                await self._runner.run_steps(limited(call, wait_s))
        except _OVER:
            self._claims.pop(claim_id, None)
            return False
        claim.is_renewed = True
        claim.lease_end_s = max(claim.lease_end_s, began_s + lease_s)
        return True

    async def _settle_apart(self, said: dict[Delivery, _Said]) -> set[Delivery]:
        """Settle each in a transaction of its own; return those whose claim is over."""
        over = set()
        for delivery, what in said.items():
            try:
                await self._runner.run(self._call(what, [delivery.message_id]))
            except _OVER:
                over.add(delivery)
        return over

    def _calls(self, said: dict[Delivery, _Said]) -> Iterator[Call[int]]:
        """First what is done: with an event that comes again, the later ones of its key go back."""
        ev_ids: dict[_Said, list[int]] = {}
        for delivery, what in sorted(said.items(), key=lambda item: item[1].outcome != "accept"):
            ev_ids.setdefault(what, []).append(delivery.message_id)
        for what, ids in ev_ids.items():
            claim = self._claims.get(what.claim_id)
            is_whole = claim is not None and what.outcome == "accept" and claim.open == set(ids)
            yield self._call(
                what, None if is_whole else ids
            )  # the whole of it costs the server less

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
                        return _Said(delivery.fence, "reject", error=error, reason=_TOO_MANY)
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
        """Return for how long an event that failed is delayed at most."""
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
        """Remember what the server did with the later events of the same key."""
        claim, info = self._claims.get(delivery.fence), self._info
        is_in_order = info is not None and info.when_waiting != "skip"
        is_again = outcome in ("retry", "release")
        if claim is not None and delivery.key is not None and is_in_order and is_again:
            claim.keys_back.add(delivery.key)
        self._forget(delivery)

    def _forget(self, delivery: Delivery) -> None:
        claim = self._claims.get(delivery.fence)
        if claim is not None:
            claim.open.discard(delivery.message_id)
            if not claim.open:
                del self._claims[delivery.fence]

    def _options(self) -> GroupOptions:
        """Those of a group that is made for these handlers."""
        options: GroupOptions = {"lease_s": max(spec.lease_s for spec in self._specs)}
        retries = [spec.retry for spec in self._specs if spec.retry is not None]
        if len(retries) == len(self._specs):
            # Handlers may give up earlier than their group, not later.
            longest = max(retries, key=lambda retry: retry.max_attempts)
            options |= {
                "max_attempts": longest.max_attempts,
                "backoff": longest.backoff,
                "backoff_base_s": longest.first_delay_s,
                "backoff_cap_s": longest.max_delay_s,
                "backoff_jitter": longest.jitter,
            }
        return options

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
            key=key_of(event, None if self._info is None else self._info.key),
            raw=event,
            lease_end_s=lease_end_s,
        )


def _all(calls: Sequence[Call[int]], wait_s: float | None) -> Steps[int]:
    settled = 0
    if wait_s is not None:
        yield upkeep.wait_for_locks(math.ceil(wait_s * 1_000))
    for call in calls:
        settled += yield call
    return settled


def _text(failure: Failure) -> str:
    head = f"{failure.error_type}: {failure.message}"
    return head if failure.trace is None else f"{head}\n{failure.trace}"
