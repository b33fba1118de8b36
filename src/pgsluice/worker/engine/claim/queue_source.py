"""A work queue as a source of deliveries."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from psycopg_pool import AsyncConnectionPool

from pgsluice.client import Message
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import Call, claims, limits, listeners, pgmq, results, retries, settings
from pgsluice.client.calls.limits import ClaimedMessage
from pgsluice.client.headers import KEY_HEADER
from pgsluice.client.records import ClaimOutcome
from pgsluice.client.retry_records import BegunAttempt, FailedMessage
from pgsluice.errors import TRANSIENT, QueueNotFoundError
from pgsluice.outcome import Done, Reject, Release, Retry
from pgsluice.worker.engine.claim.declared_limits import declare_limits, declare_unique
from pgsluice.worker.engine.claim.polling import Polling
from pgsluice.worker.engine.claim.row_locks import LockWaits, RowLocks
from pgsluice.worker.engine.connections.sessions import unhurried
from pgsluice.worker.engine.delivery import (
    ACKNOWLEDGED,
    DONE,
    Delivery,
    Result,
    Settlement,
    failed_message,
)
from pgsluice.worker.handlers.handler import HandlerSpec, QueueRoute, source_name
from pgsluice.worker.wakeups.listener import AsyncListener

_log = logging.getLogger(__name__)
_CREATED_AGAIN = "QU005"  # of sluice.queue_identity


class QueueSource:
    """The messages of a work queue, for one handler. See `Source`."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        route: QueueRoute,
        spec: HandlerSpec,
        listener: AsyncListener | None,
        worker_id: str,
        lock_waits: LockWaits,
    ) -> None:
        """Prepare a source without database access.

        Args:
            pool: Provides a connection per call, of a role that may read the queue (`sluice_reader`).
            route: The queue.
            spec: The handler, for its retry policy and `keep`.
            listener: Notifies of new messages; None: the source polls.
            worker_id: Display name of the worker.
            lock_waits: Limit on lock waits, shared by all sources of the pool.
        """
        self.lock_waits = lock_waits
        self._runner = AsyncRunner(pool)
        self._queue_name = route.queue_name
        self._name = source_name(route)
        self._locks = RowLocks(route.queue_name)
        self._topic = route.topic
        self._identity: int | None = None
        self._spec = spec
        self._retry = spec.retry
        self._limits = spec.limits
        self._declared_by = spec.declared_by
        self._is_kept = spec.keep == "archive"
        self._keep_result_s = None if spec.result_type is None else spec.keep_result_s
        self._worker_id = worker_id
        self._records_first = spec.retry is not None and spec.retry.max_attempts == 1
        # Claims settled in a call whose reply was lost, with their lease expiry: until then only that call, if it was
        # executed, can have removed them from the queue.
        self._unsure: dict[tuple[int, int], float] = {}
        self._polling = Polling(
            (listener or AsyncListener("")).subscribe(self._queue_name),
            lambda after: self._runner.run(listeners.next_due(self._queue_name, after)),
            is_notified_when_due=True,
            next_capacity=lambda: self._runner.run(listeners.next_capacity(self._queue_name)),
        )

    @property
    def name(self) -> str:
        """As in `Source`."""
        return self._name

    @property
    def announces(self) -> bool:
        """As in `Source`."""
        return self._polling.subscription.is_reliable

    @property
    def has_more(self) -> bool:
        """As in `Source`."""
        return False

    async def prepare(self) -> None:
        """As in `Source`."""
        if self._topic is not None:
            await self._bind(self._topic)
        # Before the limits are read, so that a queue created again meanwhile is noticed.
        identity = await self._runner.run(limits.queue_identity(self._queue_name))
        await self._polling.query_due()
        options = await self._runner.run(settings.queue_options(self._queue_name))
        if self._retry is None:
            self._records_first = options.max_attempts == 1
        await declare_unique(self._runner, options, self._spec)
        if await declare_limits(self._runner, options, self._declared_by, self._limits):
            self._polling.limit()
        self._identity = identity

    async def claim(self, qty: int, lease_s: float) -> list[Delivery]:
        """As in `Source`."""
        vt = math.ceil(lease_s)
        began_s = time.monotonic()
        identity = self._identity
        try:
            messages = await self._runner.run(self._claim_call(vt, qty, identity))
        except QueueNotFoundError:
            with unhurried():
                await self.prepare()
            if self._identity == identity:
                raise
            identity = self._identity
            _log.warning("queue created again queue=%s action=declared", self._queue_name)
            messages = await self._runner.run(self._claim_call(vt, qty, identity))
        self._polling.claimed(len(messages))
        lease_end_s = began_s + vt
        deliveries = [self._delivery(message, lease_end_s, identity) for message in messages]
        again = [delivery for delivery in deliveries if delivery.fence > 1]
        if again:
            await self._suspect(again)
        return deliveries

    def _claim_call(self, vt: int, qty: int, identity: int | None) -> Call[list[ClaimedMessage]]:
        return limits.claim_for_worker(self._queue_name, vt, qty, self._worker_id, identity)

    async def _suspect(self, again: list[Delivery]) -> None:
        """Set `is_suspect` of deliveries that may have killed their process."""
        find = retries.unfinished_attempts(self._queue_name, _messages(again))
        try:
            suspects: list[int] = await self._runner.run(find)
        except TRANSIENT:
            return  # already claimed: run them concurrently
        for delivery in again:
            delivery.is_suspect = delivery.message_id in suspects

    async def begin(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """As in `Source`. The first attempt of a message is counted without a record."""
        recorded = [
            delivery for delivery in deliveries if delivery.fence != 1 or self._records_first
        ]
        if not recorded:
            return list(deliveries)
        max_attempts = None if self._retry is None else self._retry.max_attempts

        def begin(some: Sequence[Delivery]) -> list[Call[_Begun]]:
            call = retries.begin_attempts(
                self._queue_name,
                _messages(some),
                worker=self._worker_id,
                max_attempts=max_attempts,
            )
            return [_by_delivery(call, some, _same)]

        begun = await self._run(recorded, begin)
        left_out = set()
        for delivery in recorded:
            attempt = begun.get(delivery)
            if attempt is None:
                left_out.add(delivery)
            elif attempt.outcome == "begun" and attempt.attempt is not None:
                delivery.attempt = attempt.attempt
            else:
                delivery.is_dead = attempt.outcome == "dead"
                delivery.attempt = attempt.attempt or delivery.attempt
                left_out.add(delivery)
        return [delivery for delivery in deliveries if delivery not in left_out]

    async def extend(
        self, deliveries: Sequence[Delivery], lease_s: float, *, wait_s: float | None = None
    ) -> list[Delivery]:
        """As in `Source`."""
        vt = math.ceil(lease_s)
        began_s = time.monotonic()

        def extend(some: Sequence[Delivery]) -> list[Call[dict[Delivery, ClaimOutcome]]]:
            call = claims.extend(self._queue_name, _messages(some), vt)
            return [_by_delivery(call, some, _same)]

        outcomes = await self._run(
            deliveries, extend, wait_s=wait_s, first_wait_s=min(1.0, lease_s / 6)
        )
        lost = []
        for delivery in deliveries:
            extended = outcomes.get(delivery)
            if extended is not None and extended.outcome == "done":
                delivery.lease_end_s = began_s + vt
            elif not delivery.is_locked:
                delivery.is_gone = extended is not None and extended.outcome == "gone"
                lost.append(delivery)
        return lost

    async def settle(
        self, settlements: Mapping[Delivery, Settlement], *, wait_s: float | None = None
    ) -> dict[Delivery, Settlement]:
        """As in `Source`."""

        def doubt() -> None:
            for delivery in settlements:
                self._unsure[_claim(delivery)] = delivery.lease_end_s

        try:
            results = await self._run(
                list(settlements),
                lambda some: self._calls({each: settlements[each] for each in some}),
                wait_s=wait_s,
                on_cancel=doubt,
            )
        except BaseException:
            doubt()  # the call may have been executed
            raise
        if self._unsure:
            self._forget_unsure(results)
        return {
            delivery: results.get(delivery)
            or settlement.with_result("locked" if delivery.is_locked else "lost")
            for delivery, settlement in settlements.items()
        }

    async def _run(
        self,
        deliveries: Sequence[Delivery],
        calls_for: Callable[[Sequence[Delivery]], Sequence[Call[dict[Delivery, _Made]]]],
        **waits: Any,
    ) -> dict[Delivery, _Made]:
        """Run calls as `RowLocks.run` does; return no result for claims of a queue that was dropped.

        Their msg_id and read_ct may be those of another reader's claim of a queue created again.
        """
        identity = self._identity
        current = [delivery for delivery in deliveries if delivery.queue == identity]
        for delivery in deliveries:
            delivery.is_locked &= delivery.queue == identity
        if current:
            try:
                return await self._locks.run(
                    self._runner,
                    current,
                    lambda some: [limits.fenced(call, identity) for call in calls_for(some)],
                    **waits,
                )
            except QueueNotFoundError as error:
                if error.sqlstate != _CREATED_AGAIN:
                    raise
        for delivery in current:
            delivery.is_locked = False
        return {}

    def _forget_unsure(self, results: Iterable[Delivery]) -> None:
        """Forget claims that are settled now, and expired ones."""
        now_s = time.monotonic()
        settled = {_claim(delivery) for delivery in results}
        self._unsure = {
            claim: end_s
            for claim, end_s in self._unsure.items()
            if end_s > now_s and claim not in settled
        }

    def acknowledgement(self, delivery: Delivery) -> Call[Result]:
        """As in `Source`."""
        keep = claims.archive if self._is_kept else claims.delete
        call = limits.fenced(keep(self._queue_name, [delivery.raw]), delivery.queue)
        return call.then(lambda replies: self._acknowledged(delivery, replies[0]))

    def storing(self, delivery: Delivery, returned: str) -> Call[None] | None:
        """As in `Source`."""
        if self._keep_result_s is None:
            return None
        name, keep_s = self._queue_name, self._keep_result_s
        return results.store_result(name, delivery.message_id, returned, keep_s=keep_s)

    def forget(self, delivery: Delivery) -> None:
        """As in `Source`. Nothing is kept per delivery."""

    async def wait(self, timeout_s: float) -> None:
        """As in `Source`."""
        await self._polling.wait(timeout_s)

    async def close(self) -> None:
        """As in `Source`."""
        self._polling.subscription.close()

    def _calls(self, settlements: Mapping[Delivery, Settlement]) -> list[Call[_Settlements]]:
        """Return one call for done messages, one for failed ones, and one per delay of releases."""
        done: list[Delivery] = []
        failed: list[Delivery] = []
        failures: list[FailedMessage] = []
        released: dict[float, list[Delivery]] = {}
        for delivery, settlement in settlements.items():
            if settlement is DONE:  # nearly always
                done.append(delivery)
                continue
            match settlement.outcome:
                case Done():
                    done.append(delivery)
                case Release(delay_s=delay_s):
                    released.setdefault(delay_s, []).append(delivery)
                case Retry() | Reject():
                    failed.append(delivery)
                    failures.append(failed_message(delivery, settlement))
        calls: list[tuple[Call[list[ClaimOutcome]], list[Delivery]]] = []
        notify: list[Call[_Settlements]] = []
        if failed:
            if self._keep_result_s is not None:
                msg_ids = [delivery.message_id for delivery in failed]
                announce = results.notify_results(self._queue_name, msg_ids)
                notify.append(announce.then(lambda _nothing: {}))
            fail = retries.fail(
                self._queue_name,
                failures,
                worker=self._worker_id,
                policy=None if self._retry is None else self._retry.options,
            )
            calls.append((fail, failed))
        for delay_s, deliveries in released.items():
            release = claims.release_unstarted(
                self._queue_name, _messages(deliveries), delay_s=delay_s
            )
            calls.append((release, deliveries))
        others = [
            _by_delivery(
                call,
                deliveries,
                lambda delivery, reply: self._settled(delivery, settlements[delivery], reply),
            )
            for call, deliveries in calls
        ]
        others += notify
        return [self._settle_done(done, settlements), *others] if done else others

    def _settle_done(
        self, done: Sequence[Delivery], settlements: Mapping[Delivery, Settlement]
    ) -> Call[_Settlements]:
        """Return the call that archives or deletes done messages; nearly all have the same result."""
        messages = _messages(done)
        if self._keep_result_s is None:
            call = claims.settle_done(self._queue_name, messages, keep=self._is_kept)
        else:
            call = results.finish(
                self._queue_name,
                messages,
                [settlements[delivery].returned or "null" for delivery in done],
                keep_s=self._keep_result_s,
                is_archived=self._is_kept,
            )

        def settled(others: dict[int, ClaimOutcome]) -> _Settlements:
            applied = dict.fromkeys(done, ACKNOWLEDGED)
            for position, reply in others.items():
                delivery = done[position]
                applied[delivery] = self._settled(delivery, settlements[delivery], reply)
            return applied

        return call.then(settled)

    def _settled(
        self, delivery: Delivery, settlement: Settlement, reply: ClaimOutcome
    ) -> Settlement:
        """Return a settlement with its result, from the server's reply."""
        if reply.outcome == "retry" or reply.outcome == "dead":
            return settlement.with_result(reply.outcome, reply.delay_s)
        if reply.outcome == "done":
            return settlement.with_result(settlement.requested)
        if isinstance(settlement.outcome, Done):
            return settlement.with_result(self._acknowledged(delivery, reply))
        # The attempt ended during the commit of its transaction, which removed the message.
        if reply.outcome == "gone" and delivery.is_in_doubt:
            return settlement.with_result("done")
        # After a settle call whose reply was lost, the message may have been claimed and finished since.
        return settlement.with_result(settlement.requested if self._is_unsure(delivery) else "lost")

    def _acknowledged(self, delivery: Delivery, reply: ClaimOutcome) -> Result:
        is_gone = reply.outcome == "gone" and self._is_unsure(delivery)
        return "done" if reply.outcome == "done" or is_gone else "lost"

    def _is_unsure(self, delivery: Delivery) -> bool:
        return self._unsure.get(_claim(delivery), 0.0) > time.monotonic()

    async def _bind(self, topic: str) -> None:
        """Bind the queue to a topic; create the queue if it does not exist."""
        queues = await self._runner.run(pgmq.list_queues())
        if all(queue.queue_name != self._queue_name for queue in queues):
            await self._runner.run(pgmq.create(self._queue_name))
        await self._runner.run(pgmq.bind_topic(topic, self._queue_name))
        for binding in await self._runner.run(pgmq.list_topic_bindings(self._queue_name)):
            if binding.pattern != topic:
                _log.warning(
                    "queue bound to another topic queue=%s topic=%r declared_topic=%r "
                    'hint="to remove a binding of an earlier version, run: pgsluice queue topics unbind %r %s"',
                    *(self._queue_name, binding.pattern, topic, binding.pattern, self._queue_name),
                )

    def _delivery(
        self, message: ClaimedMessage, lease_end_s: float, identity: int | None
    ) -> Delivery:
        msg_id, read_ct, enqueued_at, payload, headers = message
        key = None
        if isinstance(headers, dict):
            key = headers.get(KEY_HEADER)
            if not isinstance(key, str):
                key = None
        else:
            headers = {}
        delivery = Delivery(
            self._name,
            msg_id,
            read_ct,  # fence
            read_ct,  # attempt
            payload,
            headers,
            enqueued_at,
            key,
            message,
            lease_end_s,
        )
        delivery.claims = read_ct
        delivery.queue = identity
        return delivery


_Settlements = dict[Delivery, Settlement]
_Begun = dict[Delivery, BegunAttempt]
_Each = TypeVar("_Each")
_Made = TypeVar("_Made")


def _by_delivery(
    call: Call[list[_Each]],
    deliveries: Sequence[Delivery],
    make: Callable[[Delivery, _Each], _Made],
) -> Call[dict[Delivery, _Made]]:
    """Return a call whose results, one per delivery in order, are keyed by delivery."""

    return call.then(
        lambda results: {
            delivery: make(delivery, result)
            for delivery, result in zip(deliveries, results, strict=True)
        }
    )


def _same(_delivery: Delivery, result: _Each) -> _Each:
    return result


def _claim(delivery: Delivery) -> tuple[int, int]:
    return delivery.message_id, delivery.fence


def _messages(deliveries: Sequence[Delivery]) -> list[Message]:
    return [delivery.raw for delivery in deliveries]
