"""Opens tick batches of an event log, calls a handler, and finishes each batch in the handler's own transaction."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from contextlib import aclosing
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from pgsluice.backoff import DELAY_MAX_S, Backoff, async_pause
from pgsluice.client import AsyncEventLog, AsyncWorkQueue, Event
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import Call, logs
from pgsluice.errors import (
    ArgumentError,
    BatchNotFoundError,
    LogStateError,
    PrivilegeError,
    RetryableError,
)
from pgsluice.outcome import Done, Outcome, Release, Retry
from pgsluice.worker.engine._async.event_batch import AsyncEventBatch, BatchHandler, EventHandler
from pgsluice.worker.engine._async.lease import async_leased
from pgsluice.worker.engine.consumed_batch import (
    BatchProgress,
    ConsumedBatch,
    attempt_of,
    dead_letter,
    dead_letter_headers,
)
from pgsluice.worker.engine.failure_log import FailureLog, Origin
from pgsluice.worker.engine.failures import (
    BusyError,
    EventFailedError,
    is_passing,
    passing_failures,
    require_status,
)
from pgsluice.worker.engine.settlement import failure_of
from pgsluice.worker.forks import close_in_forks, end_fork
from pgsluice.worker.handlers.retry import ATTEMPTS_MAX, RetryPolicy

_log = logging.getLogger(__name__)
_STOP_LOOK_S = 0.1
# How long to wait for another session of the same consumer, and until the next look at whether it is still there.
_LOCK_TIMEOUT_MS = 1_000
_BUSY_S = 1.0
# How often a consumer that has nothing to do looks whether a tick is overdue.
_TICK_S = 1.0


class AsyncEventConsumer:
    """Run a handler for the events of a log, batch by batch, each event once and in the order of the log.

    The handler gets a connection in an open transaction, and the batch is finished in that same transaction: what the
    handler writes there has an exactly-once effect, although delivery is at least once. When the process dies or the
    handler raises, all of it is rolled back, and the same batch comes again.

    No two sessions process one batch: a second consumer of the same name stands by. To share the work, give each a
    `subconsumer_name`.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        queue_name: str,
        consumer_name: str,
        *,
        on_event: EventHandler | None = None,
        on_batch: BatchHandler | None = None,
        retry: RetryPolicy | None = None,
        dead_letter_queue: str | None = None,
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
        """Prepare a consumer; nothing is opened yet. Give either `on_event` or `on_batch`.

        Args:
            pool: Gives the connection; `run` keeps one.
            queue_name: An existing log.
            consumer_name: Its position is kept under this name.
            on_event: Called with a connection in a transaction, and an event. It must not commit or roll back. It may
                return or raise `Retry` (an attempt that counts towards `retry`; without it there is no limit),
                `Release` (one that does not count) or `Reject`: returned,
                what it wrote stays; raised, what it wrote for this event is rolled back.
            on_batch: Called with a connection in a transaction, and an `EventBatch` to read events from.
            retry: What to do when `on_event` raises: roll back what it did for this event, deliver the event again
                after a growing delay, and go on with the next. After the last attempt, or without a policy, the
                error ends the consumer, and the batch comes again when it is started again. A batch in which an event
                fails is handled twice: the first time is rolled back.
            dead_letter_queue: A work queue that gets the events whose last attempt failed; the consumer goes on.
            own_transactions: The handler's connection is in autocommit mode, and the handler's transactions are its
                own; the batch is finished after it. For effects elsewhere: each happens at least once.
            register: Register the consumer when `run` or the first `run_once` begins, from the latest tick on.
            subconsumer_name: Work as one of several that share the batches of `consumer_name`.
            dead_interval_s: Take over the batch of a subconsumer that was not active for so long; None: never.
            min_count: Collect about so many events into a batch, if there are.
            min_interval_s: Collect the events of so many seconds into a batch, if there are.
            min_lag_s: Take no events whose tick is younger.
            poll_interval_s: Seconds between two looks when nothing is heard of ticks, more than 0.
            ticks: Tick the log when a tick is overdue by the log's own settings, as when no ticker runs. A role that
                may not tick leaves it to others.
        """
        if (on_event is None) == (on_batch is None):
            raise ArgumentError("give either on_event or on_batch")
        if on_event is None and (retry is not None or dead_letter_queue is not None):
            raise ArgumentError("retry and dead_letter_queue go with on_event")
        if dead_letter_queue is not None and retry is None:
            raise ArgumentError("dead_letter_queue goes with retry, which says when to give up")
        if not poll_interval_s > 0:
            raise ArgumentError(f"poll_interval_s is {poll_interval_s}; use more than 0 seconds")
        if dead_interval_s is not None and subconsumer_name is None:
            raise ArgumentError("dead_interval_s goes with subconsumer_name")
        self._pool = pool
        self._queue_name = queue_name
        self._consumer_name = consumer_name
        self._on_event = on_event
        self._on_batch = on_batch
        self._retry = retry
        self._dead_letter_queue = dead_letter_queue
        self._own_transactions = own_transactions
        self._is_registered = not register
        self._subconsumer_name = subconsumer_name
        self._dead_interval = _interval(dead_interval_s)
        self._collect = (_interval(min_lag_s), min_count, _interval(min_interval_s))
        self._poll_interval_s = poll_interval_s
        self._ticks = ticks
        self._tick_at_s = 0.0
        self._failures = FailureLog()

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until `stop` is set; the batch in hand is finished first.

        A lost connection, and a conflict with another transaction, is waited out with growing delays.

        Raises:
            PositionLostError: The consumer's position was given up.
            SluiceError: Another thing that waiting does not mend, such as a log that does not exist.
            Exception: What the handler raised; its batch is rolled back and still open.
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
            What became of it; None when there is none now, or another session of this consumer is at work.

        Raises:
            BatchNotFoundError: Another session finished the batch meanwhile; everything was rolled back.
            SluiceError: The server failed.
            Exception: What the handler raised; everything was rolled back, and the batch is still open.
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
        """Consume on one connection, which hears of ticks."""
        await self._register(connection)
        log = AsyncEventLog(connection)
        await log.listen_log(self._queue_name)
        try:
            while not stop.is_set():
                try:
                    consumed = await self._round(connection)
                except BusyError:
                    _log.info("%s: another session is at work", self._name)
                    await async_pause(stop, _BUSY_S)
                    continue
                except BatchNotFoundError as error:
                    _log.warning("%s: %s", self._name, error)
                    continue
                backoff.succeeded()
                if consumed is not None:
                    # What was heard up to here is answered by the next look.
                    await self._hear(connection, 0.0)
                elif not await self._tick(log):
                    await self._wait(connection, stop)
        finally:
            if connection.info.transaction_status == TransactionStatus.IDLE:
                await log.unlisten_log(self._queue_name)

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
            # Which event it was, and what it wrote, cannot be taken out of that transaction any more. In this one each
            # event has a savepoint; without failures they would cost two more round trips for each event.
            return await self._consume(connection, batch_id, is_careful=True)

    async def _open(self, connection: AsyncConnection[Any]) -> int | None:
        call: Call[int | None]
        if self._subconsumer_name is None:
            call = logs.open_batch(
                self._queue_name, self._consumer_name, self._collect, _LOCK_TIMEOUT_MS
            )
        else:
            call = logs.open_coop_batch(
                self._queue_name,
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
        progress = BatchProgress()
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
        return progress.consumed(batch_id)

    async def _consume_apart(
        self, connection: AsyncConnection[Any], batch_id: int
    ) -> ConsumedBatch:
        """Handle a batch outside of any transaction of ours, and finish it then."""
        progress = BatchProgress()
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
        return progress.consumed(batch_id)

    async def _call_with_batch(
        self, connection: AsyncConnection[Any], batch: AsyncEventBatch
    ) -> None:
        assert self._on_batch is not None  # noqa: S101 - asked by the callers
        close_in_forks(connection)
        pid = os.getpid()
        try:
            await self._on_batch(connection, batch)
        finally:
            end_fork(pid, sys.exception())

    async def _handle(
        self, connection: AsyncConnection[Any], progress: BatchProgress, event: Event
    ) -> None:
        assert self._on_event is not None  # noqa: S101 - of the two, one is given
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
        """Handle one event so that its failure leaves the others alone."""
        try:
            if self._own_transactions:
                await self._handle(connection, progress, event)
            else:
                async with connection.transaction():  # a savepoint
                    await self._handle(connection, progress, event)
        except Outcome as outcome:
            await self._apply(connection, progress, event, outcome)
        except Exception as error:
            if self._retry is None or is_passing(error):
                raise
            if (
                self._own_transactions
                and connection.info.transaction_status != TransactionStatus.IDLE
            ):
                await connection.rollback()
            delay_s = self._retry.next_delay_s(attempt_of(event))
            if delay_s is None:
                await self._bury(connection, progress, event, error)
            else:
                self._report(event, error, "retry", delay_s)
                progress.again(event, delay_s)

    async def _apply(
        self,
        connection: AsyncConnection[Any],
        progress: BatchProgress,
        event: Event,
        outcome: Outcome,
    ) -> None:
        """Apply what a handler returned or raised."""
        delay_s: float | None
        match outcome:
            case Done():
                return
            case Release():
                delay_s = outcome.delay_s
            case Retry():
                policy = self._retry or RetryPolicy(max_attempts=ATTEMPTS_MAX)
                delay_s = policy.next_delay_s(attempt_of(event), outcome.delay_s)
            case _:
                delay_s = None
        if delay_s is None:
            await self._bury(connection, progress, event, outcome)
        else:
            progress.again(event, delay_s)

    async def _bury(
        self,
        connection: AsyncConnection[Any],
        progress: BatchProgress,
        event: Event,
        error: Exception,
    ) -> None:
        """Send an event to the dead letters; raise its error where there are none."""
        if self._dead_letter_queue is None:
            raise error
        await AsyncWorkQueue(connection).send(
            self._dead_letter_queue,
            dead_letter(self._queue_name, self._consumer_name, event),
            headers=dead_letter_headers(error, attempt_of(event)),
        )
        self._report(event, error, "dead")
        progress.dead += 1

    def _report(
        self, event: Event, error: Exception, result: str, next_retry_s: float | None = None
    ) -> None:
        """Log a failure, unless the handler's own lane does."""
        if not isinstance(error, EventFailedError):
            self._failures.report(
                Origin((("log", self._queue_name), ("consumer", self._consumer_name)), "ev_id"),
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
        finish = log.finish_batch if self._subconsumer_name is None else log.coop_finish_batch
        is_ours = await finish(batch_id)
        if not is_ours:
            raise BatchNotFoundError(
                f"batch {batch_id} is not open any more: another session finished it or took it over; what "
                "this one wrote in the batch's transaction is rolled back"
            )

    async def _register(self, connection: AsyncConnection[Any]) -> None:
        if self._is_registered:
            return
        log = AsyncEventLog(connection)
        if self._subconsumer_name is None:
            await log.register_consumer(self._queue_name, self._consumer_name)
        else:
            await log.register_subconsumer(
                self._queue_name, self._consumer_name, self._subconsumer_name
            )
        # Once: whoever is unregistered later must hear of it, and not begin anew at another position.
        self._is_registered = True

    async def _tick(self, log: AsyncEventLog) -> bool:
        """Tick when nobody else has for too long; return whether there is a new tick."""
        now_s = time.monotonic()
        if not self._ticks or now_s < self._tick_at_s:
            return False
        self._tick_at_s = now_s + _TICK_S
        try:
            return await log.ticker(self._queue_name) is not None
        except PrivilegeError:
            _log.info("%s: may not tick; a ticker must run", self._name)
            self._ticks = False
        except LogStateError:
            pass  # paused, or ticked from outside; that may end while this runs
        return False

    async def _wait(self, connection: AsyncConnection[Any], stop: asyncio.Event) -> None:
        """Wait until a tick is heard of, or it is time for a look."""
        end_s = time.monotonic() + self._poll_interval_s
        while not stop.is_set() and (rest_s := end_s - time.monotonic()) > 0:
            if await self._hear(connection, min(rest_s, _STOP_LOOK_S)):
                return

    async def _hear(self, connection: AsyncConnection[Any], timeout_s: float) -> bool:
        """Take in all notifications there are, wait so long for the first; whether one is of a tick."""
        is_heard = False
        with passing_failures():
            async for heard in connection.notifies(timeout=timeout_s, stop_after=1):
                # Without a tick's number it is for share groups, which need none.
                is_heard = is_heard or heard.payload != ""
        return is_heard

    def _batch(
        self, connection: AsyncConnection[Any], batch_id: int, progress: BatchProgress
    ) -> AsyncEventBatch:
        return AsyncEventBatch(
            connection, self._queue_name, self._consumer_name, batch_id, progress
        )

    @property
    def _name(self) -> str:
        return f"consumer {self._consumer_name} of log {self._queue_name}"


def _interval(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
