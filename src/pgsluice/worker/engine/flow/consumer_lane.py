"""Runs handlers for the tick batches of a log consumer, in order; a batch and its handlers' writes commit together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from pgsluice.backoff import Backoff, async_pause
from pgsluice.client import AsyncEventLog, Event
from pgsluice.client.retry_records import RetryDecision
from pgsluice.errors import (
    BatchNotFoundError,
    ConsumerNotFoundError,
    LogNotFoundError,
    LogStateError,
    PrivilegeError,
)
from pgsluice.outcome import Done, Reject, Release, Retry
from pgsluice.worker.engine.claim.routing import Routing
from pgsluice.worker.engine.connections._async.scope import AsyncConnectionScope
from pgsluice.worker.engine.connections.sessions import unhurried
from pgsluice.worker.engine.consume._async.event_consumer import AsyncEventConsumer
from pgsluice.worker.engine.consume.consumed_batch import attempt_of
from pgsluice.worker.engine.consume.failures import EventFailedError
from pgsluice.worker.engine.delivery import Counts, Delivery, Failure, Settlement, delivery_of_event
from pgsluice.worker.engine.flow.shared import Shared
from pgsluice.worker.engine.flow.status import HandlerStatus, RunningCall, SourceStatus
from pgsluice.worker.engine.run.context import Context, SyncContext
from pgsluice.worker.engine.run.threads import NotStartedError
from pgsluice.worker.engine.settle.failure_log import Origin
from pgsluice.worker.handlers.handler import ConsumerRoute, Execution, HandlerSpec, source_name
from pgsluice.worker.handlers.retry import RetryPolicy
from pgsluice.worker.wakeups.listener import AsyncListener

_POLL_S = 1.0

_log = logging.getLogger(__name__)


class _BatchContext(Context):
    """Context of a handler that runs in the transaction of its batch, which is its `transaction()`."""

    def __init__(
        self, spec: HandlerSpec, delivery: Delivery, connection: AsyncConnection[Any]
    ) -> None:
        super().__init__(spec, delivery, None, None)
        self._scope = AsyncConnectionScope(connection)


class ConsumerLane:
    """One consumer of one log, and its handlers.

    Events are handled in log order, and a batch is finished in the transaction that its handlers write in
    (`AsyncEventConsumer`). Events without a handler are skipped, and each type of them is logged once. A failed event
    is redelivered after a back-off, and later events are handled first. After the last attempt, or when rejected, it
    is dead-lettered. If its route has no dead letters, the consumer is blocked on the event and retries its batch.

    A handler that is not `async def` runs outside of that transaction.

    Attributes:
        name: Display name: `consumer ledger of log orders`.
        active_s: Time of its last batch, on `time.monotonic`.
        empty_s: Start of its last poll that found no batch, or None.
    """

    def __init__(
        self,
        route: ConsumerRoute,
        specs: Sequence[HandlerSpec],
        pool: AsyncConnectionPool[Any],
        listener: AsyncListener | None,
        shared: Shared,
    ) -> None:
        """Prepare a lane.

        Args:
            route: The consumer and its log.
            specs: Its handlers.
            pool: Provides the connection of a batch, and another to tick the log.
            listener: Notifies of ticks; None: the lane polls.
            shared: Parts and options that all lanes of the worker share.

        Raises:
            ConfigurationError: Two handlers match the same events.
        """
        self._idle_s = shared.idle_s
        self.name = source_name(route)
        self._route = route
        self._specs = specs
        self._routing = Routing(specs)
        self._executor = shared.executor
        self._log = AsyncEventLog(pool)
        self._subscription = (listener or AsyncListener("")).subscribe_log(route.log_name)
        self._complaints = shared.complaints
        self._failures = shared.failures
        self._backoff = Backoff(self.name, shared.complaints.log)
        self._consumer = AsyncEventConsumer(
            pool,
            route.log_name,
            route.consumer_name,
            on_event=self._on_event,
            # Any other error than that of a handler is final.
            retry=RetryPolicy(max_attempts=1),
            dead_letters=route.dead_letters,
            register=False,
        )
        self._consumer.on_decided = self._on_decided
        self._counts = {spec.name: Counts() for spec in specs}
        self._errors: dict[str, str | None] = {spec.name: None for spec in specs}
        # State of the current batch.
        self._results: dict[int, tuple[HandlerSpec, Delivery, Settlement]] = {}
        self._failed: dict[int, tuple[HandlerSpec, Delivery, Settlement]] = {}
        self._running: str | None = None
        self._call: RunningCall | None = None
        self._context: SyncContext | _BatchContext | None = None
        self._stopping = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._ticks = True
        self._is_missing = False  # True if the log or the registration of the consumer was missing
        self.active_s = time.monotonic()
        self.empty_s: float | None = None

    @property
    def is_holding(self) -> bool:
        """True if a batch is in progress."""
        return bool(self._results) or self._running is not None

    @property
    def stalled(self) -> list[str]:
        """Name of the handler whose thread hangs, if any; the consumer waits for it."""
        is_hung = self._context is not None and self._context.is_overdue
        return [self._running] if self._running is not None and is_hung else []

    def check_hung(self) -> None:
        """Do nothing: an open batch is held until it is finished or rolled back."""

    def status(self) -> tuple[SourceStatus, list[HandlerStatus]]:
        """Return the status of the source and its handlers."""
        source = SourceStatus.of(self.name, self._backoff)
        return source, [
            HandlerStatus(
                name=spec.name,
                running=int(self._running == spec.name),
                waiting=0,
                counts=self._counts[spec.name],
                last_error=self._errors[spec.name],
            )
            for spec in self._specs
        ]

    def running_calls(self) -> list[RunningCall]:
        """Return the event that a handler processes now."""
        return [] if self._call is None else [self._call]

    async def prepare(self) -> None:
        """Register the consumer at the latest tick, unless it is registered.

        Raises:
            SluiceError: The log or consumer cannot be used; the message gives reason and remedy.
        """
        await self._log.register_consumer(self._route.log_name, self._route.consumer_name)

    async def run(self) -> None:
        """Consume until `stop`."""
        self._work = asyncio.create_task(self._consume(), name=self.name)
        try:
            await asyncio.wait([self._work])
            if not self._work.cancelled():
                self._work.result()
        finally:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    def stop(self, *, now: bool = False) -> None:
        """Stop after the current batch; with `now` roll it back, and it is redelivered."""
        self._stopping.set()
        self._subscription.wake()
        if now and self._work is not None:
            self._work.cancel()

    async def close(self) -> None:
        """Close the listener's subscription."""
        self._subscription.close()

    async def _consume(self) -> None:
        while not self._stopping.is_set():
            self._results, self._failed = {}, {}
            began_s = time.monotonic()
            try:
                if self._is_missing:
                    await self._register_again()
                batch = await self._consumer.run_once()
            except BatchNotFoundError as error:
                self._complaints.log(
                    logging.WARNING, 'batch lost source="%s" error="%s"', self.name, error
                )
                continue
            except Exception as error:  # noqa: BLE001 - a lost connection, or a failed event that blocks the batch
                delay_s = self._backoff.failed(error, "finish a batch")
                self._is_missing |= isinstance(error, LogNotFoundError | ConsumerNotFoundError)
                if isinstance(error, EventFailedError):
                    self._report(blocked_s=delay_s)
                self._results = {}
                await async_pause(self._stopping, delay_s)
                continue
            self._backoff.succeeded()
            if batch is not None:
                self._count()
            else:
                self.empty_s = began_s
                await self._wait()

    async def _register_again(self) -> None:
        """Register the consumer of a log that was dropped and created again."""
        with unhurried():
            await self.prepare()
        self._is_missing = False
        _log.warning('consumer registered again source="%s"', self.name)

    def _count(self) -> None:
        self.active_s = time.monotonic()
        for spec, _, settlement in self._results.values():
            assert settlement.result is not None  # noqa: S101 - _record gets settlements with a result
            self._counts[spec.name].add(settlement.result)
        self._report()
        self._results = {}

    def _report(self, *, blocked_s: float | None = None) -> None:
        """Log the failures of the batch once, although its handlers may have run twice.

        Args:
            blocked_s: Seconds until the batch is retried because the consumer is blocked on a failed event.
        """
        for spec, delivery, settlement in self._results.values():
            if settlement.failure is not None and settlement.result is not None:
                is_blocked = settlement.result == "dead" and blocked_s is not None
                self._failures.report(
                    Origin.of(spec),
                    delivery.message_id,
                    delivery.attempt,
                    settlement.failure,
                    "blocked" if is_blocked else settlement.result,
                    next_retry_s=blocked_s if is_blocked else settlement.next_retry_s,
                    payload=delivery.payload,
                )

    async def _wait(self) -> None:
        """Wait for a tick; tick if one is overdue and no ticker seems to run."""
        if not self._subscription.is_reliable and self._ticks:
            try:
                if await self._log.ticker(self._route.log_name) is not None:
                    return
            except PrivilegeError:
                _log.info('missing privilege to tick source="%s" hint="run a ticker"', self.name)
                self._ticks = False
            except LogStateError:
                pass  # paused or ticked externally; either may change while this runs
            except Exception as error:  # noqa: BLE001 - the next batch reports it
                await async_pause(self._stopping, self._backoff.failed(error, "tick"))
        if not self._stopping.is_set():
            interval_s = self._subscription.interval_s(_POLL_S)
            await self._subscription.wait_notified(min(interval_s, self._idle_s))

    async def _on_event(self, connection: AsyncConnection[Any], event: Event) -> None:
        spec = self._routing.spec_of(event.ev_type)
        if spec is None:
            if self._routing.is_new(event.ev_type):
                _log.warning(
                    'event type without handler source="%s" type=%r outcome=skip hint="declare a handler, or read the '
                    'log with a share group, whose option unhandled chooses the treatment"',
                    self.name,
                    event.ev_type,
                )
            return
        delivery = delivery_of_event(self.name, event, 0, attempt_of(event))
        context = (
            _BatchContext(spec, delivery, connection)
            if spec.execution is Execution.LOOP
            else SyncContext(spec, delivery, None, None)
        )
        self._running, self._context = spec.name, context
        self._call = RunningCall(spec.name, spec.route, event.ev_id, time.monotonic())
        try:
            settlement = await self._executor.handle(spec, context)
        finally:
            self._running = self._context = self._call = None
        if settlement.is_unstarted and settlement.failure is not None:
            raise NotStartedError(settlement.failure.message)
        self._end(spec, delivery, settlement)

    def _end(self, spec: HandlerSpec, delivery: Delivery, settlement: Settlement) -> None:
        """Record the result of an event; raise the outcome or failure that the consumer applies."""
        match settlement.outcome:
            case Done():
                self._record(spec, delivery, Settlement(Done(), result="done"))
            case Release(delay_s=delay_s):
                self._record(spec, delivery, Settlement(settlement.outcome, result="released"))
                raise Release(delay_s)
            case Retry() | Reject() as outcome:
                failure = settlement.failure or Failure(type(outcome).__name__, "")
                self._failed[delivery.message_id] = (
                    spec,
                    delivery,
                    replace(settlement, failure=failure),
                )
                raise EventFailedError(failure, outcome, spec.retry or RetryPolicy())

    def _on_decided(self, event: Event, decided: RetryDecision) -> None:
        if (found := self._failed.pop(event.ev_id, None)) is not None:
            spec, delivery, failed = found
            self._record(spec, delivery, failed.with_result(decided.outcome, decided.delay_s))

    def _record(self, spec: HandlerSpec, delivery: Delivery, settlement: Settlement) -> None:
        # An event handled twice within a batch, as after a failure, counts once.
        self._results[delivery.message_id] = (spec, delivery, settlement)
        if settlement.failure is not None:
            self._errors[spec.name] = settlement.failure.error_type


def make_consumer_lanes(
    specs: Sequence[HandlerSpec],
    pool: AsyncConnectionPool[Any],
    listener: AsyncListener | None,
    shared: Shared,
) -> list[ConsumerLane]:
    """Make one lane per log consumer, shared by the consumer's handlers; the arguments are those of `ConsumerLane`.

    Raises:
        ConfigurationError: Two handlers of a consumer match the same events.
    """
    consumers: dict[ConsumerRoute, list[HandlerSpec]] = {}
    for spec in specs:
        if isinstance(spec.route, ConsumerRoute):
            consumers.setdefault(replace(spec.route, event_types=()), []).append(spec)
    return [
        ConsumerLane(route, of_consumer, pool, listener, shared)
        for route, of_consumer in consumers.items()
    ]
