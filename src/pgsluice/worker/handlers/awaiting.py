"""Wait for the results of messages: by notifications, and by polling in case none arrives."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client._async.shard_runner import AsyncShardRunner
from pgsluice.client._sync.runner import Runner
from pgsluice.client._sync.shard_runner import ShardRunner
from pgsluice.client.calls import results
from pgsluice.client.payload_type import PayloadType
from pgsluice.client.result_records import MessageResult
from pgsluice.errors import (
    TRANSIENT,
    ArgumentError,
    MessageFailedError,
    ResultNotKeptError,
    ResultTimeoutError,
    SluiceError,
)
from pgsluice.ranges import is_number
from pgsluice.worker.handlers.handler import HandlerSpec, QueueRoute
from pgsluice.worker.loops import call_soon

if TYPE_CHECKING:
    from pgsluice.worker.wakeups.subscription import Subscription

# Poll interval while notifications arrive: those for messages deleted by hand are missing.
_NOTIFIED_S = 5.0
# Else: the first and the longest.
_POLL_FIRST_S = 0.05
_POLL_MAX_S = 1.0


class Awaited:
    """The awaited result of one message: what to ask, how long to wait, and what to return. No I/O."""

    def __init__(self, spec: HandlerSpec, msg_id: int, timeout_s: float) -> None:
        """Start the timeout.

        Args:
            spec: The handler.
            msg_id: The message.
            timeout_s: Seconds, 0 or more.

        Raises:
            ArgumentError: The handler keeps no results, or an argument is invalid.
        """
        if spec.result_type is None or not isinstance(spec.route, QueueRoute):
            raise ArgumentError(
                f"handler {spec.name!r} keeps no results; declare it with keep_result="
            )
        if not is_number(timeout_s, 0) and timeout_s != math.inf:
            raise ArgumentError(f"timeout_s is {timeout_s!r}; use 0 or more seconds")
        self.queue_name = spec.route.queue_name
        self.msg_id = msg_id
        self.call = results.get_result(self.queue_name, msg_id)
        self._type: PayloadType = spec.result_type
        self._timeout_s = timeout_s
        self._end_s = time.monotonic() + timeout_s
        self._poll_s = _POLL_FIRST_S

    def wait_s(self, *, is_notified: bool) -> float:
        """Return the seconds to wait for a notification before the next query."""
        rest_s = max(0.0, self._end_s - time.monotonic())
        if is_notified:
            return min(rest_s, _NOTIFIED_S)
        poll_s, self._poll_s = self._poll_s, min(self._poll_s * 2, _POLL_MAX_S)
        return min(rest_s, poll_s)

    def require_time(self, error: SluiceError | None = None) -> None:
        """Raise when the timeout has passed.

        Raises:
            ResultTimeoutError: It has.
        """
        if time.monotonic() >= self._end_s:
            raise ResultTimeoutError(
                f"message {self.msg_id} of queue {self.queue_name!r} was not settled within {self._timeout_s:g} s",
                "wait again, or longer; if an open transaction has sent it, commit that first",
            ) from error

    def value(self, found: MessageResult) -> Any:
        """Return the result of a message that is final, as the type of the handler.

        Raises:
            MessageFailedError: It was dead-lettered.
            ResultNotKeptError: No result is kept.
            PayloadError: The result does not match the type.
        """
        where = f"message {self.msg_id} of queue {self.queue_name!r}"
        if found.state == "dead":
            kind = "" if found.error_type is None else f"{found.error_type}: "
            raise MessageFailedError(f"{where} was dead-lettered: {kind}{found.error}")
        if found.state == "gone":
            raise ResultNotKeptError(
                f"{where} has no result: it was deleted, cancelled or never sent, or its result has expired",
                "if an open transaction has sent it, commit that first",
            )
        if found.expires_at is None:
            raise ResultNotKeptError(
                f"{where} is archived without a result: the result has expired, or the message was not archived by a "
                "handler with keep_result"
            )
        return None if found.result is None else self._type.decode(found.result)


def wait_for_result(
    awaited: Awaited,
    runner: Runner | ShardRunner,
    subscribe: Callable[[threading.Event], Subscription],
) -> Any:
    """Return the result of a message.

    Args:
        awaited: The message.
        runner: Runs the queries.
        subscribe: Returns a subscription to the result, given the event that it sets.

    Raises:
        SluiceError: As for `Handler.result`.
    """
    found = runner.run(awaited.call)
    if found.is_final:
        return awaited.value(found)
    awaited.require_time()
    woken = threading.Event()
    with subscribe(woken) as subscription:
        while True:
            woken.wait(awaited.wait_s(is_notified=subscription.is_reliable))
            woken.clear()
            try:
                found = runner.run(awaited.call)
            except TRANSIENT as error:  # such as a restart of the server
                awaited.require_time(error)
                continue
            if found.is_final:
                return awaited.value(found)
            awaited.require_time()


async def wait_for_result_async(
    awaited: Awaited,
    runner: AsyncRunner | AsyncShardRunner,
    subscribe: Callable[[threading.Event], Awaitable[Subscription]],
) -> Any:
    """Like `wait_for_result`, in an event loop."""
    found = await runner.run(awaited.call)
    if found.is_final:
        return awaited.value(found)
    awaited.require_time()
    woken = _LoopEvent()
    with await subscribe(woken) as subscription:
        while True:
            await woken.wait_for(awaited.wait_s(is_notified=subscription.is_reliable))
            try:
                found = await runner.run(awaited.call)
            except TRANSIENT as error:
                awaited.require_time(error)
                continue
            if found.is_final:
                return awaited.value(found)
            awaited.require_time()


class _LoopEvent(threading.Event):
    """Event that the listener's thread sets and a task waits for."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def set(self) -> None:
        call_soon(self._loop, self._woken.set)

    async def wait_for(self, timeout_s: float) -> None:
        """Wait until it is set, or for `timeout_s` seconds; then clear it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        self._woken.clear()
