"""Consumer of an event log: opens tick batches, runs a handler, finishes each batch in the handler's transaction."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import aclosing
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from pgsluice.backoff import DELAY_MAX_S, Backoff, async_pause
from pgsluice.client import AsyncEventLog, Event, FailedEvent
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import Call, logs, retries
from pgsluice.client.retry_records import RetryDecision
from pgsluice.client.sources import require_pool
from pgsluice.errors import (
    ArgumentError,
    BatchNotFoundError,
    LogStateError,
    PrivilegeError,
    RetryableError,
)
from pgsluice.outcome import Done, Outcome, Reject, Release, Retry
from pgsluice.ranges import require_positive_s
from pgsluice.worker.engine.consume._async.event_batch import (
    AsyncEventBatch,
    BatchHandler,
    EventHandler,
)
from pgsluice.worker.engine.consume._async.lease import async_leased
from pgsluice.worker.engine.consume.consumed_batch import BatchProgress, ConsumedBatch, attempt_of
from pgsluice.worker.engine.consume.failures import (
    BusyError,
    EventFailedError,
    is_passing,
    passing_failures,
    require_status,
)
from pgsluice.worker.engine.settle.failure_log import FailureLog, Origin
from pgsluice.worker.engine.settle.settlement import failure_of
from pgsluice.worker.forks import close_in_forks, end_fork
from pgsluice.worker.handlers.retry import ATTEMPTS_MAX, RetryPolicy

_log = logging.getLogger(__name__)
_STOP_LOOK_S = 0.1
# Lock timeout while another session of this consumer holds the batch, and the delay before the next attempt.
_LOCK_TIMEOUT_MS = 1_000
_BUSY_S = 1.0
# Interval at which an idle consumer checks for an overdue tick.
_TICK_S = 1.0


class AsyncEventConsumer:
    """Run a handler for the events of a log, batch by batch, in log order.

    The handler gets a connection in an open transaction, and the batch is finished in the same transaction: what the
    handler writes there has an exactly-once effect, although delivery is at least once. If the process dies or the
    handler raises, the transaction is rolled back and the batch is redelivered.

    Only one session processes a batch: a second consumer with the same name waits as a standby. To share the work,
    give each consumer a `subconsumer_name`.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        log_name: str,
        consumer_name: str,
        *,
        on_event: EventHandler | None = None,
        on_batch: BatchHandler | None = None,
        retry: RetryPolicy | None = None,
        dead_letters: bool = False,
        own_transactions: bool = False,
        register: bool = True,
        subconsumer_name: str | None = None,
        dead_interval_s: float | None = None,
        min_count: int | None = None,
        min_interval_s: float | None = None,
        min_lag_s: float | None = None,
        poll_interval_s: float = 1.0,
        ticks: bool = True,
    ) -> None:
        """Prepare a consumer without opening anything. Pass either `on_event` or `on_batch`.

        Args:
            pool: Connection pool; `run` holds one connection of it.
            log_name: An existing log.
            consumer_name: Name under which the position is stored.
            on_event: Called with a connection in a transaction, and an event. It must not commit or roll back. It may
                return or raise `Retry` (counts as an attempt under `retry`; unlimited without a policy), `Release`
                (does not count) or `Reject`. If returned, its writes are kept; if raised, its writes for this event
                are rolled back.
            on_batch: Called with a connection in a transaction, and an `EventBatch` to read events from.
            retry: Policy for errors of `on_event`: roll back its writes for this event, redeliver the event after an
                increasing back-off, and continue with the next. After the last attempt, or without a policy, the
                error stops the consumer, and the batch is redelivered after a restart. A batch with a failed event is
                processed twice: the first transaction is rolled back.
            dead_letters: Dead-letter events that are rejected or whose last attempt failed, and continue.
            own_transactions: The handler's connection is in autocommit mode and the handler manages its own
                transactions; the batch is finished afterwards. For effects outside the database: at least once.
            register: Register the consumer at the latest tick when `run` or the first `run_once` starts.
            subconsumer_name: Work as one of several subconsumers that share the batches of `consumer_name`.
            dead_interval_s: Take over the batch of a subconsumer inactive for this many seconds; None: never.
            min_count: Minimum events per batch, approximate, if available.
            min_interval_s: Minimum time span of a batch in seconds, if available.
            min_lag_s: Skip ticks younger than this many seconds.
            poll_interval_s: Poll interval in seconds when no tick notification arrives, more than 0.
            ticks: Tick the log when a tick is overdue by the log's own settings, so that no ticker is required.
                A role without the privilege to tick leaves it to a ticker.
        """
        require_pool(pool, AsyncConnectionPool)
        if (on_event is None) == (on_batch is None):
            raise ArgumentError("pass either on_event or on_batch")
        if on_event is None and (retry is not None or dead_letters):
            raise ArgumentError("retry and dead_letters require on_event")
        if dead_letters and retry is None:
            raise ArgumentError("dead_letters requires retry, which sets the number of attempts")
        require_positive_s(poll_interval_s, "poll_interval_s")
        if dead_interval_s is not None and subconsumer_name is None:
            raise ArgumentError("dead_interval_s requires subconsumer_name")
        self._pool = pool
        self._log_name = log_name
        self._consumer_name = consumer_name
        self._on_event = on_event
        self._on_batch = on_batch
        self._retry = retry
        self._dead_letters = dead_letters
        self._own_transactions = own_transactions
        self._is_registered = not register
        self._subconsumer_name = subconsumer_name
        self._dead_interval = _interval(dead_interval_s)
        self._collect = (_interval(min_lag_s), min_count, _interval(min_interval_s))
        self._poll_interval_s = poll_interval_s
        self._ticks = ticks
        # Called for each failed event with the decision; `ConsumerLane` sets it.
        self.on_decided: Callable[[Event, RetryDecision], None] = lambda _event, _decided: None
        self._tick_at_s = 0.0
        self._failures = FailureLog()

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until `stop` is set; the current batch is finished first.

        Lost connections and conflicts with other transactions are retried with increasing back-off.

        Raises:
            PositionLostError: The consumer's position was given up.
            SluiceError: A permanent error, such as a log that does not exist.
            Exception: Raised by the handler; its batch is rolled back and still open.
        """
        backoff = Backoff(self._name, _log.log, delay_max_s=DELAY_MAX_S)
        try:
            while not stop.is_set():
                async with backoff.async_attempt(stop), async_leased(self._pool) as connection:
                    await self._serve(connection, stop, backoff)
        finally:
            self._failures.flush()

    async def run_once(self) -> ConsumedBatch | None:
        """Consume one batch.

        Returns:
            The result; None if there is no batch now, or another session of this consumer is active.

        Raises:
            BatchNotFoundError: Another session finished the batch meanwhile; everything was rolled back.
            SluiceError: A database error.
            Exception: Raised by the handler; everything was rolled back, and the batch is still open.
        """
        async with async_leased(self._pool) as connection:
            await self._register(connection)
            try:
                return await self._round(connection)
            except BusyError:
                return None

    async def _serve(
        self, connection: AsyncConnection[Any], stop: asyncio.Event, backoff: Backoff
    ) -> None:
        """Consume on one connection that listens for ticks."""
        await self._register(connection)
        log = AsyncEventLog(connection)
        await log.listen_log(self._log_name)
        try:
            while not stop.is_set():
                try:
                    consumed = await self._round(connection)
                except BusyError:
                    _log.info(
                        'consumer waiting source="%s" reason="another session is active"',
                        self._name,
                    )
                    await async_pause(stop, _BUSY_S)
                    continue
                except BatchNotFoundError as error:
                    _log.warning('batch lost source="%s" error="%s"', self._name, error)
                    continue
                backoff.succeeded()
                if consumed is not None:
                    # The next round covers every tick notified so far.
                    await self._drain_notifications(connection, 0.0)
                elif not await self._tick(log):
                    await self._wait(connection, stop)
        finally:
            if connection.info.transaction_status == TransactionStatus.IDLE:
                await log.unlisten_log(self._log_name)

    async def _round(self, connection: AsyncConnection[Any]) -> ConsumedBatch | None:
        """Open a batch, handle and finish it."""
        batch_id = await self._open(connection)
        if batch_id is None:
            return None
        self._tick_at_s = time.monotonic() + _TICK_S
        with passing_failures():
            if self._own_transactions:
                return await self._consume_apart(connection, batch_id)
            try:
                return await self._consume(connection, batch_id, is_careful=False)
            except Outcome:
                pass
            except Exception as error:
                if self._retry is None or self._on_event is None or is_passing(error):
                    raise
            # The failed event is unknown, and its writes cannot be undone alone in that transaction. This one sets a
            # savepoint per event; without failures it would cost two more round trips for each event.
            return await self._consume(connection, batch_id, is_careful=True)

    async def _open(self, connection: AsyncConnection[Any]) -> int | None:
        call: Call[int | None]
        if self._subconsumer_name is None:
            call = logs.open_batch(
                self._log_name, self._consumer_name, self._collect, _LOCK_TIMEOUT_MS
            )
        else:
            call = logs.open_coop_batch(
                self._log_name,
                self._consumer_name,
                self._subconsumer_name,
                self._collect,
                self._dead_interval,
                _LOCK_TIMEOUT_MS,
            )
        try:
            return await AsyncRunner(connection).run(call)
        except RetryableError as error:
            if error.sqlstate == "55P03":  # lock_not_available
                raise BusyError from error
            raise

    async def _consume(
        self, connection: AsyncConnection[Any], batch_id: int, *, is_careful: bool
    ) -> ConsumedBatch:
        """Handle and finish a batch in one transaction."""
        progress = BatchProgress(batch_id)
        batch = self._batch(connection, batch_id, progress)
        async with connection.transaction():
            try:
                await AsyncEventLog(connection).hold_batch(batch_id)
            except LogStateError as error:
                raise BusyError from error
            if self._on_batch is not None:
                await self._call_with_batch(connection, batch)
                require_status(connection, TransactionStatus.INTRANS)
            else:
                async with aclosing(batch.events()) as events:
                    async for event in events:
                        if is_careful:
                            await self._attempt(connection, progress, event)
                        else:
                            await self._handle(connection, progress, event)
            await self._finish(connection, batch_id, progress)
        return progress.consumed()

    async def _consume_apart(
        self, connection: AsyncConnection[Any], batch_id: int
    ) -> ConsumedBatch:
        """Handle a batch outside of our transactions, then finish it."""
        progress = BatchProgress(batch_id)
        batch = self._batch(connection, batch_id, progress)
        if self._on_batch is not None:
            await self._call_with_batch(connection, batch)
            require_status(connection, TransactionStatus.IDLE)
        else:
            async with aclosing(batch.events()) as events:
                async for event in events:
                    await self._attempt(connection, progress, event)
        async with connection.transaction():
            await self._finish(connection, batch_id, progress)
        return progress.consumed()

    async def _call_with_batch(
        self, connection: AsyncConnection[Any], batch: AsyncEventBatch
    ) -> None:
        assert self._on_batch is not None  # noqa: S101 - checked by the callers
        close_in_forks(connection)
        pid = os.getpid()
        try:
            await self._on_batch(connection, batch)
        finally:
            end_fork(pid, sys.exception())

    async def _handle(
        self, connection: AsyncConnection[Any], progress: BatchProgress, event: Event
    ) -> None:
        assert self._on_event is not None  # noqa: S101 - __init__ requires one of the two
        status = connection.info.transaction_status
        close_in_forks(connection)
        pid = os.getpid()
        try:
            outcome = await self._on_event(connection, event)
        except Done:
            outcome = None
        finally:
            end_fork(pid, sys.exception())
        require_status(connection, status)
        if isinstance(outcome, Outcome):
            await self._apply(connection, progress, event, outcome)

    async def _attempt(
        self, connection: AsyncConnection[Any], progress: BatchProgress, event: Event
    ) -> None:
        """Handle one event so that its failure does not affect the others."""
        try:
            if self._own_transactions:
                await self._handle(connection, progress, event)
            else:
                async with connection.transaction():  # a savepoint
                    await self._handle(connection, progress, event)
        except Outcome as outcome:
            await self._apply(connection, progress, event, outcome)
        except EventFailedError as error:
            await self._fail(connection, progress, event, error, error.outcome, error.policy)
        except Exception as error:
            if self._retry is None or is_passing(error):
                raise
            if (
                self._own_transactions
                and connection.info.transaction_status != TransactionStatus.IDLE
            ):
                await connection.rollback()
            await self._fail(connection, progress, event, error, Retry(), self._retry)

    async def _apply(
        self,
        connection: AsyncConnection[Any],
        progress: BatchProgress,
        event: Event,
        outcome: Outcome,
    ) -> None:
        """Apply the outcome that a handler returned or raised."""
        match outcome:
            case Release():
                progress.again(event, outcome.delay_s)
            case Retry() | Reject():
                policy = self._retry or RetryPolicy(max_attempts=ATTEMPTS_MAX)
                await self._fail(connection, progress, event, outcome, outcome, policy)

    async def _fail(
        self,
        connection: AsyncConnection[Any],
        progress: BatchProgress,
        event: Event,
        error: Exception,
        outcome: Retry | Reject,
        policy: RetryPolicy,
    ) -> None:
        """Retry or dead-letter an event, as the server decides; raise its error if the consumer has no dead letters."""
        decided = await AsyncRunner(connection).run(
            retries.decide_retry(attempt_of(event), outcome, policy.options)
        )
        self.on_decided(event, decided)
        if decided.delay_s is not None:
            progress.again(event, decided.delay_s)
            if not isinstance(error, Outcome):
                self._report(event, error, "retry", decided.delay_s)
            return
        if not self._dead_letters:
            raise error
        failure = error.failure if isinstance(error, EventFailedError) else failure_of(error)
        progress.rejected.append(
            FailedEvent(
                event.ev_id,
                decided.reason or "",
                failure.error_type,
                failure.message,
                failure.trace,
            )
        )
        self._report(event, error, "dead")

    def _report(
        self, event: Event, error: Exception, result: str, next_retry_s: float | None = None
    ) -> None:
        """Log a failure unless `ConsumerLane` logs it."""
        if not isinstance(error, EventFailedError):
            self._failures.report(
                Origin((("log", self._log_name), ("consumer", self._consumer_name)), "ev_id"),
                event.ev_id,
                attempt_of(event),
                failure_of(error),
                result,
                next_retry_s=next_retry_s,
                payload=event.ev_data,
            )

    async def _finish(
        self, connection: AsyncConnection[Any], batch_id: int, progress: BatchProgress
    ) -> None:
        log = AsyncEventLog(connection)
        for delay_s, ev_ids in progress.ev_ids_again.items():
            await log.retry(batch_id, ev_ids, delay=timedelta(seconds=delay_s))
        if progress.rejected:
            await log.reject_events(batch_id, progress.rejected)
        finish = log.finish_batch if self._subconsumer_name is None else log.coop_finish_batch
        is_ours = await finish(batch_id)
        if not is_ours:
            raise BatchNotFoundError(
                f"batch {batch_id} is not open any more: another session finished it or took it over; the writes of "
                "this session in the batch's transaction are rolled back"
            )

    async def _register(self, connection: AsyncConnection[Any]) -> None:
        if self._is_registered:
            return
        log = AsyncEventLog(connection)
        if self._subconsumer_name is None:
            await log.register_consumer(self._log_name, self._consumer_name)
        else:
            await log.register_subconsumer(
                self._log_name, self._consumer_name, self._subconsumer_name
            )
        # Once: a consumer that is unregistered later must fail, not restart at another position.
        self._is_registered = True

    async def _tick(self, log: AsyncEventLog) -> bool:
        """Tick if a tick is overdue; return True if there is a new tick."""
        now_s = time.monotonic()
        if not self._ticks or now_s < self._tick_at_s:
            return False
        self._tick_at_s = now_s + _TICK_S
        try:
            return await log.ticker(self._log_name) is not None
        except PrivilegeError:
            _log.info('missing privilege to tick source="%s" hint="run a ticker"', self._name)
            self._ticks = False
        except LogStateError:
            pass  # paused or ticked externally; either may change while this runs
        return False

    async def _wait(self, connection: AsyncConnection[Any], stop: asyncio.Event) -> None:
        """Wait for a tick notification or the end of the poll interval."""
        end_s = time.monotonic() + self._poll_interval_s
        while not stop.is_set() and (rest_s := end_s - time.monotonic()) > 0:
            if await self._drain_notifications(connection, min(rest_s, _STOP_LOOK_S)):
                return

    async def _drain_notifications(
        self, connection: AsyncConnection[Any], timeout_s: float
    ) -> bool:
        """Drain pending notifications, waiting up to `timeout_s` for the first; True if one announces a tick."""
        is_ticked = False
        with passing_failures():
            async for notification in connection.notifies(timeout=timeout_s, stop_after=1):
                # A notification without a tick id is for share groups.
                is_ticked = is_ticked or notification.payload != ""
        return is_ticked

    def _batch(
        self, connection: AsyncConnection[Any], batch_id: int, progress: BatchProgress
    ) -> AsyncEventBatch:
        return AsyncEventBatch(connection, self._log_name, self._consumer_name, batch_id, progress)

    @property
    def _name(self) -> str:
        return f"consumer {self._consumer_name} of log {self._log_name}"


def _interval(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
