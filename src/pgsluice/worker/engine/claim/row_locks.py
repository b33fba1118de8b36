"""Renew and settle messages without waiting for rows locked by other transactions."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from psycopg.errors import LockNotAvailable

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import Call, Steps, retries, upkeep
from pgsluice.errors import RetryableError
from pgsluice.worker.engine.delivery import Delivery

Result = TypeVar("Result")
Answer = TypeVar("Answer")
Results = dict[Delivery, Result]

# A statement that has no result after this long may wait for a row lock.
_WAIT_S = 1.0
# For this long after a locked row was found, check for locks first: it costs a round trip, and nothing blocks.
_CAREFUL_S = 10.0


class RowLocks:
    """Run calls for the messages of a queue around row locks of other transactions.

    A call first runs without checks. If it takes longer than a second it is cancelled, and runs again in a transaction
    that first locks the rows without waiting; messages with locked rows are left out.
    """

    def __init__(self, queue_name: str) -> None:
        """Prepare for the messages of a queue."""
        self._queue_name = queue_name
        self._careful_until_s = 0.0

    async def run(
        self,
        runner: AsyncRunner,
        deliveries: Sequence[Delivery],
        calls_for: Callable[[Sequence[Delivery]], Sequence[Call[Results[Result]]]],
        *,
        wait_s: float | None = None,
        first_wait_s: float = _WAIT_S,
        on_cancel: Callable[[], None] = lambda: None,
    ) -> Results[Result]:
        """Run calls in one transaction, and set `is_locked` of each delivery.

        Args:
            runner: Runs the calls.
            deliveries: The messages.
            calls_for: Makes the calls for some deliveries; each call returns results by delivery.
            wait_s: Lock timeout in seconds; None: no wait shortly after a locked row was found, else
                `first_wait_s`.
            first_wait_s: Timeout of the first try without `wait_s`.
            on_cancel: Called when a call was cancelled; it may have been executed.

        Returns:
            The results, without locked messages.
        """
        if wait_s is not None or time.monotonic() >= self._careful_until_s:
            try:
                async with asyncio.timeout(first_wait_s if wait_s is None else wait_s) as limit:
                    results = await _run(runner, calls_for(deliveries))
            except TimeoutError:
                if not limit.expired():
                    raise
                on_cancel()
            else:
                for delivery in deliveries:
                    delivery.is_locked = False
                return results
        results = await runner.run_steps(self._without_locked(deliveries, calls_for))
        if any(delivery.is_locked for delivery in deliveries):
            self._careful_until_s = time.monotonic() + _CAREFUL_S
        return results

    def _without_locked(
        self,
        deliveries: Sequence[Delivery],
        calls_for: Callable[[Sequence[Delivery]], Sequence[Call[Results[Result]]]],
    ) -> Steps[Results[Result]]:
        raws = [delivery.raw for delivery in deliveries]
        locked = set((yield retries.try_lock_messages(self._queue_name, raws)))
        for delivery in deliveries:
            delivery.is_locked = delivery.message_id in locked
        free = [delivery for delivery in deliveries if not delivery.is_locked]
        if not free:
            return {}
        return (yield from merged(calls_for(free)))


async def _run(runner: AsyncRunner, calls: Sequence[Call[Results[Result]]]) -> Results[Result]:
    if len(calls) == 1:
        return await runner.run(calls[0])
    return await runner.run_steps(merged(calls))


def merged(
    calls: Sequence[Call[Results[Result]]], wait_s: float | None = None
) -> Steps[Results[Result]]:
    """Run calls in order, with a lock timeout of `wait_s` seconds; return all their results."""
    results: Results[Result] = {}
    if wait_s is not None:
        yield upkeep.wait_for_locks(math.ceil(wait_s * 1_000))
    for call in calls:
        results |= yield call
    return results


def limited(call: Call[Answer], wait_s: float) -> Steps[Answer]:
    """Run a call with a lock timeout of `wait_s` seconds."""
    yield upkeep.wait_for_locks(math.ceil(wait_s * 1_000))
    answer: Answer = yield call
    return answer


def is_locked(error: RetryableError) -> bool:
    """True if a call failed by its lock timeout."""
    return isinstance(error.__cause__, LockNotAvailable)


# Lock timeout in seconds for a pool of one connection.
_ALONE_S = 0.2


class LockWaits:
    """Allow lock waits on at most half of the connections of a pool.

    A call that waits for a lock keeps its connection. All lanes of a worker share the engine's connections: without
    this limit a few locked messages would occupy all connections, and the leases of other messages would expire.
    """

    def __init__(self, connections: int) -> None:
        """Prepare the limit for a pool of at most `connections`, 1 or more."""
        self._free = asyncio.Semaphore(max(1, connections // 2))
        self._is_alone = connections < 2

    @asynccontextmanager
    async def turn(self, wait_s: float) -> AsyncGenerator[float]:
        """Wait for permission to wait for a lock; yield the lock timeout, at most `wait_s` seconds."""
        async with self._free:
            yield min(wait_s, _ALONE_S) if self._is_alone else wait_s
